use std::net::TcpListener;
use std::os::unix::net::UnixListener;

use super::*;

fn this() -> (ProcHost, u32) {
    (ProcHost::new(PathBuf::from("/proc")), std::process::id())
}

#[test]
fn names_what_a_process_listens_on() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("elsewhere.sock");
    let _unix = UnixListener::bind(&path).unwrap();
    let tcp = TcpListener::bind("127.0.0.1:0").unwrap();
    let (host, pid) = this();
    let found = listens_on(&host, pid);
    assert!(
        found.contains(&format!("unix://{}", path.display())),
        "{found:?}"
    );
    assert!(
        found.contains(&format!("tcp://{}", tcp.local_addr().unwrap())),
        "{found:?}"
    );
}

#[test]
fn sees_mount_points_below_a_root_and_only_there() {
    let (host, _) = this();
    let all = host.mount_points().unwrap();
    assert!(all.contains(&PathBuf::from("/proc")), "{all:?}");
    let of = |paths: &[&str]| paths.iter().map(PathBuf::from).collect::<Vec<_>>();
    let all = [
        "/",
        "/m2/x",
        "/m",
        "/m-a/b",
        "/m/v1/target",
        "/m/v1/target",
        "/t/a",
    ];
    let all = Mounts::new(of(&all));
    for (roots, below) in [
        (&["/m", "/t"][..], &["/m/v1/target", "/t/a"][..]),
        (&["/m/", "/m//v1"], &["/m/v1/target"]),
        (&["/m-a"], &["/m-a/b"]),
        (&["/none"], &[]),
        (&[], &[]),
    ] {
        assert_eq!(all.below(&of(roots)), of(below), "{roots:?}");
    }
}

#[test]
fn only_the_kernels_own_mount_table_tells_of_changes() {
    let (host, _) = this();
    assert!(host.mount_marks().is_some());
    let fake = tempfile::tempdir().unwrap();
    std::fs::create_dir(fake.path().join("self")).unwrap();
    std::fs::write(fake.path().join("self/mountinfo"), "1 2").unwrap();
    let host = ProcHost::new(fake.path().to_owned());
    assert!(host.mount_marks().is_none(), "it would never be marked");
}

#[test]
fn undoes_the_escapes_of_mountinfo() {
    let line = b"36 35 98:0 / /m/a\\040b\\134c rw,noatime master:1 - ext3 /dev/root rw\n\nshort";
    assert_eq!(parse_mountinfo(line), [PathBuf::from("/m/a b\\c")]);
}

#[test]
fn parses_the_kernels_socket_tables() {
    let unix = b"Num       RefCount Protocol Flags    Type St Inode Path\n\
        0000000000000000: 00000002 00000000 00010000 0001 01 1234 /run/a.sock\n\
        0000000000000000: 00000003 00000000 00000000 0001 03 99 /run/b.sock\ngarbage\n";
    assert_eq!(parse_unix(unix), [(1234, "unix:///run/a.sock".to_owned())]);
    let tcp = b"  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n\
        0: 0100007F:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 77 1\n\
        1: 0100007F:1F91 0100007F:0001 01 00000000:00000000 00:00000000 00000000     0        0 78 1\n";
    assert_eq!(parse_tcp(tcp), [(77, "tcp://127.0.0.1:8080".to_owned())]);
    assert_eq!(show_address("00000000000000000000000001000000"), "[::1]");
}

#[test]
fn a_process_that_is_not_there_has_nothing() {
    let host = ProcHost::new(PathBuf::from("/proc"));
    let nobody = u32::MAX - 1;
    assert_eq!(fuse_holder(&host, nobody), None);
    assert_eq!(launch_hash(&host, nobody), None);
    assert!(listens_on(&host, nobody).is_empty());
}
