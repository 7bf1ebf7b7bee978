use super::*;
use crate::v1;
use crate::v1::agent::{Call, Response, call, response};
use crate::v1::{CsiPluginInfo, executor};

fn limits() -> DecodeLimits {
    DecodeLimits::default()
}

fn read<M: ApiMessage>(json: &str) -> Result<M, JsonError> {
    from_slice(json.as_bytes(), &limits())
}

fn id(value: &str) -> v1::ContainerId {
    v1::ContainerId {
        value: value.into(),
        ..v1::ContainerId::default()
    }
}

#[test]
fn a_call_is_written_with_proto_names_and_enum_names() {
    let call = Call {
        r#type: Some(call::Type::KillContainer.into()),
        kill_container: Some(call::KillContainer {
            container_id: id("c1"),
            signal: Some(15),
        }),
        ..Call::default()
    };
    let json = String::from_utf8(to_vec(&call).unwrap()).unwrap();
    assert_eq!(
        json,
        r#"{"type":"KILL_CONTAINER","kill_container":{"container_id":{"value":"c1"},"signal":15}}"#
    );
    assert_eq!(read::<Call>(&json).unwrap(), call);
}

#[test]
fn sixty_four_bit_integers_are_numbers_and_bytes_are_base64() {
    let response = Response {
        get_containers: Some(response::GetContainers {
            containers: vec![response::get_containers::Container {
                container_id: id("c"),
                resource_statistics: Some(Box::new(v1::ResourceStatistics {
                    timestamp: 1.5,
                    mem_limit_bytes: Some(33_554_432),
                    ..v1::ResourceStatistics::default()
                })),
                ..Default::default()
            }],
        }),
        ..Response::default()
    };
    let json = String::from_utf8(to_vec(&response).unwrap()).unwrap();
    assert!(json.contains(r#""mem_limit_bytes":33554432"#), "{json}");
    let data = read::<v1::agent::ProcessIo>(
        r#"{"type":"DATA","data":{"type":"STDOUT","data":"aGVsbG8K"}}"#,
    )
    .unwrap();
    assert_eq!(data.data.unwrap().data(), b"hello\n");
}

#[test]
fn what_a_real_agent_answered_can_be_read() {
    let none = read::<Response>(r#"{"type":"GET_CONTAINERS"}"#).unwrap();
    assert_eq!(none.get_containers, None);
    let nested = read::<Response>(
        r#"{"type":"GET_CONTAINERS","get_containers":{"containers":[{"container_id":{"value":"n4"},
        "container_status":{"container_id":{"value":"n4","parent":{"value":"c1"}},"executor_pid":7},
        "executor_name":"","resource_statistics":{"timestamp":1764496991.13,"cpus_soft_limit":0.1}}]}}"#,
    )
    .unwrap();
    let container = &nested.get_containers.unwrap().containers[0];
    assert_eq!(container.container_id.parent, None);
    let status = container.container_status.as_ref().unwrap();
    assert_eq!(
        status
            .container_id
            .as_ref()
            .unwrap()
            .parent
            .as_ref()
            .unwrap()
            .value,
        "c1"
    );
    let limited = read::<Response>(
        r#"{"type":"WAIT_CONTAINER","wait_container":{"exit_status":9,"state":"TASK_FAILED",
        "reason":"REASON_CONTAINER_LIMITATION_MEMORY","limitation":{"resources":[{"name":"mem",
        "type":"SCALAR","scalar":{"value":32.0}}]},"message":"Memory limit exceeded"}}"#,
    )
    .unwrap();
    let wait = limited.wait_container.unwrap();
    assert_eq!(wait.state(), v1::TaskState::TaskFailed);
    assert_eq!(wait.limitation.unwrap().resources[0].name, "mem");
}

#[test]
fn unknown_members_camel_case_and_unknown_enum_names_are_ignored() {
    let call = read::<Call>(
        r#"{"type":"get_health","launchContainer":{"container_id":7},"new":[{"a":null}]}"#,
    )
    .unwrap();
    assert_eq!(call, Call::default());
}

#[test]
fn numbers_may_be_strings() {
    let call = read::<Call>(
        r#"{"type":"KILL_CONTAINER","kill_container":{"container_id":{"value":"x"},"signal":"9"}}"#,
    )
    .unwrap();
    assert_eq!(call.kill_container.unwrap().signal, Some(9));
}

#[test]
fn missing_required_members_are_named_by_path() {
    for (json, text) in [
        (
            r#"{"type":"LAUNCH_CONTAINER","launch_container":{}}"#,
            "missing required fields: launch_container.container_id",
        ),
        (
            r#"{"type":"LAUNCH_CONTAINER","launch_container":{"container_id":{}}}"#,
            "missing required fields: launch_container.container_id.value",
        ),
        (
            r#"{"launch_container":{"container_id":{"value":"a"},"limits":{"cpus":{}}}}"#,
            "missing required fields: launch_container.limits.value",
        ),
    ] {
        assert_eq!(read::<Call>(json).unwrap_err().to_string(), text);
    }
}

#[test]
fn what_is_not_the_message_is_refused() {
    for json in [
        "",
        "{",
        "[]",
        "null",
        "{} {}",
        r#"{"launch_container":{"container_id":"a"}}"#,
        r#"{"get_containers":{"show_nested":"yes"}}"#,
        r#"{"kill_container":{"container_id":{"value":"x"},"signal":4294967296}}"#,
    ] {
        let refused = read::<Call>(json).unwrap_err();
        assert!(
            matches!(refused, JsonError::Malformed { .. }),
            "{json}: {refused}"
        );
    }
    let deep = format!("{}{}", r#"{"a":"#.repeat(5000), "}".repeat(5000));
    assert!(matches!(
        read::<Call>(&deep),
        Err(JsonError::Malformed { .. })
    ));
}

#[test]
fn size_and_number_of_elements_are_limited_before_reading() {
    let many = format!(
        r#"{{"get_containers":{{"containers":[{}{{}}]}}}}"#,
        "{},".repeat(60_000)
    );
    assert!(matches!(
        read::<Response>(&many),
        Err(JsonError::TooManyElements { limit: 50_000 })
    ));
    // Commas in a string are not elements.
    let text = format!(
        r#"{{"wait_container":{{"message":"{}"}}}}"#,
        r#",{\"["#.repeat(60_000)
    );
    assert!(read::<Response>(&text).is_ok());
    let small = DecodeLimits {
        max_bytes: 10,
        max_elements: 10,
    };
    assert!(matches!(
        from_slice::<Call>(b"{          }", &small),
        Err(JsonError::TooLarge {
            bytes: 12,
            limit: 10
        })
    ));
}

#[test]
fn a_configuration_file_gets_its_unknown_members_named() {
    let json = r#"{"type":"org.example.disk","name":"default","containers":[
        {"services":["NODE_SERVICE"],"command":{"shell":false,"value":"/bin/driver","argument":["a"],
         "environment":{"variables":[{"name":"A","value":"1","typ":"VALUE"}]}},"comand":{}}],
        "targetPathRoot":"/x"}"#;
    let reported = from_slice_reporting::<CsiPluginInfo>(json.as_bytes(), &limits()).unwrap();
    assert_eq!(reported.message.containers.len(), 1);
    assert_eq!(
        reported.unknown,
        [
            "containers[0].comand",
            "containers[0].command.argument",
            "containers[0].command.environment.variables[0].typ",
            "targetPathRoot",
        ]
    );
}

#[test]
fn executor_messages_are_known_too() {
    let event = read::<executor::Event>(r#"{"type":"SHUTDOWN"}"#).unwrap();
    assert_eq!(event.r#type(), executor::event::Type::Shutdown);
    let call = executor::Call {
        r#type: Some(executor::call::Type::Heartbeat.into()),
        ..executor::Call::default()
    };
    let json = String::from_utf8(to_vec(&call).unwrap()).unwrap();
    assert!(json.contains(r#""type":"HEARTBEAT""#), "{json}");
}

proptest::proptest! {
    #[test]
    fn arbitrary_text_never_panics(text in ".{0,200}") {
        drop(read::<Call>(&text));
        drop(from_slice_reporting::<CsiPluginInfo>(text.as_bytes(), &limits()));
    }

    #[test]
    fn json_and_protobuf_carry_the_same_call(value in "[a-z0-9 \u{e9}\"\\\\]{0,20}", signal in proptest::option::of(-1..100i32)) {
        let call = Call {
            r#type: Some(call::Type::KillContainer.into()),
            kill_container: Some(call::KillContainer { container_id: id(&value), signal }),
            ..Call::default()
        };
        let read: Call = from_slice(&to_vec(&call).unwrap(), &limits()).unwrap();
        proptest::prop_assert_eq!(read, call);
    }
}
