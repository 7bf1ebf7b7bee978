//! Limits, on the cgroups of this machine where there are any and on a made-up root.

use super::*;
use longshore_agent::service::ExitReason;
use longshore_mesos_api::v1::{Resource, value};

fn with_resources(mut request: LaunchRequest, given: &[(&str, f64)]) -> LaunchRequest {
    request.resources = given
        .iter()
        .map(|(name, value)| Resource {
            name: (*name).to_owned(),
            scalar: Some(value::Scalar { value: *value }),
            ..Resource::default()
        })
        .collect();
    request
}

/// A cgroup v2 root of plain files.
fn fake_v2(node: &mut Node) -> PathBuf {
    let root = node.root.path().join("cgroup");
    std::fs::create_dir(&root).unwrap();
    std::fs::write(root.join("cgroup.controllers"), "cpu memory pids").unwrap();
    node.options.cgroup_root = Some(root.clone());
    root
}

/// The one container's directory below a cgroup hierarchy.
fn cgroup_of(hierarchy: &Path, name: &str) -> Option<PathBuf> {
    std::fs::read_dir(hierarchy.join("longshore"))
        .ok()?
        .map(|entry| entry.unwrap().path())
        .find(|path| {
            path.file_name()
                .unwrap()
                .to_str()
                .unwrap()
                .starts_with(&format!("{name}@"))
        })
}

#[tokio::test]
async fn v2_limits_are_written_and_the_init_is_in_the_cgroup() {
    let mut node = Node::new();
    let root = fake_v2(&mut node);
    let agent = node.start().await;
    let mut request = with_resources(
        request("c", shell("exec sleep 1000")),
        &[("cpus", 0.5), ("mem", 32.0), ("disk", 1.0)],
    );
    request
        .limits
        .insert("cpus".to_owned(), value::Scalar { value: 2.0 });
    request
        .limits
        .insert("mem".to_owned(), value::Scalar { value: 64.0 });
    // As another agent does that ends.
    std::fs::remove_dir(root.join("longshore/shims")).unwrap();
    within(agent.launch(request)).await.unwrap();
    let dir = cgroup_of(&root, "c").unwrap();
    let read = |name: &str| std::fs::read_to_string(dir.join(name)).unwrap();
    assert_eq!(read("cpu.weight"), "20");
    assert_eq!(read("cpu.max"), "200000 100000");
    assert_eq!(read("memory.max"), "67108864");
    assert_eq!(read("cgroup.procs"), "0", "the init has joined");
    let shims = root.join("longshore/shims/cgroup.procs");
    let joined = || std::fs::read_to_string(&shims).is_ok_and(|text| text == "0");
    eventually("its shim is beside it, not in the daemon's", joined).await;
    let view = view(&agent, "c").unwrap();
    assert_eq!((view.cpus, view.cpus_limit), (Some(0.5), Some(2.0)));
    assert_eq!(
        (view.mem_bytes, view.mem_limit_bytes),
        (Some(32 << 20), Some(64 << 20))
    );
    assert_eq!(
        view.unenforced,
        ["disk: this agent limits cpus and mem only"]
    );
    // What the kernel would have counted.
    std::fs::write(dir.join("memory.events"), "oom 1\noom_kill 1\n").unwrap();
    kill(&agent, "c", 9).await;
    let exit = wait(&agent, "c").await.unwrap();
    assert_eq!(
        exit.reason,
        Some(ExitReason::MemoryLimit {
            limit_bytes: 64 << 20
        })
    );
    let message = exit.message.unwrap();
    assert_eq!(
        message,
        "Memory limit exceeded: Requested: 64MB Maximum Used: 64MB"
    );
}

#[tokio::test]
async fn a_host_without_cgroups_runs_containers_and_says_what_is_not_enforced() {
    let mut node = Node::new();
    node.options.cgroup_root = Some(node.root.path().join("nothing"));
    let agent = node.start().await;
    let request = with_resources(
        request("c", shell("exec sleep 1000")),
        &[("cpus", 1.0), ("mem", 32.0)],
    );
    within(agent.launch(request)).await.unwrap();
    let view = view(&agent, "c").unwrap();
    assert_eq!(view.unenforced.len(), 2, "{:?}", view.unenforced);
    assert!(view.unenforced[0].starts_with("cpus: no cgroup can be made below "));
    end(&agent, "c").await;
}

/// A hierarchy of cgroup v1 in which we may make cgroups.
fn v1(name: &str) -> Option<PathBuf> {
    let dir = Path::new("/sys/fs/cgroup").join(name);
    (root()
        && !Path::new("/sys/fs/cgroup/cgroup.controllers").exists()
        && dir.join("tasks").exists())
    .then_some(dir)
}

#[tokio::test]
async fn aa_v1_passing_the_memory_limit_ends_the_container_with_the_reason() {
    let Some(hierarchy) = v1("memory") else {
        return;
    };
    let node = Node::new();
    let agent = node.start().await;
    // `tail` keeps what has no line end in memory. The child is the one that is killed; the
    // container must end with it.
    let hog = "sh -c 'head -c 200000000 /dev/zero | tail'; echo survived; exec sleep 1000";
    let request = with_resources(request("hog", shell(hog)), &[("mem", 32.0)]);
    within(agent.launch(request)).await.unwrap();
    let exit = wait(&agent, "hog").await.unwrap();
    assert_eq!(
        exit.reason,
        Some(ExitReason::MemoryLimit {
            limit_bytes: 32 << 20
        }),
        "{exit:?}"
    );
    assert_eq!(exit.status, Some(9));
    assert!(
        exit.message
            .unwrap()
            .starts_with("Memory limit exceeded: Requested: 32MB")
    );
    eventually("the cgroup is gone", || {
        cgroup_of(&hierarchy, "hog").is_none()
    })
    .await;
}

#[tokio::test]
async fn v1_limits_are_the_kernels_and_the_container_is_outside_the_daemons_cgroups() {
    let (Some(cpu), Some(memory)) = (v1("cpu"), v1("memory")) else {
        return;
    };
    let node = Node::new();
    let agent = node.start().await;
    let mut request = with_resources(
        request("limited", shell("exec sleep 1000")),
        &[("cpus", 0.5), ("mem", 32.0)],
    );
    request
        .limits
        .insert("cpus".to_owned(), value::Scalar { value: 1.5 });
    within(agent.launch(request)).await.unwrap();
    let read = |hierarchy: &Path, name: &str| {
        let dir = cgroup_of(hierarchy, "limited").unwrap();
        std::fs::read_to_string(dir.join(name))
            .unwrap()
            .trim()
            .to_owned()
    };
    assert_eq!(read(&cpu, "cpu.shares"), "512");
    assert_eq!(read(&cpu, "cpu.cfs_quota_us"), "150000");
    assert_eq!(
        read(&memory, "memory.limit_in_bytes"),
        (32 << 20).to_string()
    );
    assert_eq!(
        read(&memory, "cgroup.procs"),
        pid(&agent, "limited").to_string()
    );
    assert_eq!(view(&agent, "limited").unwrap().unenforced, [""; 0]);
    let shim = node.shims()[0];
    let outside = || {
        let of_shim = std::fs::read_to_string(format!("/proc/{shim}/cgroup")).unwrap();
        let mut lines = of_shim.lines().filter(|line| {
            [":memory:", ":cpu:", "0::"]
                .iter()
                .any(|name| line.contains(name))
        });
        lines.all(|line| line.ends_with("/longshore/shims"))
    };
    eventually("the shim is outside the daemon's cgroups", outside).await;
    launch(&agent, "limited.nested", "exec sleep 1000").await;
    let nested = pid(&agent, "limited.nested");
    let of_nested = std::fs::read_to_string(format!("/proc/{nested}/cgroup")).unwrap();
    assert!(
        of_nested.contains("/longshore/limited@"),
        "below its parent: {of_nested}"
    );
    end(&agent, "limited").await;
    eventually("the cgroups are gone", || {
        cgroup_of(&cpu, "limited").is_none() && cgroup_of(&memory, "limited").is_none()
    })
    .await;
}
