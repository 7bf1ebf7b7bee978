use longshore_mesos_api::DecodeLimits;

use super::*;

fn view(id: &ContainerId, phase: Phase) -> ContainerView {
    ContainerView {
        id: id.clone(),
        pid: Some(42),
        phase,
        started: UNIX_EPOCH,
        cpus: Some(0.1),
        cpus_limit: None,
        mem_bytes: Some(32 << 20),
        mem_limit_bytes: None,
        unenforced: Vec::new(),
    }
}

fn json(answer: &AgentResponse) -> String {
    String::from_utf8(json::to_vec(answer).unwrap()).unwrap()
}

#[test]
fn answers_look_like_those_of_a_mesos_agent() {
    assert_eq!(
        json(&health()),
        r#"{"type":"GET_HEALTH","get_health":{"healthy":true}}"#
    );
    let exit = ExitInfo {
        status: Some(768),
        ..ExitInfo::default()
    };
    assert_eq!(
        json(&waited(exit.clone(), false)),
        r#"{"type":"WAIT_CONTAINER","wait_container":{"exit_status":768}}"#
    );
    assert_eq!(
        json(&waited(exit, true)),
        r#"{"type":"WAIT_NESTED_CONTAINER","wait_nested_container":{"exit_status":768}}"#
    );
    let limit = ExitInfo {
        status: Some(9),
        reason: Some(ExitReason::MemoryLimit {
            limit_bytes: 32 << 20,
        }),
        message: Some("m".into()),
    };
    assert_eq!(
        json(&waited(limit, false)),
        concat!(
            r#"{"type":"WAIT_CONTAINER","wait_container":{"exit_status":9,"state":"TASK_FAILED","#,
            r#""reason":"REASON_CONTAINER_LIMITATION_MEMORY","limitation":{"resources":[{"name":"mem","#,
            r#""type":"SCALAR","scalar":{"value":32.0}}]},"message":"m"}}"#
        )
    );
    assert!(json(&version()).contains(r#""version":"1.11.0-longshore."#));
}

#[test]
fn nothing_to_list_has_no_get_containers_member() {
    assert_eq!(
        json(&containers(Vec::new(), true, true, UNIX_EPOCH)),
        r#"{"type":"GET_CONTAINERS"}"#
    );
}

#[test]
fn a_nested_entry_keeps_its_parent_and_one_on_its_way_out_has_no_pid() {
    let root = ContainerId::new("c1").unwrap();
    let child = ContainerId::nested(&root, "n4").unwrap();
    let views = || vec![view(&root, Phase::Ending), view(&child, Phase::Running)];
    let listed = |nested, standalone| {
        containers(views(), nested, standalone, UNIX_EPOCH)
            .get_containers
            .map_or(0, |listed| listed.containers.len())
    };
    assert_eq!(
        (
            listed(false, false),
            listed(true, false),
            listed(false, true)
        ),
        (0, 1, 1)
    );
    let answer = containers(views(), true, true, UNIX_EPOCH);
    let listed = &answer.get_containers.as_ref().unwrap().containers;
    assert_eq!(
        listed[0].container_status.as_ref().unwrap().executor_pid,
        None
    );
    assert_eq!(
        listed[1].container_status.as_ref().unwrap().executor_pid,
        Some(42)
    );
    assert_eq!(listed[1].container_id.parent.as_ref().unwrap().value, "c1");
    assert!(
        json(&answer).contains(r#""mem_limit_bytes":33554432,"#),
        "{}",
        json(&answer)
    );
}

#[test]
fn an_answer_over_the_bound_is_a_500() {
    let root = ContainerId::new("c").unwrap();
    let views = (0..100).map(|_| view(&root, Phase::Running)).collect();
    let answer = containers(views, true, true, UNIX_EPOCH);
    for codec in [Codec::Json, Codec::Protobuf] {
        assert_eq!(message(codec, &answer, 1000).unwrap_err().status, 500);
        assert_eq!(message(codec, &answer, 1 << 20).unwrap().status(), 200);
    }
    let limits = DecodeLimits::default();
    let body = json::to_vec(&answer).unwrap();
    assert_eq!(
        json::from_slice::<AgentResponse>(&body, &limits).unwrap(),
        answer
    );
}
