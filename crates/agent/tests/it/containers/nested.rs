//! Nested containers: they need a living parent and end with it.

use super::*;
use longshore_agent::service::LaunchErrorKind;

#[tokio::test]
async fn aa_a_nested_container_needs_its_parent_and_ends_with_it() {
    let node = Node::new();
    let agent = node.start().await;
    let error = refused(&agent, request("nobody.n", shell("true"))).await;
    assert_eq!(error.kind, LaunchErrorKind::BadRequest);
    assert_eq!(error.message, "Parent container nobody does not exist");
    launch(&agent, "p", "exec sleep 1000").await;
    launch(&agent, "p.n", "exec sleep 1000").await;
    launch(&agent, "p.n.m", "exec sleep 1000").await;
    let names: Vec<_> = agent
        .list()
        .into_iter()
        .map(|view| view.id.to_string())
        .collect();
    assert_eq!(names, ["p", "p.n", "p.n.m"], "with their parents");
    let pids = [pid(&agent, "p"), pid(&agent, "p.n"), pid(&agent, "p.n.m")];
    let (root, nested, deep) = (id("p"), id("p.n"), id("p.n.m"));
    let waits = async {
        tokio::join!(
            agent.wait(&root),
            agent.wait(&nested),
            agent.wait(&deep),
            kill(&agent, "p", 9)
        )
    };
    let (of_root, of_nested, of_deep, ()) = within(waits).await;
    assert_eq!(of_root.unwrap().status, Some(9));
    assert_eq!(of_nested.unwrap().status, Some(9));
    assert_eq!(of_deep.unwrap().status, Some(9));
    assert!(!pids.iter().any(|pid| lives(*pid)));
    assert_eq!(
        wait(&agent, "p.n").await,
        Err(NotFound),
        "its status goes with its parent"
    );
    assert_eq!(status(&agent, "p").await, 9);
    assert!(agent.list().is_empty());
}

#[tokio::test]
async fn aa_a_nested_exit_is_kept_until_remove_and_its_id_can_be_launched_anew() {
    let node = Node::new();
    let agent = node.start().await;
    launch(&agent, "p", "exec sleep 1000").await;
    launch(&agent, "p.n", "exit 3").await;
    assert_eq!(status(&agent, "p.n").await, 768);
    assert_eq!(status(&agent, "p.n").await, 768, "as often as asked");
    launch(&agent, "p.n", "exec sleep 1000").await;
    let again = agent.launch(request("p.n", shell("true")));
    assert_eq!(within(again).await, Ok(Launched::AlreadyPresent));
    let remove = |name: &str| {
        let (agent, id) = (agent.clone(), id(name));
        async move {
            within(agent.remove(&id))
                .await
                .map_err(|error| error.message)
        }
    };
    let running = Err("Nested container has not terminated yet".to_owned());
    assert_eq!(remove("p.n").await, running);
    end(&agent, "p.n").await;
    assert!(node.sandbox("p.n").exists());
    assert_eq!(remove("p.n").await, Ok(()));
    assert!(!node.sandbox("p.n").exists());
    assert_eq!(wait(&agent, "p.n").await, Err(NotFound));
    assert_eq!(remove("p.n").await, Ok(()), "again");
    assert_eq!(remove("p.never").await, Ok(()));
    assert_eq!(
        remove("q.n").await,
        Err("Unknown root container".to_owned())
    );
    end(&agent, "p").await;
    assert_eq!(
        remove("p.n").await,
        Err("Unknown root container".to_owned())
    );
}

#[tokio::test]
async fn nested_containers_are_taken_over_and_orphans_among_them_ended() {
    let node = Node::new();
    let agent = node.start().await;
    for name in ["p", "q"] {
        launch(&agent, name, "exec sleep 1000").await;
    }
    for name in ["p.n", "q.n"] {
        launch(&agent, name, "exec sleep 1000").await;
    }
    launch(&agent, "p.done", "exit 4").await;
    assert_eq!(status(&agent, "p.done").await, 4 << 8);
    let (parent, orphan) = (pid(&agent, "q"), pid(&agent, "q.n"));
    drop(agent);
    kill_process(parent);
    eventually("the parent's end", || {
        node.shims().len() == 3 || node.shims().len() == 2
    })
    .await;
    let agent = node.start().await;
    eventually("the orphan's end", || !lives(orphan)).await;
    assert_eq!(status(&agent, "p.done").await, 4 << 8);
    assert_eq!(status(&agent, "q").await, 9);
    let names: Vec<_> = agent
        .list()
        .into_iter()
        .map(|view| view.id.to_string())
        .collect();
    assert_eq!(
        names.iter().filter(|name| name.starts_with("p")).count(),
        2,
        "{names:?}"
    );
    end(&agent, "p").await;
    assert_eq!(wait(&agent, "p.done").await, Err(NotFound));
}
