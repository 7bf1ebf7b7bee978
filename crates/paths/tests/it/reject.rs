//! PA2: what is no path of the layout is refused, with the path and the reason.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use longshore_paths::{CsiRoot, PathsError};

fn container(path: &str) -> String {
    CsiRoot::new("/r/csi")
        .parse_container(Path::new(path))
        .unwrap_err()
        .to_string()
}

fn volume(path: &str) -> String {
    CsiRoot::new("/r/csi")
        .parse_volume(Path::new(path))
        .unwrap_err()
        .to_string()
}

#[test]
fn pa2_outside_of_the_root_and_a_root_that_looks_alike() {
    for path in [
        "/r/csi2/t/n/containers/c",
        "/elsewhere",
        "/",
        "",
        "r/csi/t/n/containers/c",
    ] {
        assert_eq!(container(path), format!("{path} is not below /r/csi"));
    }
}

#[test]
fn pa2_another_number_of_components_or_another_third() {
    let form = "<type>/<name>/containers/<container id>";
    for path in [
        "/r/csi",
        "/r/csi/t/n/containers",
        "/r/csi/t/n/containers/c/container.info",
        "/r/csi/t/n/volumes/c",
        "/r/csi/t/n/Containers/c",
        "/r/csi/../n/containers/c",
        "/r/csi/t/n/containers/..",
    ] {
        assert_eq!(
            container(path),
            format!("{path} does not have the form {form}")
        );
    }
    let error = CsiRoot::new("/r/csi").parse_mount(Path::new("/r/csi/t/n/mounts/v/target"));
    let text = error.unwrap_err().to_string();
    assert!(text.ends_with("does not have the form <type>/<name>/mounts/<encoded volume id>"));
}

#[test]
fn pa2_components_that_are_no_identifiers() {
    for (path, reason) in [
        (
            "/r/csi/t/n/containers/a.",
            "the container id is empty: give it a name",
        ),
        (
            "/r/csi/t/n/containers/a b",
            "the container id \"a b\" contains ' ', which is not allowed",
        ),
        (
            "/r/csi/t\n/n/containers/a",
            "the plugin type \"t\\n\" contains '\\n'",
        ),
    ] {
        let text = container(path);
        let expected = format!("cannot parse {path}: {reason}");
        assert!(text.starts_with(&expected), "{text}");
    }
}

#[test]
fn pa2_bad_escapes_and_names_that_are_not_canonical() {
    for (name, reason) in [
        (
            "%",
            "\"%\" holds a percent escape at byte 0 that is not %XX",
        ),
        (
            "a%4",
            "\"a%4\" holds a percent escape at byte 1 that is not %XX",
        ),
        (
            "%GG",
            "\"%GG\" holds a percent escape at byte 0 that is not %XX",
        ),
        (
            "%+1",
            "\"%+1\" holds a percent escape at byte 0 that is not %XX",
        ),
        ("%FF", "\"%FF\" does not decode to UTF-8"),
        (
            "%41",
            "\"%41\" is not how its id is encoded, which is \"A\"",
        ),
        (
            "%2f",
            "\"%2f\" is not how its id is encoded, which is \"%2F\"",
        ),
        (
            "a+b",
            "\"a+b\" is not how its id is encoded, which is \"a%20b\"",
        ),
        ("~", "\"~\" is not how its id is encoded, which is \"%7E\""),
        ("%_", "the volume id is empty: give it a name"),
        (
            "%_YQ",
            "\"%_YQ\" is not how its id is encoded, which is \"a\"",
        ),
        ("%_Y", "the volume id is empty: give it a name"),
        (
            "%_Y*",
            "\"%_Y*\" holds a percent escape at byte 3 that is not %XX",
        ),
        ("%__w", "\"%__w\" does not decode to UTF-8"),
    ] {
        let path = format!("/r/csi/t/n/volumes/{name}");
        assert_eq!(volume(&path), format!("cannot parse {path}: {reason}"));
    }
}

#[test]
fn pa2_a_name_that_is_not_utf8() {
    let path = Path::new("/r/csi/t/n/containers").join(OsStr::from_bytes(b"\xFF"));
    let error = CsiRoot::new("/r/csi").parse_container(&path).unwrap_err();
    assert!(matches!(error, PathsError::NotUtf8 { .. }), "{error}");
}
