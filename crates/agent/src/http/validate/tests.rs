use longshore_mesos_api::{DecodeLimits, json};
use proptest::prelude::*;

use super::*;

/// The order that the JSON of a call becomes, or the status and text of its refusal.
fn check(call: &str) -> Result<Order, String> {
    let call: Call = json::from_slice(call.as_bytes(), &DecodeLimits::default()).unwrap();
    let refused = |refusal: Refusal| format!("{} {}", refusal.status.as_u16(), refusal.text);
    let kind = call_type(&call).map_err(refused)?;
    order(kind, call).map_err(refused)
}

fn launch_json(rest: &str) -> String {
    format!(
        r#"{{"type":"LAUNCH_CONTAINER","launch_container":{{"container_id":{{"value":"c"}}{rest}}}}}"#
    )
}

fn launch_with(rest: &str) -> Result<Order, String> {
    check(&launch_json(rest))
}

/// Every member of `good` is launched, every one of `bad` is a 400 with the text beside it.
fn table(good: &[&str], bad: &[(&str, &str)]) {
    for rest in good {
        assert!(
            matches!(launch_with(rest), Ok(Order::Launch(_))),
            "{rest}: {:?}",
            launch_with(rest)
        );
    }
    for (rest, text) in bad {
        let refused = launch_with(rest).unwrap_err();
        assert!(
            refused.starts_with("400 Failed to validate agent::Call: "),
            "{rest}: {refused}"
        );
        assert!(refused.contains(text), "{rest}: {refused}");
    }
}

#[test]
fn the_type_is_required() {
    for call in [
        "{}",
        r#"{"type":"no such"}"#,
        r#"{"type":"get_health"}"#,
        r#"{"type":null}"#,
    ] {
        let refused = check(call).unwrap_err();
        assert_eq!(
            refused,
            "400 Failed to validate agent::Call: Expecting 'type' to be present"
        );
    }
    assert_eq!(check(r#"{"type":"UNKNOWN"}"#), Ok(Order::NotServed));
}

#[test]
fn calls_without_parameters_need_none() {
    assert_eq!(check(r#"{"type":"GET_HEALTH"}"#), Ok(Order::GetHealth));
    assert_eq!(check(r#"{"type":"GET_VERSION"}"#), Ok(Order::GetVersion));
    assert_eq!(check(r#"{"type":"GET_AGENT"}"#), Ok(Order::GetAgent));
    assert_eq!(
        check(r#"{"type":"GET_CONTAINERS"}"#),
        Ok(Order::GetContainers {
            nested: false,
            standalone: false
        })
    );
    assert_eq!(
        check(
            r#"{"type":"GET_CONTAINERS","get_containers":{"show_nested":true,"show_standalone":true}}"#
        ),
        Ok(Order::GetContainers {
            nested: true,
            standalone: true
        })
    );
}

#[test]
fn calls_with_parameters_need_them() {
    for kind in [
        "LAUNCH_CONTAINER",
        "WAIT_CONTAINER",
        "KILL_CONTAINER",
        "REMOVE_CONTAINER",
        "LAUNCH_NESTED_CONTAINER",
        "WAIT_NESTED_CONTAINER",
        "KILL_NESTED_CONTAINER",
        "REMOVE_NESTED_CONTAINER",
        "LAUNCH_NESTED_CONTAINER_SESSION",
        "ATTACH_CONTAINER_INPUT",
        "ATTACH_CONTAINER_OUTPUT",
    ] {
        let refused = check(&format!(r#"{{"type":"{kind}"}}"#)).unwrap_err();
        let member = kind.to_lowercase();
        assert!(
            refused.ends_with(&format!("Expecting '{member}' to be present")),
            "{refused}"
        );
    }
}

#[test]
fn the_calls_known_but_not_served_are_told_apart_from_bad_ones() {
    for kind in [
        "GET_STATE",
        "GET_FLAGS",
        "GET_METRICS",
        "PRUNE_IMAGES",
        "LIST_FILES",
    ] {
        assert_eq!(
            check(&format!(r#"{{"type":"{kind}"}}"#)),
            Ok(Order::NotServed)
        );
    }
}

#[test]
fn the_nested_twins_need_a_parent() {
    for kind in ["launch", "wait", "kill", "remove"] {
        let member = format!("{kind}_nested_container");
        let name = member.to_uppercase();
        let refused = check(&format!(
            r#"{{"type":"{name}","{member}":{{"container_id":{{"value":"c"}}}}}}"#
        ))
        .unwrap_err();
        assert!(
            refused.ends_with(&format!(
                "Expecting '{member}.container_id.parent' to be present"
            )),
            "{refused}"
        );
        check(&format!(
            r#"{{"type":"{name}","{member}":{{"container_id":{{"value":"c","parent":{{"value":"p"}}}}}}}}"#
        ))
        .unwrap();
    }
}

#[test]
fn container_ids_follow_the_rules_of_mesos_parents_too() {
    let wait = |value: &str| {
        check(&format!(
            r#"{{"type":"WAIT_CONTAINER","wait_container":{{"container_id":{value}}}}}"#
        ))
    };
    let long = |length: usize| format!(r#"{{"value":"{}"}}"#, "x".repeat(length));
    for good in [
        r#"{"value":"a:b_c-d"}"#,
        r#"{"value":"é"}"#,
        &long(242),
        r#"{"value":"n","parent":{"value":"p"}}"#,
    ] {
        assert!(
            matches!(wait(good), Ok(Order::Wait { twin: false, .. })),
            "{good}"
        );
    }
    for bad in [
        r#"{"value":""}"#,
        r#"{"value":"a/b"}"#,
        r#"{"value":"a b"}"#,
        r#"{"value":"a.b"}"#,
        r#"{"value":"."}"#,
        r#"{"value":".."}"#,
        r#"{"value":"a\\b"}"#,
        r#"{"value":"a\u0000"}"#,
        &long(243),
        r#"{"value":"n","parent":{"value":"a/b"}}"#,
        r#"{"value":"n","parent":{"value":""}}"#,
    ] {
        let refused = wait(bad).unwrap_err();
        assert!(
            refused.contains("'wait_container.container_id' is invalid: "),
            "{bad}: {refused}"
        );
    }
}

#[test]
fn nesting_is_bounded() {
    let chain = |parents: usize| {
        let id = (0..parents).fold(r#"{"value":"r"}"#.to_owned(), |parent, _| {
            format!(r#"{{"value":"n","parent":{parent}}}"#)
        });
        check(&format!(
            r#"{{"type":"WAIT_CONTAINER","wait_container":{{"container_id":{id}}}}}"#
        ))
    };
    chain(DEPTH_MAX).unwrap();
    assert!(chain(DEPTH_MAX + 1).unwrap_err().contains("levels deep"));
    assert!(chain(40).unwrap_err().contains("levels deep"));
}

#[test]
fn kill_means_sigkill_unless_it_says_otherwise() {
    let kill = |rest: &str| {
        check(&format!(
            r#"{{"type":"KILL_CONTAINER","kill_container":{{"container_id":{{"value":"c"}}{rest}}}}}"#
        ))
    };
    for (rest, expected) in [
        ("", 9),
        (r#","signal":15"#, 15),
        (r#","signal":"9""#, 9),
        (r#","signal":0"#, 0),
        (r#","signal":-1"#, -1),
    ] {
        assert!(
            matches!(kill(rest).unwrap(), Order::Kill { signal, .. } if signal == expected),
            "{rest}"
        );
    }
}

#[test]
fn launch_checks_resources() {
    table(
        &[
            "",
            r#","resources":[]"#,
            r#","resources":[{"name":"cpus","type":"SCALAR","scalar":{"value":0}}]"#,
            r#","resources":[{"name":"cpus","type":"SCALAR","scalar":{"value":1000}}]"#,
            r#","resources":[{"name":"cpus","type":"SCALAR","role":"*","scalar":{"value":0.1}},{"name":"mem","type":"SCALAR","scalar":{"value":32}}]"#,
            r#","resources":[{"name":"gpus","type":"SCALAR","scalar":{"value":2}}]"#,
            r#","resources":[{"name":"ports","type":"RANGES","ranges":{"range":[{"begin":5,"end":5},{"begin":1,"end":4}]}}]"#,
            r#","resources":[{"name":"s","type":"SET","set":{"item":["a","b"]}}]"#,
            r#","limits":{"cpus":{"value":2},"mem":{"value":"Infinity"},"disk":{"value":0}}"#,
        ],
        &[
            (
                r#","resources":[{"name":"cpus","type":"SCALAR","scalar":{"value":-1}}]"#,
                "Resource 'cpus:-1' is invalid: Invalid scalar resource: value <= 0",
            ),
            (
                r#","resources":[{"name":"cpus","type":"SCALAR","scalar":{"value":"NaN"}}]"#,
                "value <= 0",
            ),
            (
                r#","resources":[{"name":"cpus","type":"SCALAR","scalar":{"value":"Infinity"}}]"#,
                "infinite",
            ),
            (
                r#","resources":[{"name":"cpus","type":"SCALAR"}]"#,
                "Invalid scalar resource",
            ),
            (
                r#","resources":[{"name":"","type":"SCALAR","scalar":{"value":1}}]"#,
                "Empty resource name",
            ),
            (
                r#","resources":[{"name":"x","type":"TEXT"}]"#,
                "Unsupported resource type",
            ),
            (
                r#","resources":[{"name":"gpus","type":"SCALAR","scalar":{"value":0.5}}]"#,
                "GPUs must be whole",
            ),
            (
                r#","resources":[{"name":"x","type":"RANGES","scalar":{"value":1}}]"#,
                "Invalid ranges resource",
            ),
            (
                r#","resources":[{"name":"x","type":"RANGES","ranges":{"range":[{"begin":5,"end":4}]}}]"#,
                "ends before it begins",
            ),
            (
                r#","resources":[{"name":"x","type":"RANGES","ranges":{"range":[{"begin":1,"end":4},{"begin":4,"end":5}]}}]"#,
                "overlapping",
            ),
            (
                r#","resources":[{"name":"x","type":"SET"}]"#,
                "Invalid set resource",
            ),
            (
                r#","resources":[{"name":"x","type":"SET","set":{"item":["a","a"]}}]"#,
                "duplicated",
            ),
            (
                r#","resources":[{"name":"cpus","type":"SCALAR","role":"ops","scalar":{"value":1}}]"#,
                "unreserved",
            ),
            (
                r#","resources":[{"name":"cpus","type":"SCALAR","reservations":[{"role":"ops"}],"scalar":{"value":1}}]"#,
                "unreserved",
            ),
            (
                r#","resources":[{"name":"cpus","type":"SCALAR","revocable":{},"scalar":{"value":1}}]"#,
                "revocable",
            ),
            (
                r#","resources":[{"name":"disk","type":"SCALAR","disk":{"persistence":{"id":"p"}},"scalar":{"value":1}}]"#,
                "persistent",
            ),
            (r#","limits":{"cpus":{"value":-1}}"#, "the limit of 'cpus'"),
            (r#","limits":{"mem":{"value":"NaN"}}"#, "the limit of 'mem'"),
        ],
    );
}

#[test]
fn launch_checks_the_environment() {
    let with = |variable: &str| {
        format!(r#","command":{{"value":"true","environment":{{"variables":[{variable}]}}}}"#)
    };
    for good in [
        r#"{"name":"A","value":""}"#,
        r#"{"name":"A","value":"b","type":"VALUE"}"#,
        r#"{"name":"A","type":"SECRET","secret":{"type":"VALUE","value":{"data":"YQ=="}}}"#,
        r#"{"name":"A","type":"SECRET","secret":{"type":"REFERENCE","reference":{"name":"n"}}}"#,
    ] {
        table(&[&with(good)], &[]);
    }
    for (bad, text) in [
        (
            r#"{"name":"A"}"#,
            "'launch_container.command' is invalid: Environment variable 'A' of type 'VALUE' must have a value set",
        ),
        (
            r#"{"name":"A","value":"v","secret":{"type":"VALUE","value":{"data":"YQ=="}}}"#,
            "not have a secret",
        ),
        (r#"{"name":"A","type":"SECRET"}"#, "must have a secret set"),
        (
            r#"{"name":"A","type":"SECRET","value":"v","secret":{"type":"VALUE","value":{"data":"YQ=="}}}"#,
            "not have a value",
        ),
        (
            r#"{"name":"A","type":"SECRET","secret":{"type":"VALUE","value":{"data":"AA=="}}}"#,
            "NUL",
        ),
        (
            r#"{"name":"A","type":"SECRET","secret":{"type":"VALUE","reference":{"name":"n"}}}"#,
            "type VALUE has a value",
        ),
        (
            r#"{"name":"A","type":"SECRET","secret":{"type":"REFERENCE"}}"#,
            "type REFERENCE has a reference",
        ),
        (
            r#"{"name":"A","type":"SECRET","secret":{}}"#,
            "unknown type",
        ),
        (
            r#"{"name":"A","type":"UNKNOWN","value":"v"}"#,
            "unknown type",
        ),
        (r#"{"name":"","value":"v"}"#, "cannot be set"),
        (r#"{"name":"A=B","value":"v"}"#, "cannot be set"),
        (r#"{"name":"A","value":"\u0000"}"#, "NUL"),
    ] {
        table(&[], &[(&with(bad), text)]);
    }
    table(
        &[],
        &[
            (r#","command":{"value":"a\u0000b"}"#, "NUL"),
            (
                r#","command":{"shell":false,"value":"a","arguments":["\u0000"]}"#,
                "NUL",
            ),
        ],
    );
}

#[test]
fn launch_checks_the_container() {
    let mesos = |rest: &str| format!(r#","container":{{"type":"MESOS"{rest}}}"#);
    let volume = |rest: &str| {
        mesos(&format!(
            r#","volumes":[{{"container_path":"/c","mode":"RW"{rest}}}]"#
        ))
    };
    for good in [
        mesos(""),
        volume(r#","host_path":"/h""#),
        volume(r#","image":{"type":"DOCKER"}"#),
        volume(
            r#","source":{"type":"HOST_PATH","host_path":{"path":"/h","mount_propagation":{"mode":"BIDIRECTIONAL"}}}"#,
        ),
        volume(r#","source":{"type":"SANDBOX_PATH","sandbox_path":{"type":"SELF","path":"p"}}"#),
        r#","container":{"type":"DOCKER","docker":{"image":"i"}}"#.to_owned(),
        mesos(
            r#","rlimit_info":{"rlimits":[{"type":"RLMT_NOFILE","soft":1,"hard":2},{"type":"RLMT_CORE"}]}"#,
        ),
        mesos(r#","linux_info":{"share_cgroups":false}"#),
    ] {
        table(&[&good], &[]);
    }
    for (bad, text) in [
        (volume(""), "Volume at '/c': exactly one of"),
        (volume(r#","host_path":"/h","source":{"type":"HOST_PATH","host_path":{"path":"/h"}}"#), "exactly one of"),
        (volume(r#","host_path":"""#), "'host_path' must be a path"),
        (volume(r#","source":{}"#), "'source.type' is unknown"),
        (volume(r#","source":{"type":"HOST_PATH"}"#), "'source.host_path' must be set"),
        (volume(r#","source":{"type":"HOST_PATH","host_path":{"path":""}}"#), "must be a path"),
        (volume(r#","source":{"type":"HOST_PATH","sandbox_path":{"path":"p"}}"#), "'source.host_path' must be set"),
        (volume(r#","source":{"type":"SECRET"}"#), "'source.secret' must be set"),
        (volume(r#","source":{"type":"SECRET","secret":{"type":"VALUE"}}"#), "type VALUE has a value"),
        (volume(r#","source":{"type":"DOCKER_VOLUME"}"#), "'source.docker_volume' must be set"),
        (volume(r#","source":{"type":"CSI_VOLUME","csi_volume":{"plugin_name":"p"}}"#), "static_provisioning"),
        (mesos(r#","volumes":[{"container_path":"","mode":"RW","host_path":"/h"}]"#), "'container_path' must be"),
        (r#","container":{"type":"DOCKER"}"#.to_owned(), "'docker' must be set"),
        (r#","container":{"type":"DOCKER","docker":{"image":"i","parameters":[{"key":"name","value":"x"}]}}"#.to_owned(), "must not be 'name'"),
        (mesos(r#","rlimit_info":{"rlimits":[{}]}"#), "unknown type"),
        (mesos(r#","rlimit_info":{"rlimits":[{"type":"RLMT_NOFILE","soft":3,"hard":2}]}"#), "over the hard one"),
        (mesos(r#","rlimit_info":{"rlimits":[{"type":"RLMT_NOFILE","soft":3}]}"#), "both limits or none"),
        (mesos(r#","rlimit_info":{"rlimits":[{"type":"RLMT_CORE"},{"type":"RLMT_CORE"}]}"#), "given twice"),
        (mesos(r#","linux_info":{"share_cgroups":true}"#), "without a parent"),
    ] {
        table(&[], &[(&bad, text)]);
    }
}

#[test]
fn launch_checks_what_nested_containers_may_give() {
    let nested = |parents: usize, rest: &str| {
        let id = (0..parents).fold(r#"{"value":"r"}"#.to_owned(), |parent, _| {
            format!(r#"{{"value":"n","parent":{parent}}}"#)
        });
        check(&format!(
            r#"{{"type":"LAUNCH_CONTAINER","launch_container":{{"container_id":{id}{rest}}}}}"#
        ))
    };
    let resources =
        r#","resources":[{"name":"cpus","type":"SCALAR","role":"ops","scalar":{"value":1}}]"#;
    let limits = r#","limits":{"cpus":{"value":1}}"#;
    let own = r#","container":{"type":"MESOS","linux_info":{"share_cgroups":false}}"#;
    for rest in ["", resources, limits, own] {
        nested(1, rest).unwrap();
    }
    nested(2, "").unwrap();
    for rest in [resources, limits, own] {
        assert!(
            nested(2, rest)
                .unwrap_err()
                .contains("nested below another"),
            "{rest}"
        );
    }
}

#[test]
fn numbers_that_are_no_member_of_an_enum_are_refused() {
    let base: Call =
        json::from_slice(launch_json("").as_bytes(), &DecodeLimits::default()).unwrap();
    let mut container = base.clone();
    container.launch_container.as_mut().unwrap().container = Some(v1::ContainerInfo {
        r#type: 77,
        ..Default::default()
    });
    assert!(order(CallType::LaunchContainer, container).is_err());
    let mut resource = base.clone();
    resource.launch_container.as_mut().unwrap().resources = vec![v1::Resource {
        name: "x".into(),
        r#type: 77,
        ..Default::default()
    }];
    assert!(order(CallType::LaunchContainer, resource).is_err());
    let unknown = Call {
        r#type: Some(9999),
        ..Call::default()
    };
    assert_eq!(call_type(&unknown).unwrap_err().status, 400);
}

proptest! {
    #[test]
    fn any_call_is_an_order_or_a_400(value in ".{0,20}", parent in proptest::option::of(".{0,5}"), kind in 0i32..34, number in any::<f64>()) {
        let id = v1::ContainerId { value, parent: parent.map(|value| Box::new(v1::ContainerId { value, parent: None })) };
        let call = Call {
            r#type: Some(kind),
            launch_container: Some(call::LaunchContainer {
                container_id: id.clone(),
                resources: vec![v1::Resource { name: "cpus".into(), scalar: Some(v1::value::Scalar { value: number }), ..Default::default() }],
                ..Default::default()
            }),
            wait_container: Some(call::WaitContainer { container_id: id }),
            ..Call::default()
        };
        if let Ok(kind) = call_type(&call)
            && let Err(refusal) = order(kind, call)
        {
            prop_assert_eq!(refusal.status.as_u16(), 400);
        }
    }
}
