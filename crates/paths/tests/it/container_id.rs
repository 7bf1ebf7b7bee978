//! The container ids of CSI plugins, which are Mesos' own.

use longshore_paths::{Service, csi_container_id, refuse_shared_container};

use crate::{container, name, ty};

const BOTH: [Service; 2] = [Service::Controller, Service::Node];

#[test]
fn has_mesos_form_with_the_services_in_the_order_given() {
    let id = |services: &[Service]| {
        let (ty, name) = (ty("org.apache.mesos.csi.test"), name("default"));
        csi_container_id("mesos-internal-csi-", &ty, &name, services)
            .unwrap()
            .to_string()
    };
    let expected =
        "mesos-internal-csi-org-apache-mesos-csi-test-default--CONTROLLER_SERVICE-NODE_SERVICE";
    assert_eq!(id(&BOTH), expected);
    assert!(
        id(&[Service::Node, Service::Controller]).ends_with("--NODE_SERVICE-CONTROLLER_SERVICE")
    );
    assert!(id(&[Service::Node]).ends_with("-default--NODE_SERVICE"));
}

#[test]
fn a_name_that_mesos_would_refuse_is_refused_here() {
    for (plugin, character) in [("a.b", "'.'"), ("a b", "' '"), ("a\\b", "'\\\\'")] {
        let error = csi_container_id("p-", &ty("t"), &name(plugin), &BOTH)
            .unwrap_err()
            .to_string();
        assert!(
            error.contains(&format!("contains {character}, which is not allowed")),
            "{error}"
        );
    }
    let error = csi_container_id("p-", &ty(&"t".repeat(250)), &name("n"), &BOTH).unwrap_err();
    assert!(
        error.to_string().ends_with("at most 242 fit: shorten it"),
        "{error}"
    );
    let error = csi_container_id("p-", &ty("t"), &name("n"), &[]).unwrap_err();
    let expected = "a container of plugin n of type t lists no services: list at least one";
    assert_eq!(error.to_string(), expected);
}

#[test]
fn two_plugins_with_one_container_id_are_refused() {
    let id = |plugin: &str| csi_container_id("p-", &ty(plugin), &name("n"), &BOTH).unwrap();
    assert_eq!(id("a.b"), id("a-b"));
    let error = refuse_shared_container([
        ("plugin one", container("other")),
        ("plugin two", id("a.b")),
        ("plugin three", id("a-b")),
    ]);
    let expected = "plugin two and plugin three both map to container id \
                    p-a-b-n--CONTROLLER_SERVICE-NODE_SERVICE: rename one of them";
    assert_eq!(error.unwrap_err().to_string(), expected);
    refuse_shared_container([("one", id("a")), ("two", id("b"))]).unwrap();
}
