//! The socket, as runtimes and plugins meet it.

use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::time::Duration;

use longshore_nri_adaptation::socket::{Listener, Owner, SocketError, SocketOptions};
use nix::fcntl::{Flock, FlockArg};
use tempfile::TempDir;
use tokio::net::UnixStream;
use tokio::time::timeout;

const PATIENCE: Duration = Duration::from_secs(30);

fn place() -> (TempDir, SocketOptions) {
    let dir = tempfile::tempdir().unwrap();
    let options = SocketOptions::new(dir.path().join("nri.sock"));
    (dir, options)
}

fn mode(path: &Path) -> u32 {
    fs::symlink_metadata(path).unwrap().permissions().mode() & 0o7777
}

fn is_socket(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok_and(|it| it.file_type().is_socket())
}

/// Connects, and takes the connection on the other side.
async fn meet(listener: &mut Listener) -> longshore_nri_adaptation::socket::Peer {
    let _plugin = UnixStream::connect(listener.path()).await.unwrap();
    let (_stream, peer) = timeout(PATIENCE, listener.accept()).await.unwrap().unwrap();
    peer
}

#[tokio::test]
async fn its_owner_alone_can_use_the_socket_and_peers_are_known() {
    let (_dir, options) = place();
    let mut listener = Listener::bind(&options).unwrap();
    assert_eq!(mode(&options.path), 0o600);
    let peer = meet(&mut listener).await;
    assert_eq!(peer.pid, i32::try_from(std::process::id()).ok());
    assert_eq!(peer.uid, nix::unistd::geteuid().as_raw());
    assert_eq!(peer.gid, nix::unistd::getegid().as_raw());
    assert_eq!(peer.executable, std::env::current_exe().ok());
    assert_eq!(listener.refused(), 0);
}

#[tokio::test]
async fn mode_and_owner_are_as_configured_whatever_the_umask_is() {
    let (_dir, mut options) = place();
    options.mode = 0o666;
    options.owner = Some(Owner {
        uid: None,
        gid: Some(nix::unistd::getegid().as_raw()),
    });
    let listener = Listener::bind(&options).unwrap();
    assert_eq!(mode(&options.path), 0o666);
    drop(listener);

    options.mode = 0o4600;
    assert!(matches!(
        Listener::bind(&options),
        Err(SocketError::Mode { mode: 0o4600, .. })
    ));
    if nix::unistd::geteuid().is_root() {
        options.mode = 0o660;
        options.owner = Some(Owner {
            uid: Some(12_345),
            gid: Some(54_321),
        });
        let _listener = Listener::bind(&options).unwrap();
        let metadata = fs::symlink_metadata(&options.path).unwrap();
        assert_eq!((metadata.uid(), metadata.gid()), (12_345, 54_321));
    }
}

#[tokio::test]
async fn peers_that_are_not_allowed_are_closed_counted_and_do_not_hold_up_others() {
    let (dir, mut options) = place();
    let own = std::env::current_exe().unwrap();
    // The same file by another name is the same executable; another file of its name is not.
    let link = dir.path().join("link");
    symlink(&own, &link).unwrap();
    options.allow.executables = vec![PathBuf::from("/bin/sh"), link.clone()];
    let mut listener = Listener::bind(&options).unwrap();
    meet(&mut listener).await;
    drop(listener);

    let planted = dir.path().join(own.file_name().unwrap());
    fs::write(&planted, "").unwrap();
    for (executables, uids) in [
        (vec![planted], options.allow.uids.clone()),
        (vec![], vec![nix::unistd::geteuid().as_raw() + 1]),
        (vec![link], vec![]),
    ] {
        options.allow.executables = executables;
        options.allow.uids = uids;
        let mut listener = Listener::bind(&options).unwrap();
        for expected in 1..=3 {
            let plugin = UnixStream::connect(&options.path).await.unwrap();
            let closed = async {
                plugin.readable().await.unwrap();
                assert_eq!(plugin.try_read(&mut [0]).unwrap(), 0, "closed");
            };
            tokio::select! {
                accepted = listener.accept() => panic!("{accepted:?}"),
                done = timeout(PATIENCE, closed) => done.unwrap(),
            }
            assert_eq!(listener.refused(), expected);
        }
    }
    options.allow.gids = vec![nix::unistd::getegid().as_raw()];
    options.allow.executables.clear();
    meet(&mut Listener::bind(&options).unwrap()).await;
}

#[tokio::test]
async fn a_stale_socket_is_replaced_and_a_live_one_is_not_taken_away() {
    let (_dir, options) = place();
    // A runtime that was killed: the file is there, nobody listens.
    drop(std::os::unix::net::UnixListener::bind(&options.path).unwrap());
    assert!(is_socket(&options.path));
    let mut first = Listener::bind(&options).unwrap();

    let inode = fs::symlink_metadata(&options.path).unwrap().ino();
    let error = Listener::bind(&options).unwrap_err();
    assert!(matches!(&error, SocketError::InUse { path } if *path == options.path));
    assert!(
        error.to_string().starts_with("another runtime serves"),
        "{error}"
    );
    assert_eq!(fs::symlink_metadata(&options.path).unwrap().ino(), inode);
    meet(&mut first).await;

    drop(first);
    assert!(!options.path.exists(), "removed when it is closed");
    drop(Listener::bind(&options).unwrap());
}

#[tokio::test]
async fn a_runtime_that_takes_no_lock_is_recognised_by_connecting() {
    let (_dir, options) = place();
    let other = std::os::unix::net::UnixListener::bind(&options.path).unwrap();
    assert!(matches!(
        Listener::bind(&options),
        Err(SocketError::InUse { .. })
    ));
    drop(other);
    drop(Listener::bind(&options).unwrap());

    let _datagrams = std::os::unix::net::UnixDatagram::bind(&options.path).unwrap();
    assert!(matches!(
        Listener::bind(&options),
        Err(SocketError::InUse { .. })
    ));
}

#[tokio::test]
async fn of_many_runtimes_that_start_at_once_one_has_the_socket() {
    let (_dir, options) = place();
    for _ in 0..10 {
        // Stale each time, so that all of them want to remove it.
        drop(std::os::unix::net::UnixListener::bind(&options.path).unwrap());
        let starts: Vec<_> = (0..8)
            .map(|_| {
                let options = options.clone();
                tokio::task::spawn_blocking(move || Listener::bind(&options))
            })
            .collect();
        let mut bound = Vec::new();
        for start in starts {
            match start.await.unwrap() {
                Ok(listener) => bound.push(listener),
                Err(error) => assert!(matches!(error, SocketError::InUse { .. }), "{error}"),
            }
        }
        // A start that came after another had ended would find a free path: nobody ends here.
        assert_eq!(bound.len(), 1);
        meet(&mut bound[0]).await;
        drop(bound);
        assert!(!options.path.exists());
    }
}

#[tokio::test]
async fn what_is_planted_at_the_path_is_refused_and_left_alone() {
    let (dir, options) = place();
    let victim = dir.path().join("victim");
    fs::write(&victim, "precious").unwrap();
    type Plant<'a> = (&'a str, &'a dyn Fn(&Path));
    let plant: [Plant<'_>; 5] = [
        ("symbolic link", &|path| symlink(&victim, path).unwrap()),
        ("symbolic link", &|path| {
            symlink("nowhere", path).unwrap();
        }),
        ("regular file", &|path| fs::write(path, "x").unwrap()),
        ("directory", &|path| fs::create_dir(path).unwrap()),
        ("fifo", &|path| {
            nix::unistd::mkfifo(path, nix::sys::stat::Mode::S_IRUSR).unwrap();
        }),
    ];
    let lock = dir.path().join("nri.sock.lock");
    for (expected, plant) in plant {
        for path in [&options.path, &lock] {
            if path == &lock && expected == "regular file" {
                continue;
            }
            fs::remove_file(&lock).ok();
            plant(path);
            let before = fs::symlink_metadata(path).unwrap().ino();
            let error = Listener::bind(&options).unwrap_err();
            assert!(
                matches!(&error, SocketError::NotASocket { path: refused, kind } if refused == path && *kind == expected),
                "{error}"
            );
            assert_eq!(fs::symlink_metadata(path).unwrap().ino(), before);
            if expected == "directory" {
                fs::remove_dir(path).unwrap();
            } else {
                fs::remove_file(path).unwrap();
            }
        }
    }
    assert_eq!(fs::read_to_string(&victim).unwrap(), "precious");
    assert!(!dir.path().join("nowhere").exists());
}

#[tokio::test]
async fn a_directory_that_others_can_write_is_refused() {
    let (dir, mut options) = place();
    fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o777)).unwrap();
    let error = Listener::bind(&options).unwrap_err();
    assert!(error.to_string().contains("mode 0777"), "{error}");
    fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755)).unwrap();

    symlink(dir.path(), dir.path().join("link")).unwrap();
    options.path = dir.path().join("link/nri.sock");
    assert!(matches!(
        Listener::bind(&options),
        Err(SocketError::DirectoryOpen { .. })
    ));
    options.path = dir.path().join("made/here/nri.sock");
    let _listener = Listener::bind(&options).unwrap();
    for made in ["made", "made/here"] {
        assert_eq!(mode(&dir.path().join(made)) & 0o077, 0, "{made}");
    }
}

#[tokio::test]
async fn a_path_that_does_not_fit_is_refused_with_both_lengths() {
    let (dir, mut options) = place();
    let room = SocketOptions::PATH_MAX - dir.path().as_os_str().len() - 1;
    options.path = dir.path().join("s".repeat(room));
    drop(Listener::bind(&options).unwrap());
    options.path = dir.path().join("s".repeat(room + 1));
    let error = Listener::bind(&options).unwrap_err();
    assert!(matches!(
        error,
        SocketError::PathLength {
            length: 108,
            max: 107,
            ..
        }
    ));
    for bad in ["nri.sock", "/", "/tmp/nri.sock/", "/tmp/\0"] {
        options.path = bad.into();
        assert!(
            matches!(Listener::bind(&options), Err(SocketError::Path { .. })),
            "{bad:?}"
        );
    }
}

#[tokio::test]
async fn a_socket_that_was_replaced_is_not_removed() {
    let (_dir, options) = place();
    let listener = Listener::bind(&options).unwrap();
    // An operator, or a runtime that does not ask.
    fs::remove_file(&options.path).unwrap();
    let _other = std::os::unix::net::UnixListener::bind(&options.path).unwrap();
    drop(listener);
    assert!(is_socket(&options.path), "it belongs to the other");
}

#[tokio::test]
async fn whoever_holds_the_lock_keeps_the_path_also_while_nothing_is_there() {
    let (dir, options) = place();
    let lock = fs::File::create(dir.path().join("nri.sock.lock")).unwrap();
    let held = Flock::lock(lock, FlockArg::LockExclusiveNonblock).unwrap();
    assert!(matches!(
        Listener::bind(&options),
        Err(SocketError::InUse { .. })
    ));
    assert!(!options.path.exists());
    drop(held);
    drop(Listener::bind(&options).unwrap());
}

#[tokio::test]
async fn nothing_is_left_of_a_socket_not_even_its_lock() {
    let (dir, options) = place();
    drop(Listener::bind(&options).unwrap());
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
    // Nor of one that could not be bound.
    fs::write(&options.path, "").unwrap();
    assert!(Listener::bind(&options).is_err());
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn of_runtimes_that_come_and_go_never_two_have_the_socket() {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    let (dir, options) = place();
    let serving = Arc::new(AtomicUsize::new(0));
    let runtimes: Vec<_> = (0..4)
        .map(|_| {
            let (options, serving) = (options.clone(), Arc::clone(&serving));
            tokio::task::spawn_blocking(move || {
                let mut bound = 0;
                for _ in 0..500 {
                    match Listener::bind(&options) {
                        Ok(listener) => {
                            assert_eq!(serving.fetch_add(1, Ordering::SeqCst), 0);
                            assert!(is_socket(listener.path()));
                            bound += 1;
                            serving.fetch_sub(1, Ordering::SeqCst);
                        }
                        Err(SocketError::InUse { .. }) => std::thread::yield_now(),
                        Err(error) => panic!("{error}: {:?}", std::error::Error::source(&error)),
                    }
                }
                bound
            })
        })
        .collect();
    let mut bound = 0;
    for runtime in runtimes {
        bound += runtime.await.unwrap();
    }
    assert!(bound > 0);
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
}

#[tokio::test]
async fn a_socket_that_is_removed_is_bound_again_and_a_stranger_in_its_place_is_waited_for() {
    let (_dir, options) = place();
    let mut listener = Listener::bind(&options).unwrap();
    let lock = {
        let mut name = options.path.clone().into_os_string();
        name.push(".lock");
        PathBuf::from(name)
    };
    fs::remove_file(&options.path).unwrap();
    fs::remove_file(&lock).unwrap();
    assert_eq!(
        meet_within(&mut listener, &options.path).await,
        Some(std::process::id())
    );
    assert_eq!(mode(&options.path), 0o600);
    // The directory, too, and somebody else is there before us.
    fs::remove_dir_all(options.path.parent().unwrap()).unwrap();
    let other = Listener::bind(&options).unwrap();
    let early = timeout(Duration::from_secs(5), listener.accept());
    assert!(early.await.is_err(), "it is the other's");
    drop(other);
    assert_eq!(
        meet_within(&mut listener, &options.path).await,
        Some(std::process::id())
    );
    drop(listener);
    assert!(!options.path.exists() && !lock.exists());
}

/// Accepts while somebody tries to connect until it works; whose pid it was.
async fn meet_within(listener: &mut Listener, path: &Path) -> Option<u32> {
    let connect = async {
        loop {
            match UnixStream::connect(path).await {
                Ok(stream) => break stream,
                Err(_) => tokio::time::sleep(Duration::from_millis(20)).await,
            }
        }
    };
    let both = async { tokio::join!(connect, listener.accept()) };
    let limit = Duration::from_secs(60);
    let (_stream, accepted) = timeout(limit, both).await.unwrap();
    accepted
        .unwrap()
        .1
        .pid
        .and_then(|pid| u32::try_from(pid).ok())
}
