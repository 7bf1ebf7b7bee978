use longshore_mesos_api::v1::{CommandInfo, CsiPluginEndpoint};

use super::*;

fn places() -> Places {
    Places {
        state: StateRoot::new("/var/lib/longshore"),
        runtime: RuntimeDir::new("/run/longshore"),
        instance: InstanceId::new("0123456789abcdef").unwrap(),
    }
}

fn container(services: &[i32]) -> CsiPluginContainerInfo {
    let command = CommandInfo {
        value: Some("plugin".to_owned()),
        ..CommandInfo::default()
    };
    CsiPluginContainerInfo {
        services: services.to_vec(),
        command: Some(command),
        ..CsiPluginContainerInfo::default()
    }
}

fn config(name: &str, ty: &str, containers: &[&[i32]]) -> PluginConfig {
    let info = CsiPluginInfo {
        r#type: ty.to_owned(),
        containers: containers
            .iter()
            .map(|services| container(services))
            .collect(),
        ..CsiPluginInfo::default()
    };
    PluginConfig::new(name, info)
}

fn refused(configs: Vec<PluginConfig>) -> String {
    plan_all(configs, &places()).unwrap_err().to_string()
}

#[test]
fn the_id_carries_the_instance_and_ignores_the_order_of_services() {
    let ids = |services: &[i32]| {
        let plan = Plan::new(config("p", "org.example.nfs", &[services]), &places()).unwrap();
        plan.drafts()
            .iter()
            .map(|draft| draft.id.to_string())
            .collect::<Vec<_>>()
    };
    let expected = "longshore-0123456789abcdef-csi-org-example-nfs-default--\
                    CONTROLLER_SERVICE-NODE_SERVICE";
    assert_eq!(ids(&[1, 2]), [expected]);
    assert_eq!(ids(&[2, 1, 2]), [expected]);
}

#[test]
fn each_service_is_served_by_the_first_container_that_offers_it() {
    let plan = Plan::new(config("p", "t", &[&[1], &[1, 2], &[2]]), &places()).unwrap();
    let served: Vec<_> = plan
        .drafts()
        .iter()
        .map(|draft| draft.services.clone())
        .collect();
    assert_eq!(
        served,
        [
            vec![Service::Controller],
            vec![Service::Controller, Service::Node]
        ]
    );
    let mut only_node = config("p", "t", &[&[1], &[2]]);
    only_node.services = [Service::Node].into();
    let plan = Plan::new(only_node, &places()).unwrap();
    assert_eq!(plan.drafts().len(), 1);
    assert!(plan.needs_agent_id());
}

#[test]
fn a_configuration_that_cannot_work_is_refused_with_its_reason() {
    let mut not_offered = config("p", "t", &[&[1]]);
    not_offered.services = [Service::Node].into();
    let mut both = config("p", "t", &[&[1]]);
    both.info.endpoints.push(CsiPluginEndpoint {
        csi_service: 1,
        endpoint: "unix:///s".to_owned(),
    });
    let mut hurry = config("p", "t", &[&[1]]);
    hurry.startup_timeout = Duration::ZERO;
    let mut long = config("p", "t", &[&[1]]);
    long.info.name = Some("n".repeat(230));
    let mut dotted = config("p", "t", &[&[1]]);
    dotted.info.name = Some("a.b".to_owned());
    for (configs, expected) in [
        (
            vec![not_offered],
            "no container or endpoint offers NODE_SERVICE",
        ),
        (vec![both], "both containers and endpoints"),
        (
            vec![config("p", "t", &[])],
            "neither containers nor endpoints",
        ),
        (vec![config("p", "t", &[&[3]])], "service 3 is unknown"),
        (
            vec![config("p", "t", &[&[1], &[1]])],
            "the same container id",
        ),
        (vec![config("p", "..", &[&[1]])], "cannot be used"),
        (vec![config("p", "t", &[&[]])], "cannot be used"),
        (vec![long], "cannot be used"),
        (vec![dotted], "cannot be used"),
        (vec![hurry], "startup_timeout is 0ns"),
        (
            vec![config("p", "t", &[&[1]]), config("p", "u", &[&[1]])],
            "two plugins are named",
        ),
        (
            vec![config("p", "t", &[&[1]]), config("q", "t", &[&[2]])],
            "both have type",
        ),
        (
            vec![config("p", "a.b", &[&[1]]), config("q", "a-b", &[&[1]])],
            "a dot becomes a dash",
        ),
    ] {
        let error = refused(configs);
        assert!(error.contains(expected), "{error}");
    }
}

#[test]
fn unmanaged_endpoints_are_checked() {
    let endpoint = |text: &str| {
        let endpoint = CsiPluginEndpoint {
            csi_service: 2,
            endpoint: text.to_owned(),
        };
        let info = CsiPluginInfo {
            r#type: "t".to_owned(),
            endpoints: vec![endpoint],
            ..CsiPluginInfo::default()
        };
        Plan::new(PluginConfig::new("p", info), &places())
    };
    assert!(matches!(
        endpoint("unix:///csi/csi.sock").unwrap().kind,
        Kind::Unmanaged(_)
    ));
    assert!(matches!(
        endpoint("tcp://127.0.0.1:10000").unwrap().kind,
        Kind::Unmanaged(_)
    ));
    assert!(matches!(
        endpoint("unix://csi/csi.sock"),
        Err(ManagerError::Endpoint { .. })
    ));
}

#[test]
fn pa4_a_socket_path_that_is_too_long_is_refused_at_configuration() {
    let mut places = places();
    places.runtime = RuntimeDir::new(format!("/run/{}", "r".repeat(100)));
    let error = Plan::new(config("p", "t", &[&[1]]), &places).unwrap_err();
    assert!(matches!(error, ManagerError::Path { .. }));
}

#[test]
fn a_record_gives_the_same_container_back() {
    let mut config = config("p", "t", &[&[1, 2]]);
    config.info.target_path_root = Some("/targets".to_owned());
    let plan = Arc::new(Plan::new(config, &places()).unwrap());
    let planned = plan
        .planned(&places(), Some(&Arc::from("agent-1")))
        .remove(0);
    let record = planned.record(&places(), 0);
    let back = Planned::of_record(record.clone(), &places()).unwrap();
    assert_eq!(
        (&back.id, back.hash, &back.short),
        (&planned.id, planned.hash, &planned.short)
    );
    assert_eq!(back.request(&places()), planned.request(&places()));
    assert_eq!(back.record(&places(), 7), record);
    // A new agent id is a change of a container with NODE_SERVICE.
    let other = plan
        .planned(&places(), Some(&Arc::from("agent-2")))
        .remove(0);
    assert_ne!(other.hash, planned.hash);
    let again = Plan::of_records(&[record], &places()).unwrap();
    assert_eq!(again.drafts()[0].id, planned.id);
}
