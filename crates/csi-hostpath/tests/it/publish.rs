//! Publishing by bind mounts (as root) and by links.

use std::{
    fs,
    os::unix::fs::{MetadataExt, symlink},
    path::Path,
};

use longshore_csi_hostpath::{Mode, PublishBy};
use longshore_csi_probe::Probed;
use tonic::Code;

use crate::{
    Rig,
    v1_calls::{created, publish, stage, unpublish, unstage},
};

/// Takes mounts off when a test fails in the middle; a test that passes has none left.
struct Unmount<'a>(Vec<&'a Path>);

impl Drop for Unmount<'_> {
    fn drop(&mut self) {
        for path in &self.0 {
            while nix::mount::umount2(*path, nix::mount::MntFlags::MNT_DETACH).is_ok() {}
        }
    }
}

async fn staged(rig: &mut Rig) -> (Probed, String, String) {
    let plugin = rig.start().await;
    let id = created(&plugin, "a").await;
    let staging = rig.make_dir("staging");
    stage(&plugin, &id, &staging).await.unwrap();
    (plugin, id, staging)
}

#[tokio::test]
async fn a_bound_volume_is_written_read_only_where_asked_and_outlives_a_kill() {
    if longshore_testkit::peers::root().is_none() {
        return;
    }
    let mut rig = Rig::new(Mode::V1, PublishBy::BindMount);
    let (staging_path, rw, ro) = (rig.path("staging"), rig.path("rw"), rig.path("ro"));
    let _unmount = Unmount(vec![&rw, &ro, &staging_path]);
    let (plugin, id, staging) = staged(&mut rig).await;
    // Again, as a caller does that saw no answer.
    stage(&plugin, &id, &staging).await.unwrap();
    let (rw_text, ro_text) = (rig.text("rw"), rig.text("ro"));
    for _ in 0..2 {
        publish(&plugin, &id, &staging, &rw_text, false)
            .await
            .unwrap();
        publish(&plugin, &id, &staging, &ro_text, true)
            .await
            .unwrap();
    }
    let other_flags = publish(&plugin, &id, &staging, &rw_text, true)
        .await
        .unwrap_err();
    assert_eq!(other_flags.code(), Code::AlreadyExists);
    fs::write(rw.join("file"), "text").unwrap();
    assert_eq!(fs::read(ro.join("file")).unwrap(), b"text");
    let refused = fs::write(ro.join("file"), "other").unwrap_err();
    assert_eq!(refused.kind(), std::io::ErrorKind::ReadOnlyFilesystem);

    rig.running.take().unwrap().1.abort();
    let plugin = rig.start().await;
    assert_eq!(fs::read(rw.join("file")).unwrap(), b"text");
    for _ in 0..2 {
        unpublish(&plugin, &id, &rw_text).await.unwrap();
        unpublish(&plugin, &id, &ro_text).await.unwrap();
        unstage(&plugin, &id, &staging).await.unwrap();
    }
    assert!(!rw.exists() && !ro.exists());
    assert!(staging_path.exists(), "the caller's directory stays");
    rig.stop().await;
}

#[tokio::test]
async fn a_volume_that_is_not_staged_is_not_bound() {
    if longshore_testkit::peers::root().is_none() {
        return;
    }
    let mut rig = Rig::new(Mode::V1, PublishBy::BindMount);
    let plugin = rig.start().await;
    let id = created(&plugin, "a").await;
    let staging = rig.make_dir("staging");
    let refused = publish(&plugin, &id, &staging, &rig.text("target"), false)
        .await
        .unwrap_err();
    assert_eq!(refused.code(), Code::FailedPrecondition);
    assert!(!rig.path("target").exists());
}

#[tokio::test]
async fn a_link_is_made_and_taken_away_and_cannot_be_read_only() {
    let mut rig = Rig::new(Mode::V1, PublishBy::SymbolicLink);
    let (plugin, id, staging) = staged(&mut rig).await;
    let target = rig.text("target");
    for _ in 0..2 {
        publish(&plugin, &id, &staging, &target, false)
            .await
            .unwrap();
    }
    assert!(fs::symlink_metadata(&target).unwrap().is_symlink());
    fs::write(rig.path("target/file"), "text").unwrap();
    for _ in 0..2 {
        unpublish(&plugin, &id, &target).await.unwrap();
    }
    assert!(fs::symlink_metadata(&target).is_err());
    let refused = publish(&plugin, &id, &staging, &target, true)
        .await
        .unwrap_err();
    assert_eq!(refused.code(), Code::FailedPrecondition);
    assert!(refused.message().contains("CAP_SYS_ADMIN"), "{refused}");
}

#[tokio::test]
async fn an_empty_directory_of_the_caller_is_taken_and_in_v0_given_back() {
    for (mode, given_back) in [(Mode::V1, false), (Mode::V0, true)] {
        let mut rig = Rig::new(mode, PublishBy::SymbolicLink);
        let plugin = rig.start().await;
        let target = rig.make_dir("target");
        let staging = rig.make_dir("staging");
        if mode == Mode::V1 {
            let id = created(&plugin, "a").await;
            publish(&plugin, &id, &staging, &target, false)
                .await
                .unwrap();
            unpublish(&plugin, &id, &target).await.unwrap();
        } else {
            let id = crate::v0_table::created(&plugin, "a").await;
            crate::v0_table::publish(&plugin, &id, &staging, &target)
                .await
                .unwrap();
            assert!(fs::symlink_metadata(&target).unwrap().is_symlink());
            crate::v0_table::unpublish(&plugin, &id, &target)
                .await
                .unwrap();
        }
        let found = fs::symlink_metadata(&target).map(|meta| meta.is_dir());
        assert_eq!(found.unwrap_or(false), given_back, "{mode:?}");
    }
}

#[tokio::test]
async fn what_is_not_the_volume_is_left_alone() {
    let mut rig = Rig::new(Mode::V1, PublishBy::SymbolicLink);
    let (plugin, id, staging) = staged(&mut rig).await;
    let full = rig.make_dir("full");
    fs::write(rig.path("full/file"), "mine").unwrap();
    let file = rig.text("file");
    fs::write(&file, "mine").unwrap();
    let victim = rig.make_dir("victim");
    let planted = rig.text("planted");
    symlink(&victim, &planted).unwrap();
    let before = fs::symlink_metadata(&victim).unwrap().ino();
    for path in [&full, &file, &planted] {
        let refused = publish(&plugin, &id, &staging, path, false)
            .await
            .unwrap_err();
        assert_eq!(refused.code(), Code::FailedPrecondition, "{path}");
        let refused = unpublish(&plugin, &id, path).await.unwrap_err();
        assert_eq!(refused.code(), Code::FailedPrecondition, "{path}");
    }
    assert_eq!(fs::read(rig.path("full/file")).unwrap(), b"mine");
    assert_eq!(fs::read(&file).unwrap(), b"mine");
    assert_eq!(fs::symlink_metadata(&victim).unwrap().ino(), before);
    assert_eq!(fs::read_link(&planted).unwrap(), Path::new(&victim));
}

#[tokio::test]
async fn nothing_is_removed_below_a_mount_point() {
    if longshore_testkit::peers::root().is_none() {
        return;
    }
    let mut rig = Rig::new(Mode::V1, PublishBy::BindMount);
    let plugin = rig.start().await;
    let id = created(&plugin, "a").await;
    let precious = rig.make_dir("precious");
    fs::write(rig.path("precious/file"), "mine").unwrap();
    let inside = rig.path("state/volumes").join(&id).join("data/inside");
    fs::create_dir(&inside).unwrap();
    let _unmount = Unmount(vec![&inside]);
    let flags = nix::mount::MsFlags::MS_BIND;
    nix::mount::mount(
        Some(precious.as_str()),
        &inside,
        None::<&str>,
        flags,
        None::<&str>,
    )
    .unwrap();
    let request = longshore_csi_api::v1::DeleteVolumeRequest {
        volume_id: id,
        ..Default::default()
    };
    let mut controller =
        longshore_csi_api::v1::controller_client::ControllerClient::new(plugin.channel.clone());
    let refused = controller.delete_volume(request.clone()).await.unwrap_err();
    assert_eq!(refused.code(), Code::FailedPrecondition);
    assert!(refused.message().contains("mounted at"), "{refused}");
    nix::mount::umount(&inside).unwrap();
    controller.delete_volume(request).await.unwrap();
    assert_eq!(fs::read(rig.path("precious/file")).unwrap(), b"mine");
}
