//! Waiting for the socket file.

use std::{fs, os::unix::fs::symlink, os::unix::net::UnixListener, path::Path};

use longshore_csi_probe::{ProbeError, Waiting, wait_for_socket};
use tokio::time::{Instant, timeout};

use crate::{Bed, PATIENCE, SHORT, patient};

/// Starts to wait, lets the wait begin, runs `then`, and gives the wait's outcome.
async fn waiting(path: &Path, then: impl FnOnce()) -> Result<(), ProbeError> {
    let owned = path.to_owned();
    let wait = tokio::spawn(async move { wait_for_socket(&owned, patient()).await });
    // Not needed for the outcome, only so that the file mostly comes while somebody waits for it.
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
    then();
    timeout(PATIENCE, wait).await.unwrap().unwrap()
}

#[tokio::test]
async fn a_socket_that_exists_is_seen_at_once() {
    let bed = Bed::new();
    let _listener = UnixListener::bind(bed.socket()).unwrap();
    wait_for_socket(&bed.socket(), Instant::now())
        .await
        .unwrap();
}

#[tokio::test]
async fn a_socket_that_comes_is_seen_long_before_the_rescan() {
    let bed = Bed::new();
    let mut listener = None;
    let mut bound = Instant::now();
    waiting(&bed.socket(), || {
        bound = Instant::now();
        listener = Some(UnixListener::bind(bed.socket()).unwrap());
    })
    .await
    .unwrap();
    assert!(bound.elapsed().as_millis() < 900, "{:?}", bound.elapsed());
}

#[tokio::test]
async fn a_directory_that_does_not_exist_yet_is_waited_for() {
    let bed = Bed::new();
    let deep = bed.dir.path().join("a/b/c/csi.sock");
    let mut listener = None;
    waiting(&deep, || {
        fs::create_dir_all(deep.parent().unwrap()).unwrap();
        listener = Some(UnixListener::bind(&deep).unwrap());
    })
    .await
    .unwrap();
}

#[tokio::test]
async fn a_directory_that_is_removed_and_made_again_is_waited_for() {
    let bed = Bed::new();
    let inner = bed.dir.path().join("run");
    let path = inner.join("csi.sock");
    fs::create_dir(&inner).unwrap();
    let mut listener = None;
    waiting(&path, || {
        fs::remove_dir(&inner).unwrap();
        fs::create_dir(&inner).unwrap();
        listener = Some(UnixListener::bind(&path).unwrap());
    })
    .await
    .unwrap();
}

#[tokio::test]
async fn a_socket_that_is_renamed_into_place_is_seen() {
    let bed = Bed::new();
    let beside = bed.dir.path().join("csi.sock.tmp");
    let _listener = UnixListener::bind(&beside).unwrap();
    let link = bed.dir.path().join("link");
    symlink("csi.sock", &link).unwrap();
    waiting(&bed.socket(), || {
        fs::hard_link(&beside, bed.socket()).unwrap();
    })
    .await
    .unwrap();
    // Through a link whose target has come, too.
    wait_for_socket(&link, Instant::now()).await.unwrap();
}

#[tokio::test]
async fn sm18_a_socket_that_never_appears_is_a_timeout_that_says_so() {
    let bed = Bed::new();
    for path in [bed.socket(), bed.dir.path().join("no/such/dir/csi.sock")] {
        let started = Instant::now();
        match wait_for_socket(&path, started + SHORT).await {
            Err(
                error @ ProbeError::TimedOut {
                    waiting: Waiting::Socket,
                    ..
                },
            ) => {
                let line = error.to_string();
                assert!(line.contains(path.to_str().unwrap()), "{line}");
                assert!(line.contains("the socket did not appear"), "{line}");
            }
            other => panic!("{other:?}"),
        }
        assert!(started.elapsed() >= SHORT);
    }
}

#[tokio::test]
async fn anything_but_a_socket_is_named() {
    let bed = Bed::new();
    let file = bed.dir.path().join("file");
    fs::write(&file, "x").unwrap();
    for (path, kind) in [
        (file.as_path(), "a regular file"),
        (bed.dir.path(), "a directory"),
    ] {
        match wait_for_socket(path, patient()).await {
            Err(ProbeError::NotASocket { found, .. }) => assert_eq!(found, kind),
            other => panic!("{other:?}"),
        }
    }
    // Below a file: a parent may still become a directory.
    let below = file.join("csi.sock");
    match wait_for_socket(&below, Instant::now() + SHORT).await {
        Err(ProbeError::TimedOut {
            waiting: Waiting::Socket,
            ..
        }) => {}
        other => panic!("{other:?}"),
    }
}
