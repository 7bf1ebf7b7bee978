use longshore_nri_api::{
    Container, Hook, Hooks, LinuxContainer, LinuxNamespace, LinuxSeccomp, OwningPlugins,
    SecurityProfile,
};
use proptest::prelude::*;

use super::*;

const TOLERATE: &str = "tolerate-missing-plugins.noderesource.dev";

fn request(
    name: &str,
    profile: Option<ProfileType>,
    plugins: &[(&str, &str)],
) -> ValidateContainerAdjustmentRequest {
    ValidateContainerAdjustmentRequest {
        pod: Some(PodSandbox::default()),
        container: Some(Container {
            id: format!("id-{name}"),
            name: name.into(),
            linux: Some(LinuxContainer {
                seccomp_profile: profile.map(|kind| SecurityProfile {
                    profile_type: kind.into(),
                    localhost_ref: "/xyzzy/foobar".into(),
                }),
                ..LinuxContainer::default()
            }),
            ..Container::default()
        }),
        adjust: Some(ContainerAdjustment::default()),
        owners: Some(OwningPlugins::default()),
        plugins: plugins
            .iter()
            .map(|(index, name)| PluginInstance {
                name: (*name).into(),
                index: (*index).into(),
            })
            .collect(),
        ..ValidateContainerAdjustmentRequest::default()
    }
}

fn annotate(request: &mut ValidateContainerAdjustmentRequest, key: &str, value: &str) {
    let pod = request.pod.get_or_insert_default();
    pod.annotations.insert(key.into(), value.into());
}

fn adjusted(
    mut request: ValidateContainerAdjustmentRequest,
    field: Field,
    key: Option<&str>,
) -> ValidateContainerAdjustmentRequest {
    let id = request.container.as_ref().unwrap().id.clone();
    let owners = request.owners.get_or_insert_default();
    owners.claim(&id, field, key, "00-foo").unwrap();
    request
}

/// ctr0 has no profile and no adjustment, ctr1 has both.
#[track_caller]
fn seccomp_row(validator: &DefaultValidator, profile: ProfileType, allowed: bool) {
    assert_eq!(validator.check(&request("ctr0", None, &[])), Ok(()));
    let ctr1 = request("ctr1", Some(profile), &[]);
    assert_eq!(validator.check(&ctr1), Ok(()), "nothing was adjusted");
    let ctr1 = adjusted(ctr1, Field::SeccompPolicy, None);
    assert_eq!(validator.check(&ctr1).is_ok(), allowed);
}

fn only(set: impl FnOnce(&mut DefaultValidator)) -> DefaultValidator {
    let mut validator = DefaultValidator::default();
    set(&mut validator);
    validator
}

#[test]
fn rows_91_92_the_runtime_default_profile() {
    let rejecting = only(|it| it.reject_runtime_default_seccomp_adjustment = true);
    seccomp_row(&rejecting, ProfileType::RuntimeDefault, false);
    seccomp_row(
        &DefaultValidator::default(),
        ProfileType::RuntimeDefault,
        true,
    );
    seccomp_row(&rejecting, ProfileType::Localhost, true);
    seccomp_row(&rejecting, ProfileType::Unconfined, true);
}

#[test]
fn rows_93_94_a_custom_profile() {
    let rejecting = only(|it| it.reject_custom_seccomp_adjustment = true);
    seccomp_row(&rejecting, ProfileType::Localhost, false);
    seccomp_row(&DefaultValidator::default(), ProfileType::Localhost, true);
    seccomp_row(&rejecting, ProfileType::RuntimeDefault, true);
}

#[test]
fn rows_95_96_an_unconfined_container() {
    let rejecting = only(|it| it.reject_unconfined_seccomp_adjustment = true);
    seccomp_row(&rejecting, ProfileType::Unconfined, false);
    seccomp_row(&DefaultValidator::default(), ProfileType::Unconfined, true);
    let none = adjusted(request("ctr2", None, &[]), Field::SeccompPolicy, None);
    assert!(rejecting.check(&none).is_err(), "no profile is unconfined");
}

#[test]
fn row_97_namespaces() {
    let rejecting = only(|it| it.reject_namespace_adjustment = true);
    assert_eq!(rejecting.check(&request("ctr0", None, &[])), Ok(()));
    let ctr1 = adjusted(request("ctr1", None, &[]), Field::Namespace, Some("cgroup"));
    let error = rejecting.check(&ctr1).unwrap_err();
    let wanted = "plugin \"00-foo\" adjusted namespaces, which is not allowed";
    assert_eq!(error.to_string(), wanted);
    assert_eq!(DefaultValidator::default().check(&ctr1), Ok(()));
}

fn requiring(names: &[&str]) -> DefaultValidator {
    only(|it| {
        it.required_plugins = names.iter().map(|name| (*name).into()).collect();
        it.tolerate_missing_plugins_annotation = TOLERATE.into();
    })
}

#[test]
fn rows_98_99_100_required_plugins_may_be_waived_by_the_pod() {
    let validator = requiring(&["bar"]);
    let mut missing = request("ctr0", None, &[("00", "foo")]);
    let error = validator.check(&missing).unwrap_err();
    assert_eq!(
        error,
        Rejection::Missing {
            plugin: "bar".into()
        }
    );
    let waived = format!("{TOLERATE}/container.ctr0");
    for (value, fine) in [
        ("true", true),
        ("1", true),
        ("false", false),
        ("yes", false),
        ("", false),
    ] {
        annotate(&mut missing, &waived, value);
        assert_eq!(validator.check(&missing).is_ok(), fine, "{value:?}");
    }
    let there = request("ctr0", None, &[("00", "foo"), ("10", "bar")]);
    assert_eq!(validator.check(&there), Ok(()));
    assert_eq!(requiring(&["10-bar"]).check(&there), Ok(()));
    assert!(requiring(&["11-bar"]).check(&there).is_err());
}

#[test]
fn row_101_plugins_required_by_annotation() {
    let validator = requiring(&["bar"]);
    let key = format!("{}/container.ctr0", annotation::REQUIRED_PLUGINS);
    let mut first = request("ctr0", None, &[("10", "bar")]);
    annotate(&mut first, &key, "[ \"xyzzy\" ]");
    assert!(validator.check(&first).is_err());
    let mut second = request("ctr0", None, &[("10", "bar"), ("20", "xyzzy")]);
    annotate(&mut second, &key, "[ \"xyzzy\" ]");
    assert_eq!(validator.check(&second), Ok(()));
}

#[test]
fn rows_217_to_225_global_and_annotated_requirements() {
    for (row, global, annotated, plugins, fine) in [
        (217, &[][..], None, &[][..], true),
        (218, &[], Some("- plugin"), &[], false),
        (219, &[], Some("- plugin"), &["plugin"], true),
        (220, &["plugin"], None, &[], false),
        (217, &[], Some(""), &[], true),
        (217, &[], Some("[]"), &[], true),
        (221, &["plugin"], None, &["plugin"], true),
        (222, &["plugin1"], Some("- plugin2"), &[], false),
        (
            223,
            &["plugin1"],
            Some("- plugin2"),
            &["plugin1", "plugin2"],
            true,
        ),
        (224, &["plugin1"], Some("- plugin2"), &["plugin1"], false),
        (225, &["plugin1"], Some("- plugin2"), &["plugin2"], false),
    ] {
        let plugins: Vec<_> = plugins.iter().map(|name| ("00", *name)).collect();
        let mut request = request("container-name", None, &plugins);
        if let Some(list) = annotated {
            annotate(&mut request, annotation::REQUIRED_PLUGINS, list);
        }
        assert_eq!(requiring(global).check(&request).is_ok(), fine, "row {row}");
    }
}

#[test]
fn an_annotation_that_is_no_list_of_names_rejects() {
    let many = format!("[{}]", "a,".repeat(REQUIRED_MAX + 1));
    let long = format!("[{}]", "a".repeat(ANNOTATION_MAX));
    for text in ["plugin", "{a: b}", "[[a]]", "[a", "&a [*a]", &many, &long] {
        let mut request = request("c", None, &[("00", "a"), ("00", "plugin")]);
        annotate(&mut request, annotation::REQUIRED_PLUGINS, text);
        let got = DefaultValidator::default().check(&request);
        let rejected = matches!(got, Err(Rejection::Annotation { .. }));
        assert!(rejected, "{text:.20}: {got:?}");
    }
}

#[test]
fn what_has_no_owner_in_the_request_does_not_slip_through() {
    let validator = DefaultValidator {
        reject_oci_hook_adjustment: true,
        reject_unconfined_seccomp_adjustment: true,
        reject_namespace_adjustment: true,
        reject_sysctl_adjustment: true,
        ..DefaultValidator::default()
    };
    let changes: [fn(&mut ContainerAdjustment); 4] = [
        |it| {
            it.add_hooks(Hooks {
                poststop: vec![Hook::default()],
                ..Hooks::default()
            });
        },
        |it| {
            it.set_seccomp_policy(LinuxSeccomp::default());
        },
        |it| {
            it.add_or_replace_namespace(LinuxNamespace::default());
        },
        |it| {
            it.remove_sysctl("net.core.somaxconn");
        },
    ];
    for change in changes {
        let mut request = request("c", None, &[]);
        assert_eq!(validator.check(&request), Ok(()));
        change(request.adjust.get_or_insert_default());
        assert!(validator.check(&request).is_err());
        assert_eq!(DefaultValidator::default().check(&request), Ok(()));
    }
}

proptest! {
    #[test]
    fn no_annotation_panics(text in ".{0,60}", key in any::<bool>()) {
        let mut request = request("c", None, &[]);
        let key = if key { TOLERATE } else { annotation::REQUIRED_PLUGINS };
        annotate(&mut request, key, &text);
        drop(requiring(&["a"]).check(&request));
    }
}
