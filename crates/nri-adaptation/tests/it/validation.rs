//! Validation: rows 88 to 101, and validators that are lost.

use longshore_nri_adaptation::validate::DefaultValidator;
use longshore_nri_adaptation::{Adaptation, Compat, PluginState, RequestError};
use longshore_nri_api::{
    ContainerAdjustment, CreateContainerRequest, CreateContainerResponse, Event, Field,
    LinuxNamespace, LinuxSeccomp, PluginInstance, SecurityProfile,
    ValidateContainerAdjustmentRequest, ValidateContainerAdjustmentResponse, security_profile,
};
use longshore_ttrpc::{Code, Status};
use prost::Message;

use crate::fake::{Fake, Live, Node, adaptation, builder, creation, options, soon};
use crate::order::{adds_env, create};

const VALIDATE: &[Event] = &[Event::ValidateContainerAdjustment];

fn adjusts(name: &str, change: fn(&str, &mut ContainerAdjustment)) -> Fake {
    Fake::new(name).on("CreateContainer", move |request| async move {
        let request = CreateContainerRequest::decode(request).unwrap();
        let mut adjust = ContainerAdjustment::default();
        change(&request.container.unwrap().id, &mut adjust);
        Ok(CreateContainerResponse {
            adjust: Some(adjust),
            ..Default::default()
        })
    })
}

/// Rejects when the annotation has an owner.
fn validator() -> Fake {
    Fake::new("00-validator")
        .events(VALIDATE)
        .on("ValidateContainerAdjustment", |request| async {
            let request = ValidateContainerAdjustmentRequest::decode(request).unwrap();
            let owners = request.owners.unwrap();
            let owner = owners.owner("ctr0", Field::Annotations, Some("no-no"));
            Ok(ValidateContainerAdjustmentResponse {
                reject: owner.is_some(),
                reason: owner
                    .map(|owner| format!("{owner} said no-no"))
                    .unwrap_or_default(),
            })
        })
}

#[tokio::test]
async fn row_088_an_adjustment_that_the_validator_allows() {
    let adaptation = adaptation().await;
    let _foo = adjusts("00-foo", |_, adjust| {
        adjust.add_annotation("key", "00-foo");
    })
    .join(&adaptation)
    .await;
    let validator = validator().join(&adaptation).await;
    let created = create(&adaptation, 0).await.unwrap();
    assert_eq!(
        created.annotations.get("key").map(String::as_str),
        Some("00-foo")
    );

    let asked =
        &validator.requests::<ValidateContainerAdjustmentRequest>("ValidateContainerAdjustment")[0];
    let shown = asked.container.as_ref().unwrap();
    assert!(
        shown.annotations.is_empty(),
        "the container as it was before any plugin"
    );
    assert!(shown.linux.is_some(), "with what is absent made empty");
    assert_eq!(asked.adjust.as_ref(), Some(&created));
    assert_eq!(asked.pod, creation(0).pod);
    let instance = |name: &str| PluginInstance {
        name: name.to_owned(),
        index: "00".to_owned(),
    };
    assert_eq!(asked.plugins, [instance("foo"), instance("validator")]);
}

#[tokio::test]
async fn row_089_an_adjustment_that_the_validator_forbids() {
    let adaptation = adaptation().await;
    let _foo = adjusts("00-foo", |_, adjust| {
        adjust.add_annotation("no-no", "00-foo");
    })
    .join(&adaptation)
    .await;
    let validator = validator().join(&adaptation).await;
    let rejected = create(&adaptation, 0).await.unwrap_err();
    assert_eq!(
        rejected.to_string(),
        r#"validator "00-validator" rejected container adjustment, reason: 00-foo said no-no"#
    );
    assert_eq!(rejected.code(), Code::PermissionDenied);
    assert!(validator.is_open(), "a rejection is an answer");
}

/// The default validator, a plugin that adjusts container 1 alone, and two that accept all.
async fn default_validator(
    validator: DefaultValidator,
    change: fn(&str, &mut ContainerAdjustment),
) -> (Adaptation, Vec<Live>) {
    let adaptation = builder()
        .validator(validator)
        .start(Node::with(2, 2))
        .await
        .unwrap();
    let plugins = vec![
        adjusts("00-foo", change).join(&adaptation).await,
        Fake::new("10-validator1")
            .events(VALIDATE)
            .join(&adaptation)
            .await,
        Fake::new("20-validator2")
            .events(VALIDATE)
            .join(&adaptation)
            .await,
    ];
    (adaptation, plugins)
}

async fn seccomp(
    validator: DefaultValidator,
    profile: security_profile::ProfileType,
    expected: bool,
) {
    let (adaptation, _plugins) = default_validator(validator, |id, adjust| {
        if id == "ctr1" {
            adjust.set_seccomp_policy(LinuxSeccomp::default());
        }
    })
    .await;
    create(&adaptation, 0).await.unwrap();
    let mut request = creation(1);
    let container = request.container.as_mut().unwrap();
    container.linux.get_or_insert_default().seccomp_profile = Some(SecurityProfile {
        profile_type: profile as i32,
        localhost_ref: "/xyzzy/foobar".to_owned(),
    });
    let created = adaptation.create_container(request, &options()).await;
    assert_eq!(created.is_ok(), expected, "{created:?}");
}

macro_rules! seccomp_rows {
    ($($name:ident: $flag:ident = $value:expr, $profile:ident => $expected:expr;)*) => {$(
        #[tokio::test]
        async fn $name() {
            let validator = DefaultValidator {
                $flag: $value,
                ..DefaultValidator::default()
            };
            seccomp(validator, security_profile::ProfileType::$profile, $expected).await;
        }
    )*};
}

seccomp_rows! {
    row_091_runtime_default_seccomp_rejected:
        reject_runtime_default_seccomp_adjustment = true, RuntimeDefault => false;
    row_092_runtime_default_seccomp_allowed:
        reject_runtime_default_seccomp_adjustment = false, RuntimeDefault => true;
    row_093_custom_seccomp_rejected: reject_custom_seccomp_adjustment = true, Localhost => false;
    row_094_custom_seccomp_allowed: reject_custom_seccomp_adjustment = false, Localhost => true;
    row_096_unconfined_seccomp_allowed:
        reject_unconfined_seccomp_adjustment = false, Unconfined => true;
}

#[tokio::test]
async fn row_095_unconfined_seccomp_rejected() {
    // Container 0 has no profile, which counts as unconfined; it is not adjusted.
    let validator = DefaultValidator {
        reject_unconfined_seccomp_adjustment: true,
        ..DefaultValidator::default()
    };
    seccomp(validator, security_profile::ProfileType::Unconfined, false).await;
}

#[tokio::test]
async fn row_097_namespace_adjustment_rejected() {
    let validator = DefaultValidator {
        reject_namespace_adjustment: true,
        ..DefaultValidator::default()
    };
    let (adaptation, _plugins) = default_validator(validator, |id, adjust| {
        if id == "ctr1" {
            adjust.add_or_replace_namespace(LinuxNamespace {
                r#type: "cgroup".to_owned(),
                path: "/".to_owned(),
            });
        }
    })
    .await;
    create(&adaptation, 0).await.unwrap();
    assert!(matches!(
        create(&adaptation, 1).await,
        Err(RequestError::Rejected { .. })
    ));
}

async fn requires_bar() -> Adaptation {
    let validator = DefaultValidator {
        required_plugins: vec!["bar".to_owned()],
        tolerate_missing_plugins_annotation: "tolerate-missing-plugins.noderesource.dev".to_owned(),
        ..DefaultValidator::default()
    };
    builder()
        .validator(validator)
        .start(Node::with(2, 2))
        .await
        .unwrap()
}

async fn create_annotated(adaptation: &Adaptation, key: &str, value: &str) -> bool {
    let mut request = creation(0);
    let annotations = &mut request.pod.as_mut().unwrap().annotations;
    annotations.insert(
        format!("{key}.noderesource.dev/container.ctr0"),
        value.to_owned(),
    );
    adaptation
        .create_container(request, &options())
        .await
        .is_ok()
}

#[tokio::test]
async fn rows_098_099_100_a_required_plugin_is_missing_tolerated_and_present() {
    let adaptation = requires_bar().await;
    assert!(create(&adaptation, 0).await.is_err());
    assert!(create_annotated(&adaptation, "tolerate-missing-plugins", "true").await);
    let _bar = Fake::new("10-bar").join(&adaptation).await;
    create(&adaptation, 0).await.unwrap();
}

#[tokio::test]
async fn row_101_a_plugin_that_the_pod_requires() {
    let adaptation = requires_bar().await;
    let _bar = Fake::new("10-bar").join(&adaptation).await;
    assert!(!create_annotated(&adaptation, "required-plugins", r#"[ "xyzzy" ]"#).await);
    let _xyzzy = Fake::new("20-xyzzy").join(&adaptation).await;
    assert!(create_annotated(&adaptation, "required-plugins", r#"[ "xyzzy" ]"#).await);
}

#[tokio::test(start_paused = true)]
async fn a_required_plugin_that_was_late_does_not_count_as_asked() {
    let adaptation = requires_bar().await;
    let _bar = Fake::new("10-bar")
        .hangs("CreateContainer")
        .join(&adaptation)
        .await;
    let rejected = create(&adaptation, 0).await.unwrap_err();
    assert!(
        rejected
            .to_string()
            .contains(r#"required plugin "bar" is not there"#),
        "{rejected}"
    );
}

#[tokio::test]
async fn under_go_every_active_plugin_counts_as_asked() {
    for (compat, expected) in [(Compat::Correct, false), (Compat::GoAdaptation, true)] {
        let validator = DefaultValidator {
            required_plugins: vec!["bar".to_owned()],
            ..DefaultValidator::default()
        };
        let adaptation = builder()
            .compat(compat)
            .validator(validator)
            .start(Node::default())
            .await
            .unwrap();
        let _bar = Fake::new("10-bar")
            .events(&[Event::RunPodSandbox])
            .join(&adaptation)
            .await;
        assert_eq!(create(&adaptation, 0).await.is_ok(), expected, "{compat:?}");
    }
}

#[tokio::test]
async fn validators_are_asked_at_once_and_the_first_refusal_in_order_counts() {
    let adaptation = adaptation().await;
    let gate = crate::fake::Gate::default();
    let mut validators = Vec::new();
    for name in ["20-b", "10-a", "30-c"] {
        let gate = gate.clone();
        let fake = Fake::new(name).events(VALIDATE);
        let fake = fake.on("ValidateContainerAdjustment", move |_| {
            let gate = gate.clone();
            async move {
                gate.pass().await;
                let reject = name != "30-c";
                Ok(ValidateContainerAdjustmentResponse {
                    reject,
                    reason: String::new(),
                })
            }
        });
        validators.push(fake.join(&adaptation).await);
    }
    let creating = {
        let adaptation = adaptation.clone();
        tokio::spawn(async move { create(&adaptation, 0).await })
    };
    gate.arrived(3).await;
    gate.open();
    let rejected = creating.await.unwrap().unwrap_err();
    assert_eq!(
        rejected.to_string(),
        r#"validator "10-a" rejected container adjustment, reason: unknown rejection reason"#
    );
}

/// A validator that goes away while it judges.
async fn killed_validator(adaptation: &Adaptation) {
    let validator = Fake::new("50-guard")
        .events(VALIDATE)
        .hangs("ValidateContainerAdjustment");
    let validator = validator.join(adaptation).await;
    let creating = {
        let adaptation = adaptation.clone();
        tokio::spawn(async move { create(&adaptation, 0).await })
    };
    validator.called("ValidateContainerAdjustment").await;
    validator.vanish();
    let failed = soon(creating).await.unwrap().unwrap_err();
    let text = failed.to_string();
    assert!(
        text.starts_with(r#"validator plugin "50-guard" failed"#),
        "{text}"
    );
}

#[tokio::test]
async fn row_262_a_lost_validator_fails_every_creation_until_it_is_back_or_removed() {
    let adaptation = adaptation().await;
    killed_validator(&adaptation).await;
    for _ in 0..2 {
        let failed = create(&adaptation, 0).await;
        let Err(RequestError::Missing { plugin }) = failed else {
            panic!("it fails closed: {failed:?}")
        };
        assert_eq!(plugin, "50-guard");
    }
    let status = adaptation.plugins();
    assert_eq!(
        (status[0].name.as_str(), status[0].state),
        ("50-guard", PluginState::Missing)
    );
    // A plugin of the same base name is another one.
    let _other = Fake::new("51-guard").join(&adaptation).await;
    assert!(create(&adaptation, 0).await.is_err());
    let back = Fake::new("50-guard")
        .events(VALIDATE)
        .join(&adaptation)
        .await;
    create(&adaptation, 0).await.unwrap();
    back.vanish();
    let mut changes = adaptation.changes();
    let gone = |_: &u64| {
        adaptation
            .plugins()
            .iter()
            .any(|it| it.state == PluginState::Missing)
    };
    soon(changes.wait_for(gone)).await.unwrap();
    assert!(create(&adaptation, 0).await.is_err());
    assert_eq!(adaptation.remove_plugin("50-guard"), 1);
    create(&adaptation, 0).await.unwrap();
}

#[tokio::test]
async fn row_262_under_go_a_lost_validator_fails_one_creation() {
    let adaptation = builder()
        .compat(Compat::GoAdaptation)
        .start(Node::default())
        .await
        .unwrap();
    killed_validator(&adaptation).await;
    create(&adaptation, 0).await.unwrap();
}

#[tokio::test]
async fn a_validator_that_answers_with_an_error_fails_the_creation_and_stays() {
    let adaptation = adaptation().await;
    let status = Status::new(Code::Internal, "confused");
    let fake = Fake::new("00-v")
        .events(VALIDATE)
        .fails("ValidateContainerAdjustment", status);
    let validator = fake.join(&adaptation).await;
    assert!(matches!(
        create(&adaptation, 0).await,
        Err(RequestError::Validator { .. })
    ));
    assert!(validator.is_open());
}

#[tokio::test]
async fn a_validator_that_the_operator_removes_is_not_missed() {
    let adaptation = adaptation().await;
    let _validator = Fake::new("00-v").events(VALIDATE).join(&adaptation).await;
    let _foo = Fake::new("10-foo").on("CreateContainer", |_| async { Ok(adds_env("A")) });
    assert_eq!(adaptation.remove_plugin("v"), 1);
    create(&adaptation, 0).await.unwrap();
}
