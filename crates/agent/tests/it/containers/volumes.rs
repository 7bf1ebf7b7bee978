//! Volumes: the same path is created, different ones are mounted, propagation as asked.

use super::*;
use longshore_agent::service::LaunchErrorKind;
use longshore_mesos_api::v1::{
    MountPropagation, Volume, container_info, mount_propagation, volume,
};
use nix::mount::{MsFlags, mount, umount};

fn host_volume(source: &Path, target: &str, bidirectional: bool) -> Volume {
    let mut propagation = MountPropagation::default();
    if bidirectional {
        propagation.set_mode(mount_propagation::Mode::Bidirectional);
    }
    let mut from = volume::Source {
        host_path: Some(volume::source::HostPath {
            path: source.to_str().unwrap().to_owned(),
            mount_propagation: Some(propagation),
        }),
        ..volume::Source::default()
    };
    from.set_type(volume::source::Type::HostPath);
    let mut volume = Volume {
        container_path: target.to_owned(),
        source: Some(from),
        ..Volume::default()
    };
    volume.set_mode(volume::Mode::Rw);
    volume
}

fn with_volumes(name: &str, command: &str, volumes: Vec<Volume>) -> LaunchRequest {
    let mut info = ContainerInfo {
        volumes,
        ..ContainerInfo::default()
    };
    info.set_type(container_info::Type::Mesos);
    with_container(request(name, shell(command)), info)
}

fn mounted(path: &Path) -> bool {
    let table = std::fs::read_to_string("/proc/self/mountinfo").unwrap();
    table
        .lines()
        .any(|line| line.split(' ').nth(4) == path.to_str())
}

/// A directory that is unmounted, whatever is mounted on it, when the test ends.
struct Unmounted(PathBuf);

impl Drop for Unmounted {
    fn drop(&mut self) {
        while umount(&self.0).is_ok() {}
    }
}

#[tokio::test]
async fn the_same_path_on_both_sides_is_created_and_not_mounted() {
    let node = Node::new();
    let agent = node.start().await;
    let host = std::fs::canonicalize(node.root.path())
        .unwrap()
        .join("made/deeper");
    let volume = host_volume(&host, host.to_str().unwrap(), true);
    let command = format!("echo hello > {}/file", host.display());
    within(agent.launch(with_volumes("c", &command, vec![volume])))
        .await
        .unwrap();
    assert_eq!(status(&agent, "c").await, 0);
    assert_eq!(
        std::fs::read_to_string(host.join("file")).unwrap(),
        "hello\n"
    );
    assert!(!mounted(&host));
}

#[tokio::test]
async fn different_paths_are_bind_mounts_that_the_host_does_not_see() {
    if !root() {
        return;
    }
    let node = Node::new();
    let agent = node.start().await;
    let base = std::fs::canonicalize(node.root.path()).unwrap();
    let (source, absolute) = (base.join("source"), base.join("target"));
    std::fs::create_dir(&source).unwrap();
    std::fs::write(source.join("file"), "content").unwrap();
    let mut read_only = host_volume(&source, "ro/inner", false);
    read_only.set_mode(volume::Mode::Ro);
    let single = host_volume(&source.join("file"), "one-file", false);
    let volumes = vec![
        host_volume(&source, "data", false),
        host_volume(&source, absolute.to_str().unwrap(), false),
        read_only,
        single,
    ];
    let command = format!(
        "cat data/file {}/file ro/inner/file one-file; echo; echo new > data/new; \
         touch ro/inner/x 2>/dev/null || echo read-only; \
         mount -t tmpfs none data && echo inside > data/inside; echo done; exec sleep 1000",
        absolute.display()
    );
    within(agent.launch(with_volumes("c", &command, volumes)))
        .await
        .unwrap();
    eventually("the output", || node.output("c").contains("done")).await;
    assert_eq!(
        node.output("c"),
        "contentcontentcontentcontent\nread-only\ndone\n"
    );
    assert_eq!(
        std::fs::read_to_string(source.join("new")).unwrap(),
        "new\n"
    );
    assert!(
        !source.join("inside").exists(),
        "a mount inside stays inside"
    );
    let sandbox = base.join("state/containers/c");
    for path in [
        &absolute,
        &sandbox.join("data"),
        &sandbox.join("ro/inner"),
        &source,
    ] {
        assert!(!mounted(path), "{}", path.display());
    }
    end(&agent, "c").await;
    within(agent.remove(&id("c"))).await.unwrap();
    assert!(
        source.join("file").exists(),
        "removing the sandbox spares the volume"
    );
}

#[tokio::test]
async fn a_mount_made_inside_a_bidirectional_volume_is_seen_outside_and_a_hosts_mount_inside() {
    if !root() {
        return;
    }
    let node = Node::new();
    let agent = node.start().await;
    let base = std::fs::canonicalize(node.root.path()).unwrap();
    let (shared, same, private) = (base.join("shared"), base.join("same"), base.join("private"));
    for dir in [&shared, &same, &private] {
        std::fs::create_dir(dir).unwrap();
    }
    let _cleanup = [
        Unmounted(shared.join("hosts")),
        Unmounted(shared.join("inner")),
        Unmounted(shared.clone()),
        Unmounted(same.join("inner")),
        Unmounted(same.clone()),
    ];
    let volumes = vec![
        host_volume(&shared, "shared", true),
        host_volume(&same, same.to_str().unwrap(), true),
        host_volume(&private, "private", false),
    ];
    let command = format!(
        "for at in shared {} private; do mkdir $at/inner; mount -t tmpfs none $at/inner; echo x > $at/inner/file; done; \
         echo ready; while [ ! -e shared/hosts/file ]; do sleep 0.01; done; echo seen; exec sleep 1000",
        same.display()
    );
    within(agent.launch(with_volumes("c", &command, volumes)))
        .await
        .unwrap();
    eventually("the mounts", || node.output("c").contains("ready")).await;
    for seen in [&shared, &same] {
        assert_eq!(
            std::fs::read_to_string(seen.join("inner/file")).unwrap(),
            "x\n"
        );
    }
    assert!(
        !private.join("inner/file").exists(),
        "only where it was asked for"
    );
    let hosts = shared.join("hosts");
    std::fs::create_dir(&hosts).unwrap();
    mount(
        Some("none"),
        &hosts,
        Some("tmpfs"),
        MsFlags::empty(),
        None::<&str>,
    )
    .unwrap();
    std::fs::write(hosts.join("file"), "").unwrap();
    eventually("the host's mount", || node.output("c").contains("seen")).await;
    end(&agent, "c").await;
    assert!(
        shared.join("inner/file").exists(),
        "what the plugin mounted outlives it"
    );
}

#[tokio::test]
async fn a_volume_that_cannot_be_mounted_is_named_in_a_400_and_leaves_nothing() {
    if !root() {
        return;
    }
    let node = Node::new();
    let agent = node.start().await;
    let base = std::fs::canonicalize(node.root.path()).unwrap();
    let file = base.join("file");
    std::fs::write(&file, "").unwrap();
    // A file over a directory.
    std::fs::create_dir(base.join("dir")).unwrap();
    let volume = host_volume(&file, base.join("dir").to_str().unwrap(), false);
    let error = refused(&agent, with_volumes("c", "true", vec![volume])).await;
    assert_eq!(error.kind, LaunchErrorKind::BadRequest);
    assert!(
        error
            .message
            .contains(&format!("cannot mount the volume {}", file.display())),
        "{error}"
    );
    assert!(!node.sandbox("c").exists());
    assert_eq!(node.records(), [""; 0].map(PathBuf::from));
}

#[tokio::test]
async fn a_link_planted_where_a_volume_goes_in_the_sandbox_is_not_followed() {
    if !root() {
        return;
    }
    let node = Node::new();
    let agent = node.start().await;
    let base = std::fs::canonicalize(node.root.path()).unwrap();
    let (source, victim) = (base.join("source"), base.join("victim"));
    for dir in [&source, &victim] {
        std::fs::create_dir(dir).unwrap();
    }
    launch(&agent, "c", &format!("ln -s {} data", victim.display())).await;
    assert_eq!(status(&agent, "c").await, 0);
    let volume = host_volume(&source, "data", false);
    let error = refused(&agent, with_volumes("c", "true", vec![volume])).await;
    assert_eq!(error.kind, LaunchErrorKind::BadRequest, "{error}");
    assert!(
        node.sandbox("c").exists(),
        "an older sandbox is not deleted by a failed launch"
    );
    assert!(node.sandbox("c").join("data").is_symlink());
}

#[tokio::test]
async fn a_sandbox_with_a_mount_below_it_is_never_deleted() {
    if !root() {
        return;
    }
    let node = Node::new();
    let agent = node.start().await;
    launch(&agent, "c", "mkdir mnt; touch kept").await;
    assert_eq!(status(&agent, "c").await, 0);
    let at = std::fs::canonicalize(node.sandbox("c"))
        .unwrap()
        .join("mnt");
    let cleanup = Unmounted(at.clone());
    mount(
        Some("none"),
        &at,
        Some("tmpfs"),
        MsFlags::empty(),
        None::<&str>,
    )
    .unwrap();
    std::fs::write(at.join("precious"), "").unwrap();
    let error = within(agent.remove(&id("c"))).await.unwrap_err();
    assert!(error.message.contains("busy"), "{error}");
    assert!(at.join("precious").exists() && node.sandbox("c").join("kept").exists());
    drop(cleanup);
    within(agent.remove(&id("c"))).await.unwrap();
    assert!(!node.sandbox("c").exists());
}
