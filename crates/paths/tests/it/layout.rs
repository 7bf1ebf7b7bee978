//! PA1: every path of the CSI layout, there and back.

use std::path::{Path, PathBuf};

use longshore_paths::{ContainerId, CsiRoot, PluginName, PluginType, VolumeId};
use proptest::prelude::*;

use crate::{container, name, ty, volume};

#[test]
fn pa1_the_layout_is_mesos_with_volume_ids_encoded_and_container_ids_raw() {
    let root = CsiRoot::new("/var/lib/longshore/csi");
    let (ty, name) = (ty("org.apache.mesos.csi.test"), name("a b:c%dé"));
    let id = container("mesos-internal-csi-x--NODE_SERVICE");
    let volume = volume("vol/1%: é+~");
    let at = |rest: &str| {
        Path::new("/var/lib/longshore/csi/org.apache.mesos.csi.test/a b:c%dé").join(rest)
    };
    let encoded = "vol%2F1%25%3A%20%C3%A9%2B%7E";
    for (found, expected) in [
        (root.plugin_dir(&ty, &name), at("")),
        (root.containers_dir(&ty, &name), at("containers")),
        (
            root.container_dir(&ty, &name, &id),
            at(&format!("containers/{id}")),
        ),
        (
            root.container_info(&ty, &name, &id),
            at(&format!("containers/{id}/container.info")),
        ),
        (root.volumes_dir(&ty, &name), at("volumes")),
        (
            root.volume_dir(&ty, &name, &volume),
            at(&format!("volumes/{encoded}")),
        ),
        (
            root.volume_state(&ty, &name, &volume),
            at(&format!("volumes/{encoded}/volume.state")),
        ),
        (root.mount_root(&ty, &name), at("mounts")),
        (
            root.mount_dir(&ty, &name, &volume),
            at(&format!("mounts/{encoded}")),
        ),
        (
            root.staging(&ty, &name, &volume),
            at(&format!("mounts/{encoded}/staging")),
        ),
        (
            root.target(&ty, &name, &volume),
            at(&format!("mounts/{encoded}/target")),
        ),
    ] {
        assert_eq!(found, expected);
    }
}

/// Mesos' table of section 2: what is escaped, and what is left as it is.
#[test]
fn pa1_percent_encoding_is_mesos_table() {
    for (id, encoded) in [
        ("plain-Name_1.2!*'()", "plain-Name_1.2!*'()"),
        ("$&+,/:;=?@", "%24%26%2B%2C%2F%3A%3B%3D%3F%40"),
        (
            " \"<>#%{}|\\^~[]`",
            "%20%22%3C%3E%23%25%7B%7D%7C%5C%5E%7E%5B%5D%60",
        ),
        ("\u{1}\u{1f}\0", "%01%1F%00"),
        ("é€", "%C3%A9%E2%82%AC"),
        // Mesos leaves 0x7F as it is.
        ("\u{7f}", "%7F"),
    ] {
        assert_eq!(volume(id).to_component(), encoded);
        assert_eq!(VolumeId::from_component(encoded).unwrap(), volume(id));
    }
}

fn ids() -> impl Strategy<Value = (PluginType, PluginName)> {
    let component = "[^/\\p{Cc}]{1,60}";
    let usable = |s: &String| s != "." && s != ".." && s.len() <= 255;
    (
        component.prop_filter("usable", usable),
        component.prop_filter("usable", usable),
    )
        .prop_map(|(t, n)| (ty(&t), name(&n)))
}

fn volume_ids() -> impl Strategy<Value = VolumeId> {
    prop_oneof![
        "\\PC{1,47}",
        "[.%+/ ]{1,6}",
        "[a-z.]{1,255}",
        any::<[char; 40]>().prop_map(String::from_iter)
    ]
    .prop_filter_map("fits", |id| VolumeId::new(id).ok())
}

fn roots() -> impl Strategy<Value = PathBuf> {
    prop_oneof![
        Just("/"),
        Just("/var/lib/longshore/csi"),
        Just("relative/csi"),
        Just("/a b/ü")
    ]
    .prop_map(PathBuf::from)
}

proptest! {
    #[test]
    fn pa1_containers_come_back(root in roots(), (ty, name) in ids(), id in "[A-Za-z0-9_:%é-]{1,80}") {
        let (root, id) = (CsiRoot::new(root), container(&id));
        let dir = root.container_dir(&ty, &name, &id);
        prop_assert_eq!(root.parse_container(&dir).unwrap(), (ty, name, id));
    }

    #[test]
    fn pa1_nested_containers_come_back(values in proptest::collection::vec("[a-zA-Z0-9_-]{1,20}", 1..10)) {
        let mut id = container(&values[0]);
        for value in &values[1..] {
            id = ContainerId::nested(&id, value).unwrap();
        }
        prop_assert_eq!(id.to_string(), values.join("."));
        prop_assert_eq!(id.values(), values.iter().map(String::as_str).collect::<Vec<_>>());
        prop_assert_eq!(id.to_string().parse::<ContainerId>().unwrap(), id);
    }

    #[test]
    fn pa1_volumes_and_mounts_come_back(root in roots(), (ty, name) in ids(), id in volume_ids()) {
        let root = CsiRoot::new(root);
        let expected = (ty.clone(), name.clone(), id.clone());
        let dir = root.volume_dir(&ty, &name, &id);
        prop_assert_eq!(root.parse_volume(&dir).unwrap(), expected.clone());
        let dir = root.mount_dir(&ty, &name, &id);
        prop_assert_eq!(root.parse_mount(&dir).unwrap(), expected);
    }
}
