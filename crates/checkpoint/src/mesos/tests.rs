//! Section by section what Mesos reads, and what it reads it as.

use std::fs;

use proptest::prelude::*;

use super::*;

const LIMIT: u64 = 1 << 20;

fn file(bytes: &[u8]) -> (tempfile::TempDir, std::path::PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("container.info");
    fs::write(&path, bytes).unwrap();
    (dir, path)
}

fn first(bytes: &[u8]) -> Result<Option<Vec<u8>>, CheckpointError> {
    let (_dir, path) = file(bytes);
    read_message(path, LIMIT)
}

#[test]
fn ck1_one_message_is_its_length_little_endian_and_its_body() {
    let bytes = encode_message(b"moin").unwrap();
    assert_eq!(bytes, [4, 0, 0, 0, b'm', b'o', b'i', b'n']);
    assert_eq!(first(&bytes).unwrap(), Some(b"moin".to_vec()));
    let long = vec![7; 0x0102];
    let bytes = encode_message(&long).unwrap();
    assert_eq!(bytes[..4], [2, 1, 0, 0]);
    assert_eq!(first(&bytes).unwrap(), Some(long));
}

#[test]
fn ck1_three_messages_are_the_record_repeated() {
    let bodies = [b"a".to_vec(), Vec::new(), b"ccc".to_vec()];
    let bytes = bodies
        .iter()
        .flat_map(|body| encode_message(body).unwrap())
        .collect::<Vec<_>>();
    assert_eq!(bytes, b"\x01\0\0\0a\0\0\0\0\x03\0\0\0ccc");
    let (_dir, path) = file(&bytes);
    assert_eq!(
        read_messages(&path, LIMIT, Partial::Refuse).unwrap(),
        bodies
    );
    // A single message ignores what follows.
    assert_eq!(read_message(&path, LIMIT).unwrap(), Some(b"a".to_vec()));
}

#[test]
fn ck1_a_string_is_the_file_itself() {
    let (_dir, path) = file(b"raw\n");
    assert_eq!(read_string(path, LIMIT).unwrap(), b"raw\n");
    let (_dir, path) = file(b"");
    assert_eq!(read_string(path, LIMIT).unwrap(), b"");
}

#[test]
fn an_empty_file_was_never_written_and_a_missing_one_is_an_error() {
    assert_eq!(first(b"").unwrap(), None);
    let dir = tempfile::tempdir().unwrap();
    let error = read_message(dir.path().join("missing"), LIMIT).unwrap_err();
    assert!(
        matches!(error, CheckpointError::Io { action: "read", .. }),
        "{error}"
    );
}

#[test]
fn a_short_header_and_a_short_body_name_what_is_wanted() {
    for (bytes, offset, wanted, found) in [
        (b"\x04".as_slice(), 0, 4, 1),
        (b"\x04\0\0", 0, 4, 3),
        (b"\x04\0\0\0mo", 4, 4, 2),
        (b"\xFF\xFF\xFF\xFFmoin", 4, u64::from(u32::MAX), 4),
    ] {
        let error = first(bytes).unwrap_err();
        let CheckpointError::Truncated {
            offset: o,
            wanted: w,
            found: f,
            ..
        } = error
        else {
            panic!("{error}");
        };
        assert_eq!((o, w, f), (offset, wanted, found), "{bytes:?}");
    }
}

#[test]
fn a_partial_last_message_is_left_out_when_asked() {
    let (_dir, path) = file(b"\x01\0\0\0a\x05\0\0\0bb");
    assert!(read_messages(&path, LIMIT, Partial::Refuse).is_err());
    assert_eq!(
        read_messages(&path, LIMIT, Partial::Ignore).unwrap(),
        [b"a".to_vec()]
    );
    let (_dir, path) = file(b"\x01\0\0\0a\x05\0");
    assert_eq!(
        read_messages(&path, LIMIT, Partial::Ignore).unwrap(),
        [b"a".to_vec()]
    );
}

#[test]
fn a_file_over_the_limit_is_not_read() {
    let (_dir, path) = file(&encode_message(&[7; 100]).unwrap());
    let error = read_message(path, 64).unwrap_err();
    assert!(
        matches!(
            error,
            CheckpointError::OverLimit {
                length: 104,
                limit: 64,
                ..
            }
        ),
        "{error}"
    );
}

#[test]
fn a_directory_and_a_link_are_no_record() {
    let (dir, path) = file(b"\x01\0\0\0a");
    let link = dir.path().join("link");
    std::os::unix::fs::symlink(&path, &link).unwrap();
    for path in [dir.path(), &link] {
        let error = read_message(path, LIMIT).unwrap_err();
        assert!(matches!(error, CheckpointError::NotAFile { .. }), "{error}");
    }
}

proptest! {
    /// The body of `cargo xtask fuzz mesos-record`.
    #[test]
    fn hostile_files_never_panic_and_never_give_more_than_they_hold(
        bytes in proptest::collection::vec(prop_oneof![Just(0u8), 0u8..5, any::<u8>()], 0..64),
    ) {
        let mut offset = 0;
        while let Ok(Some(body)) = next_message(Path::new("x"), &bytes, offset) {
            offset += HEADER + body.len();
            prop_assert!(offset <= bytes.len());
        }
    }

    #[test]
    fn messages_come_back(
        bodies in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..20), 0..6),
    ) {
        let bytes: Vec<u8> =
            bodies.iter().flat_map(|body| encode_message(body).unwrap()).collect();
        let (_dir, path) = file(&bytes);
        prop_assert_eq!(read_messages(path, LIMIT, Partial::Refuse).unwrap(), bodies);
    }
}
