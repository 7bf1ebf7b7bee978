//! Tasks that cannot be: a status that names what is wrong, and nothing else.

use longshore_docker_executor::{Launch, labels};
use longshore_engine::fake::{Call, Script};
use longshore_mesos_api::v1::TaskState;
use longshore_mesos_api::v1::task_status::Reason;

use crate::bed::{Bed, ended, finished, killed, task, told, until, word};

/// Each line of bad input: the field, and the value.
#[tokio::test(start_paused = true)]
async fn bad_input_is_a_status_that_names_the_field_and_the_value() {
    let bed = Bed::new();
    let docker = |more: &str| format!(r#""container":{{"type":"DOCKER",{more}}},"#);
    let image = r#""docker":{"image":"busybox"}"#;
    let huge = "x".repeat(200 << 10);
    let long = format!(
        r#""command":{{"shell":false,"environment":{{"variables":[{{"name":"BIG","value":"{huge}"}}]}}}},"#
    );
    let cases: Vec<(String, &[&str])> = vec![
        (
            r#""container":{"type":"MESOS"},"#.to_owned(),
            &["container.type", "MESOS"],
        ),
        (
            docker(r#""docker":{"image":""}"#),
            &["container.docker.image"],
        ),
        (
            docker(r#""docker":{"image":"UPPER case"}"#),
            &["container.docker.image", "UPPER case"],
        ),
        (
            docker(&format!(
                r#"{image},"volumes":[{{"host_path":"a","container_path":"b","mode":"RW"}}]"#
            )),
            &["volumes[0]"],
        ),
        (
            docker(&format!(
                r#"{image},"volumes":[
                    {{"container_path":"/a","mode":"RW","source":{{"type":"DOCKER_VOLUME","docker_volume":{{"driver":"one","name":"v"}}}}}},
                    {{"container_path":"/b","mode":"RW","source":{{"type":"DOCKER_VOLUME","docker_volume":{{"driver":"two","name":"w"}}}}}}]"#
            )),
            &["driver", "two"],
        ),
        (
            docker(
                r#""docker":{"image":"busybox","network":"BRIDGE","port_mappings":[{"host_port":80,"container_port":80}]}"#,
            ),
            &["port_mappings", "80"],
        ),
        (
            r#""kill_policy":{"grace_period":{"nanoseconds":-1}},"#.to_owned(),
            &["kill_policy.grace_period", "-1"],
        ),
        (
            r#""max_completion_time":{"nanoseconds":-5},"#.to_owned(),
            &["max_completion_time", "-5"],
        ),
        (long, &["BIG"]),
        (
            docker(r#""docker":{"image":"busybox","parameters":[{"key":"name","value":"mine"}]}"#),
            &["parameters[0]", "name"],
        ),
        (
            docker(r#""docker":{"image":"busybox","network":"USER"}"#),
            &["network"],
        ),
        (
            r#""resources":[{"name":"gpus","type":"SCALAR","scalar":{"value":1}}],"#.to_owned(),
            &["gpus"],
        ),
        (
            r#""health_check":{"type":"COMMAND","delay_seconds":-3,"command":{"value":"true"}},"#
                .to_owned(),
            &["delay_seconds", "-3"],
        ),
        (r#""check":{"type":"HTTP"},"#.to_owned(), &["http"]),
        (
            docker(&format!(
                r#""docker":{{"image":"busybox","parameters":[{{"key":"label","value":"{}=x"}}]}}"#,
                labels::KEY
            )),
            &[labels::KEY],
        ),
    ];
    for (rest, texts) in cases {
        let task = bed.launch("bad", &rest);
        let statuses = told(&task).await;
        assert_eq!(statuses.len(), 1, "{texts:?}");
        assert_eq!(word(&statuses[0]), "ERROR invalid");
        assert_eq!(statuses[0].reason(), Reason::TaskInvalid);
        for text in texts {
            let message = statuses[0].message();
            assert!(message.contains(text), "{text:?} is not in {message:?}");
        }
        finished(&task).await;
    }
    // No container info at all.
    let mut info = task("bad", "");
    info.container = None;
    let last = ended(&bed.executor.launch(Launch::new(info))).await;
    assert!(last.message().contains("container is missing"), "{last:?}");
    assert!(
        bed.engine.log().is_empty(),
        "nothing was asked of the engine"
    );
    assert!(
        !bed.dir.path().join("state").exists(),
        "nothing was recorded"
    );
}

#[tokio::test(start_paused = true)]
async fn bad_input_an_unknown_network_fails_the_task() {
    let bed = Bed::new();
    bed.engine.fail(
        Call::Create,
        1,
        longshore_engine::EngineError::NotFound {
            call: "create",
            subject: "c".to_owned(),
            what: longshore_engine::Missing::Network,
            message: "network nope not found".to_owned(),
        },
    );
    let network = r#""container":{"type":"DOCKER","network_infos":[{"name":"nope"}],"docker":{"image":"busybox","network":"USER"}},"#;
    let task = bed.launch("t", network);
    let last = ended(&task).await;
    assert_eq!(word(&last), "FAILED not-created");
    assert!(last.message().contains("nope"), "{last:?}");
}

#[tokio::test(start_paused = true)]
async fn bad_input_a_second_launch_fails_alone() {
    for single in [true, false] {
        let bed = Bed::with(|options| options.single = single);
        let (first, _) = bed.running(Script::default(), "").await;
        let second = bed.launch(if single { "other" } else { "t" }, "");
        let last = ended(&second).await;
        assert_eq!(word(&last), "ERROR invalid");
        assert!(last.message().contains("runs"), "{last:?}");
        assert_eq!(bed.engine.count(Call::Create), 1);
        assert_eq!(first.watch().borrow().state, Some(TaskState::TaskRunning));
        assert_eq!(killed(&first).await, "KILLED killed");
        // Then there is room.
        let third = bed.launch("t", "");
        until(&third, TaskState::TaskRunning).await;
    }
}
