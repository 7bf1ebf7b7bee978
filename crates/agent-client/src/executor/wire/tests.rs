//! What a real agent refuses.

use longshore_mesos_api::v1::task_status::Source;
use longshore_mesos_api::v1::{ExecutorId, FrameworkId, TaskId, TaskState, TaskStatus};
use longshore_testkit::peers::MesosAgent;

use super::*;
use crate::executor::ExecutorEnvironment;

fn wire(agent: &MesosAgent, codec: Codec) -> Arc<Wire> {
    let endpoint = format!("127.0.0.1:{}", agent.port());
    let variables = [
        ("MESOS_FRAMEWORK_ID", "nobody"),
        ("MESOS_EXECUTOR_ID", "nobody"),
        ("MESOS_SLAVE_ID", "agent"),
        ("MESOS_AGENT_ENDPOINT", &endpoint),
        ("MESOS_CHECKPOINT", "0"),
    ];
    let environment = ExecutorEnvironment::from_variables(variables).unwrap();
    let mut config = ExecutorConfig::new(environment);
    config.codec = codec;
    Wire::new(config).unwrap()
}

/// A call of an executor that no agent knows.
fn call(kind: Option<call::Type>) -> Call {
    Call {
        executor_id: ExecutorId {
            value: "nobody".into(),
        },
        framework_id: FrameworkId {
            value: "nobody".into(),
        },
        r#type: kind.map(Into::into),
        ..Call::default()
    }
}

fn update(change: impl FnOnce(&mut TaskStatus)) -> Call {
    let mut status = TaskStatus {
        task_id: TaskId { value: "t".into() },
        state: TaskState::TaskRunning.into(),
        source: Some(Source::Executor.into()),
        uuid: Some(vec![0x47; 16]),
        ..TaskStatus::default()
    };
    change(&mut status);
    Call {
        update: Some(call::Update { status }),
        ..call(Some(call::Type::Update))
    }
}

/// Every one of them as a typed error, with the call, the status and the agent's own text.
#[tokio::test]
async fn ex5_ex9_ex10_what_a_real_agent_refuses_is_a_typed_error() {
    let dir = tempfile::tempdir_in("/tmp").unwrap();
    let Some(agent) = MesosAgent::start(dir.path()).await else {
        return;
    };
    let subscribe = Call {
        subscribe: Some(call::Subscribe::default()),
        ..call(Some(call::Type::Subscribe))
    };
    let message = Call {
        message: Some(call::Message { data: vec![1] }),
        ..call(Some(call::Type::Message))
    };
    let foreign = ExecutorId {
        value: "another".into(),
    };
    for (row, call, expected) in [
        ("EX5", subscribe, "cannot be found"),
        ("EX5", message, "cannot be found"),
        ("EX9", call(None), "'type'"),
        ("EX9", call(Some(call::Type::Subscribe)), "'subscribe'"),
        ("EX9", call(Some(call::Type::Update)), "'update'"),
        ("EX9", call(Some(call::Type::Message)), "'message'"),
        (
            "EX10",
            update(|status| status.uuid = Some(vec![1, 2, 3])),
            "UUID",
        ),
        (
            "EX10",
            update(|status| status.uuid = Some(vec![7; 16])),
            "UUID",
        ),
        ("EX10", update(|status| status.uuid = None), "'uuid'"),
        (
            "EX10",
            update(|status| status.executor_id = Some(foreign)),
            "ExecutorID",
        ),
        (
            "EX10",
            update(|status| status.source = Some(Source::Agent.into())),
            "SOURCE_EXECUTOR",
        ),
        (
            "EX10",
            update(|status| status.state = TaskState::TaskStaging.into()),
            "TASK_STAGING",
        ),
    ] {
        for codec in [Codec::Protobuf, Codec::Json] {
            let wire = wire(&agent, codec);
            let refused = Arc::clone(&wire).subscribe(Box::new(call.clone())).await;
            let (refusal, error) = refused.unwrap_err();
            assert_eq!(refusal, Refusal::Refused, "{row}: {error}");
            let AgentError::Status {
                call: named,
                status,
                body,
                ..
            } = error
            else {
                panic!("{row}: {error}");
            };
            assert_eq!((named, status), (name(&call), 400), "{row}: {body}");
            assert!(body.contains(expected), "{row}: {body}");
            // As a call beside the stream: wrong in itself, or of an executor that the agent does not know.
            let (outcome, _) = wire.send(None, Box::new(call.clone())).await;
            let said = match outcome {
                Outcome::Invalid(said) if row != "EX5" => said,
                Outcome::Failed(said) if row == "EX5" => said,
                other => panic!("{row}: {other:?}"),
            };
            assert!(said.contains("answered 400") && said.contains(expected));
        }
    }
}
