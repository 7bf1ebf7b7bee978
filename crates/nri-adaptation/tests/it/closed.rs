//! What is known of plugins that are not there any more.

use longshore_nri_adaptation::{
    Adaptation, OnFailure, PluginKind, PluginPolicy, PluginState, PluginStatus,
};
use longshore_ttrpc::{Code, Status};

use crate::fake::{Fake, Node, adaptation, builder, soon};
use crate::order::{create, policy};

/// The status of a plugin, once it is in that state.
async fn status(adaptation: &Adaptation, name: &str, state: PluginState) -> PluginStatus {
    let find = || {
        let plugins = adaptation.plugins().into_iter();
        plugins
            .filter(|it| it.name == name)
            .find(|it| it.state == state)
    };
    let mut changes = adaptation.changes();
    soon(changes.wait_for(|_| find().is_some())).await.unwrap();
    find().unwrap()
}

#[tokio::test]
async fn a_plugin_that_was_closed_is_listed_with_why_and_when_until_it_is_back() {
    let adaptation = adaptation().await;
    let stays = Fake::new("90-stays").join(&adaptation).await;
    let goes = Fake::new("10-goes")
        .fails(
            "CreateContainer",
            Status::new(Code::Internal, "out of order"),
        )
        .join(&adaptation)
        .await;
    create(&adaptation, 0).await.unwrap_err();
    let active = status(&adaptation, "10-goes", PluginState::Active).await;
    assert!(active.closed.is_none());
    goes.vanish();
    let closed = status(&adaptation, "10-goes", PluginState::Closed).await;
    let end = closed.closed.clone().unwrap();
    assert_eq!(end.reason, "the peer closed the connection");
    assert!(end.at <= tokio::time::Instant::now());
    let last_error = closed.last_error.unwrap();
    assert!(last_error.contains("out of order"), "{last_error}");
    assert_eq!(
        (closed.kind, closed.requests, closed.queued),
        (Some(PluginKind::Attached), 1, 0)
    );
    let last = adaptation.plugins().pop().unwrap();
    assert_eq!(last.name, "10-goes", "behind those that are there");

    let back = Fake::new("10-goes").join(&adaptation).await;
    let names = |adaptation: &Adaptation| -> Vec<String> {
        let plugins = adaptation.plugins().into_iter();
        plugins.map(|plugin| plugin.name).collect()
    };
    assert_eq!(names(&adaptation), ["10-goes", "90-stays"], "once");
    back.vanish();
    status(&adaptation, "10-goes", PluginState::Closed).await;
    assert_eq!(
        adaptation.remove_plugin("goes"),
        1,
        "the operator has seen it"
    );
    assert_eq!(names(&adaptation), ["90-stays"]);
    assert_eq!(adaptation.remove_plugin("stays"), 1);
    stays.closed().await;
    let removed = status(&adaptation, "90-stays", PluginState::Closed).await;
    assert_eq!(
        removed.last_error.as_deref(),
        Some("the operator removed it")
    );
    assert_eq!(adaptation.remove_plugin("stays"), 1, "and is seen");
    assert!(adaptation.plugins().is_empty());
}

#[tokio::test]
async fn of_two_plugins_of_one_name_the_one_that_stays_is_listed() {
    let adaptation = adaptation().await;
    let _one = Fake::new("10-twin").join(&adaptation).await;
    let other = Fake::new("10-twin").attach(&adaptation);
    other.register().await.unwrap();
    let count = |wanted| {
        let adaptation = adaptation.clone();
        async move {
            let mut changes = adaptation.changes();
            soon(changes.wait_for(|_| adaptation.plugins().len() == wanted))
                .await
                .unwrap();
        }
    };
    count(2).await;
    other.vanish();
    count(1).await;
    assert!(adaptation.plugins()[0].closed.is_none());
}

#[tokio::test]
async fn a_bounded_number_of_closed_plugins_is_remembered_and_none_after_the_end() {
    let adaptation = adaptation().await;
    for number in 0..70 {
        let name = format!("10-plugin{number}");
        Fake::new(&name).join(&adaptation).await.vanish();
        status(&adaptation, &name, PluginState::Closed).await;
    }
    let plugins = adaptation.plugins();
    assert_eq!(plugins.len(), 64);
    assert_eq!(plugins[0].name, "10-plugin6", "the oldest are forgotten");
    adaptation.shutdown().await;
    assert!(adaptation.plugins().is_empty());
}

#[tokio::test]
async fn a_plugin_that_is_missing_says_why_it_was_closed() {
    let required: PluginPolicy = policy(|policy| policy.on_failure = OnFailure::FailUntilBack);
    let adaptation = builder()
        .policy("guard", required)
        .start(Node::default())
        .await
        .unwrap();
    let [never] = &adaptation.plugins()[..] else {
        panic!("{:?}", adaptation.plugins());
    };
    assert_eq!((never.state, never.kind), (PluginState::Missing, None));
    assert!(never.closed.is_none());
    Fake::new("10-guard").join(&adaptation).await.vanish();
    let missing = status(&adaptation, "guard", PluginState::Missing).await;
    assert_eq!(
        missing.closed.unwrap().reason,
        "the peer closed the connection"
    );
    assert_eq!(missing.kind, Some(PluginKind::Attached));
    assert_eq!(adaptation.plugins().len(), 1, "once");
}
