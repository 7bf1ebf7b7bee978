//! PA5: identifiers that try to leave their directory, or do not fit.

use std::collections::BTreeMap;

use longshore_paths::{
    ContainerId, CsiRoot, InstanceId, PathsError, PluginName, PluginType, Service, VolumeId,
};
use proptest::prelude::*;

use crate::{name, ty, volume};

#[test]
fn pa5_hostile_volume_ids_stay_in_their_directory() {
    let root = CsiRoot::new("/r");
    let (ty, name) = (ty("t"), name("n"));
    let umlauts = "é".repeat(64);
    for id in [
        ".",
        "..",
        "../../etc",
        "/",
        "//",
        "\0",
        "a\0b",
        "%2E%2E",
        "%_",
        umlauts.as_str(),
    ] {
        let path = root.volume_dir(&ty, &name, &volume(id));
        let component = path
            .strip_prefix("/r/t/n/volumes")
            .unwrap()
            .to_str()
            .unwrap();
        assert!(
            !component.contains('/') && component != "." && component != "..",
            "{id:?}"
        );
        assert!(component.len() <= 255 && component.is_ascii(), "{id:?}");
        assert_eq!(
            root.parse_volume(&path).unwrap(),
            (ty.clone(), name.clone(), volume(id))
        );
    }
    assert_eq!(volume(".").to_component(), "%2E");
    assert_eq!(volume("..").to_component(), "%2E%2E");
    assert_eq!(volume("...").to_component(), "...");
    assert_eq!(
        VolumeId::new("").unwrap_err(),
        PathsError::Empty { what: "volume id" }
    );
}

#[test]
fn pa5_a_volume_id_that_encodes_to_over_255_bytes_takes_the_dense_form() {
    // 128 bytes of UTF-8, which is as long as CSI ids get: 384 bytes in Mesos' form.
    let id = volume(&"é".repeat(64));
    let component = id.to_component();
    assert_eq!(component, format!("%_{}", "w6nDqcOp".repeat(21) + "w6k"));
    assert_eq!(component.len(), 2 + 171);
    assert_eq!(VolumeId::from_component(&component).unwrap(), id);
    // The border: 85 escapes are 255 bytes.
    assert_eq!(volume(&"/".repeat(85)).to_component(), "%2F".repeat(85));
    assert!(volume(&"/".repeat(86)).to_component().starts_with("%_"));
    assert_eq!(volume(&"v".repeat(255)).to_component(), "v".repeat(255));
}

#[test]
fn pa5_a_volume_id_that_fits_in_no_form_is_refused() {
    assert!(VolumeId::new("/".repeat(189)).is_ok());
    let error = VolumeId::new("/".repeat(190)).unwrap_err();
    let text = error.to_string();
    assert!(text.starts_with("the volume id \"////"), "{text}");
    assert!(
        text.ends_with(" is 256 bytes long, at most 255 fit: shorten it"),
        "{text}"
    );
    assert!(VolumeId::new("v".repeat(256)).is_err());
}

#[test]
fn pa5_hostile_types_and_names_are_refused() {
    let long = "x".repeat(256);
    for (value, expected) in [
        ("", "the plugin type is empty: give it a name"),
        (
            ".",
            "the plugin type \".\" is a name of the file system's own: choose another",
        ),
        (
            "..",
            "the plugin type \"..\" is a name of the file system's own: choose another",
        ),
        (
            "a/b",
            "the plugin type \"a/b\" contains '/', which is not allowed there: leave it out",
        ),
        (
            "a\0",
            "the plugin type \"a\\0\" contains '\\0', which is not allowed there: leave it out",
        ),
        (
            "\u{85}",
            "the plugin type \"\\u{85}\" contains '\\u{85}', which is not allowed there: leave it out",
        ),
    ] {
        assert_eq!(PluginType::new(value).unwrap_err().to_string(), expected);
        let expected = expected.replace("plugin type", "plugin name");
        assert_eq!(PluginName::new(value).unwrap_err().to_string(), expected);
    }
    let text = PluginType::new(&long).unwrap_err().to_string();
    let shown = "x".repeat(64);
    let expected =
        format!("the plugin type \"{shown}\".. is 256 bytes long, at most 255 fit: shorten it");
    assert_eq!(text, expected);
    assert!(PluginType::new(&long[..255]).is_ok());
}

#[test]
fn hostile_container_ids_are_refused_by_mesos_rules() {
    for value in [
        "", ".", "..", "a.b", "a b", "a/b", "a\\b", "a\nb", "a\0b", "\u{7f}", "\u{9f}",
    ] {
        assert!(ContainerId::new(value).is_err(), "{value:?}");
    }
    assert!(ContainerId::new("x".repeat(242)).is_ok());
    let error = ContainerId::new("x".repeat(243)).unwrap_err();
    assert!(
        matches!(
            error,
            PathsError::TooLong {
                length: 243,
                max: 242,
                ..
            }
        ),
        "{error}"
    );
    for text in ["", ".", "a.", ".a", "a..b", "a.b c"] {
        assert!(text.parse::<ContainerId>().is_err(), "{text:?}");
    }
}

#[test]
fn containers_nest_32_levels_deep_at_most() {
    let levels = |n: usize| vec!["c"; n].join(".").parse::<ContainerId>();
    let deepest = levels(32).unwrap();
    assert_eq!(
        (deepest.depth(), deepest.root().to_string()),
        (32, "c".to_owned())
    );
    let error = levels(33).unwrap_err();
    assert!(
        matches!(
            error,
            PathsError::TooLong {
                length: 33,
                max: 32,
                ..
            }
        ),
        "{error}"
    );
}

#[test]
fn instance_ids_are_16_lower_case_digits() {
    let id = InstanceId::from_bytes([0, 1, 2, 3, 4, 5, 6, 255]);
    assert_eq!(id.as_str(), "00010203040506ff");
    assert_eq!(id.as_str().parse::<InstanceId>().unwrap(), id);
    for value in [
        "",
        "0001",
        "00010203040506FF",
        "00010203040506fg",
        "00010203040506ff0",
    ] {
        let error = InstanceId::new(value).unwrap_err().to_string();
        assert_eq!(
            error,
            format!("the instance id {value:?} is not 16 lower-case hexadecimal digits")
        );
    }
}

#[test]
fn services_have_mesos_names_and_numbers() {
    for (service, name, short, number) in [
        (Service::Controller, "CONTROLLER_SERVICE", "controller", 1),
        (Service::Node, "NODE_SERVICE", "node", 2),
    ] {
        assert_eq!(
            (service.as_str(), service.short(), service.number()),
            (name, short, number)
        );
        assert_eq!(name.parse::<Service>().unwrap(), service);
        assert_eq!(short.parse::<Service>().unwrap(), service);
        assert_eq!(Service::from_number(number), Some(service));
    }
    assert_eq!(Service::from_number(0), None);
    let text = "Node".parse::<Service>().unwrap_err().to_string();
    assert!(
        text.starts_with("the service \"Node\" is unknown: write CONTROLLER_SERVICE"),
        "{text}"
    );
}

proptest! {
    #[test]
    fn pa5_no_two_volume_ids_share_a_directory(
        ids in proptest::collection::vec(
            prop_oneof!["[.%_+/2EFe ]{1,4}", "[é/]{80,110}", "\\PC{1,20}"], 1..40)
    ) {
        let mut seen = BTreeMap::new();
        for id in ids {
            let Ok(parsed) = VolumeId::new(&id) else { continue };
            if let Some(other) = seen.insert(parsed.to_component(), id.clone()) {
                prop_assert_eq!(other, id);
            }
        }
    }

    #[test]
    fn pa5_any_identifier_is_refused_or_one_plain_component(value in any::<String>()) {
        let plain = |component: &str| {
            let path = std::path::Path::new("/r").join(component);
            path.components().count() == 3 && path.parent() == Some("/r".as_ref())
                && component.len() <= 255 && !component.contains('\0')
        };
        prop_assert!(PluginType::new(&value).is_err() || plain(&value));
        prop_assert!(PluginName::new(&value).is_err() || plain(&value));
        prop_assert!(ContainerId::new(&value).is_err() || plain(&value));
        if let Ok(id) = VolumeId::new(&value) {
            prop_assert!(plain(&id.to_component()));
        }
    }
}
