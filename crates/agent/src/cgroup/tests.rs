use super::*;

fn fake_v2() -> tempfile::TempDir {
    let root = tempfile::tempdir().unwrap();
    fs::write(root.path().join("cgroup.controllers"), "cpu memory pids\n").unwrap();
    root
}

const WANTED: Wanted = Wanted {
    cpus: Some(0.5),
    cpus_limit: Some(1.5),
    mem: Some(32 << 20),
    mem_limit: Some(64 << 20),
};

#[test]
fn v2_limits_are_written_as_the_kernel_wants_them() {
    let root = fake_v2();
    let layout = Layout::detect(root.path());
    let given = layout.create("c1", None, WANTED).unwrap();
    let dir = root.path().join("longshore/c1");
    assert_eq!(given.cgroups.container, std::slice::from_ref(&dir));
    assert_eq!(given.cgroups.shims, [root.path().join("longshore/shims")]);
    assert_eq!(given.unenforced, [""; 0]);
    let read = |name: &str| fs::read_to_string(dir.join(name)).unwrap();
    assert_eq!(read("cpu.weight"), "20");
    assert_eq!(read("cpu.max"), "150000 100000");
    assert_eq!(read("memory.max"), (64 << 20).to_string());
    assert_eq!(read("memory.oom.group"), "1");
    let control = fs::read_to_string(root.path().join("cgroup.subtree_control")).unwrap();
    assert_eq!(control, "+cpu+memory+pids");
    let watch = given.cgroups.memory.unwrap();
    assert_eq!(
        watch,
        MemoryWatch {
            dir: dir.clone(),
            v2: true,
            limit_bytes: 64 << 20
        }
    );
    assert_eq!(memory_exceeded(&watch), None);
    fs::write(
        dir.join("memory.events"),
        "low 0\nmax 7\noom 1\noom_kill 1\n",
    )
    .unwrap();
    fs::write(dir.join("memory.peak"), "67108864\n").unwrap();
    assert_eq!(memory_exceeded(&watch), Some(64 << 20));
}

#[test]
fn a_nested_container_lives_below_its_parent() {
    let root = fake_v2();
    let layout = Layout::detect(root.path());
    let parent = layout.create("c1", None, Wanted::default()).unwrap();
    let nested = layout.create("n1", Some(&parent.cgroups), WANTED).unwrap();
    assert_eq!(
        nested.cgroups.container,
        [root.path().join("longshore/c1/n1")]
    );
    assert_eq!(nested.unenforced.len(), 2, "{:?}", nested.unenforced);
}

#[test]
fn a_host_without_cgroups_says_what_is_not_enforced() {
    let layout = Layout::none("switched off");
    let given = layout.create("c1", None, WANTED).unwrap();
    assert_eq!(
        given.unenforced,
        ["cpus: switched off", "mem: switched off"]
    );
    assert_eq!(given.cgroups, Cgroups::default());
    let given = layout.create("c1", None, Wanted::default()).unwrap();
    assert_eq!(given.unenforced, [""; 0]);
    let empty = tempfile::tempdir().unwrap();
    let given = Layout::detect(empty.path())
        .create("c1", None, WANTED)
        .unwrap();
    assert_eq!(given.unenforced.len(), 2);
}

#[test]
fn joining_and_killing_write_to_the_kernel_files() {
    let root = fake_v2();
    let given = Layout::detect(root.path())
        .create("c1", None, Wanted::default())
        .unwrap();
    let dir = root.path().join("longshore/c1");
    join(&given.cgroups.container).unwrap();
    assert_eq!(fs::read_to_string(dir.join("cgroup.procs")).unwrap(), "0");
    kill(&given.cgroups);
    assert!(
        !dir.join("cgroup.kill").exists(),
        "an older kernel has no such file"
    );
    fs::write(dir.join("cgroup.kill"), "").unwrap();
    kill(&given.cgroups);
    assert_eq!(fs::read_to_string(dir.join("cgroup.kill")).unwrap(), "1");
    fs::write(dir.join("cgroup.procs"), "17\n4\n17\n").unwrap();
    assert_eq!(pids(&given.cgroups), [4, 17]);
}

#[test]
fn shares_and_quotas_stay_within_what_the_kernel_takes() {
    for (cpus, expected) in [(0.0001, 2), (0.1, 102), (1.0, 1024), (1000.0, 262_144)] {
        assert_eq!(shares(cpus), expected, "{cpus}");
    }
    assert_eq!(shares(f64::NAN), 2);
    for (cpus, expected) in [
        (0.001, "1000"),
        (0.5, "50000"),
        (f64::INFINITY, "1000000000000"),
    ] {
        assert_eq!(quota(cpus), expected, "{cpus}");
    }
}
