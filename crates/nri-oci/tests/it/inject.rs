//! The functions of the runtime.

use longshore_nri_api::{ContainerAdjustment, Mount};
use longshore_nri_oci::oci_spec::runtime::{LinuxBlockIo, LinuxIntelRdt};
use longshore_nri_oci::{Adjuster, ApplyError, Propagation};
use serde_json::json;

use super::{base, spec};

#[test]
fn filters_see_markers_and_may_drop_or_refuse() {
    let mut adjustment = ContainerAdjustment::default();
    adjustment
        .add_annotation("keep", "1")
        .add_annotation("drop", "1")
        .remove_annotation("old")
        .set_sysctl("net.core.somaxconn", "1");
    let adjuster = Adjuster::default()
        .with_annotation_filter(|annotations| {
            assert!(annotations.contains_key("-old"));
            annotations.remove("drop");
            Ok(())
        })
        .with_sysctl_filter(|sysctls| {
            sysctls.clear();
            Ok(())
        });
    let mut got = spec(&base());
    adjuster.apply(&mut got, &adjustment).unwrap();
    let annotations = got.annotations().as_ref().unwrap();
    assert_eq!(annotations.keys().collect::<Vec<_>>(), ["keep"]);
    assert_eq!(*got.linux().as_ref().unwrap().sysctl(), None);

    let adjuster = Adjuster::default().with_sysctl_filter(|_| Err("no sysctls here".into()));
    let error = adjuster.apply(&mut got, &adjustment).unwrap_err();
    assert!(
        matches!(&error, ApplyError::Refused { field: "linux.sysctl", source, .. }
        if source.to_string() == "no sysctls here")
    );
}

#[test]
fn classes_are_resolved_cleared_refused_or_ignored() {
    let classes = |blockio: &str, rdt: &str| {
        let mut adjustment = ContainerAdjustment::default();
        let resources = adjustment.resources_mut();
        resources.blockio_class = Some(blockio.into());
        resources.rdt_class = Some(rdt.into());
        adjustment
    };
    let adjuster = Adjuster::default()
        .with_blockio_classes(|class| {
            let mut block_io = LinuxBlockIo::default();
            block_io.set_weight(Some(if class == "gold" { 900 } else { 100 }));
            Ok(block_io)
        })
        .with_rdt_classes(|class| {
            let mut rdt = LinuxIntelRdt::default();
            rdt.set_clos_id(Some(class.to_owned()));
            Ok(rdt)
        });
    let mut got = spec(&base());
    adjuster.apply(&mut got, &classes("gold", "low")).unwrap();
    let linux = got.linux().clone().unwrap();
    let weight = |linux: &longshore_nri_oci::oci_spec::runtime::Linux| {
        let resources = linux.resources().as_ref().unwrap();
        resources.block_io().as_ref().and_then(LinuxBlockIo::weight)
    };
    assert_eq!(weight(&linux), Some(900));
    assert_eq!(
        linux.intel_rdt().as_ref().unwrap().clos_id().as_deref(),
        Some("low")
    );

    let plain = Adjuster::default();
    plain.apply(&mut got, &classes("", "")).unwrap();
    let linux = got.linux().clone().unwrap();
    assert_eq!((weight(&linux), linux.intel_rdt()), (None, &None));

    let refused = plain.apply(&mut got, &classes("gold", "")).unwrap_err();
    assert!(matches!(refused, ApplyError::Unsupported { .. }));
    let before = got.clone();
    let ignoring = Adjuster::default().ignoring_unsupported();
    ignoring.apply(&mut got, &classes("gold", "low")).unwrap();
    assert_eq!(got, before);
}

#[test]
fn cdi_devices_are_injected_before_devices_and_resources_are_judged() {
    let mut adjustment = ContainerAdjustment::default();
    adjustment.add_cdi_device("v/c=d").set_cgroups_path("/p");
    adjustment.resources_mut().set_cpu_shares(3_u64);
    let adjuster = Adjuster::default()
        .with_cdi(|spec, names| {
            assert_eq!(names, ["v/c=d"]);
            assert_eq!(*spec.linux().as_ref().unwrap().cgroups_path(), None);
            spec.set_hostname(Some("injected".into()));
            Ok(())
        })
        .with_resource_check(|resources| {
            let shares = resources.cpu().as_ref().and_then(|cpu| cpu.shares());
            if shares == Some(3) {
                return Err("too few".into());
            }
            Ok(())
        });
    let mut got = spec(&base());
    let error = adjuster.apply(&mut got, &adjustment).unwrap_err();
    assert!(matches!(
        error,
        ApplyError::Refused {
            field: "linux.resources",
            ..
        }
    ));
    assert_eq!(got, spec(&base()), "the injection, too, is undone");
    adjustment.resources_mut().set_cpu_shares(4_u64);
    adjuster.apply(&mut got, &adjustment).unwrap();
    assert_eq!(got.hostname().as_deref(), Some("injected"));
}

#[test]
fn propagation_is_checked_for_each_mount_and_raises_that_of_the_root() {
    let run = |host, options: &[&str], root: Option<&str>| {
        let mut start = base();
        if let Some(root) = root {
            start["linux"]["rootfsPropagation"] = json!(root);
        }
        let mut adjustment = ContainerAdjustment::default();
        adjustment.add_mount(Mount {
            destination: "/data".into(),
            source: "/host".into(),
            options: options.iter().map(|option| (*option).into()).collect(),
            ..Mount::default()
        });
        adjustment.add_mount(Mount {
            destination: "/other".into(),
            source: "/never-looked-up".into(),
            ..Mount::default()
        });
        let mut got = spec(&start);
        Adjuster::default()
            .with_propagation(move |path| {
                assert_eq!(path.to_str(), Some("/host"));
                Ok(host)
            })
            .apply(&mut got, &adjustment)
            .map(|()| got.linux().as_ref().unwrap().rootfs_propagation().clone())
    };
    use Propagation::{Private, Shared, Slave};
    for (host, option, root, wanted) in [
        (Shared, "rshared", None, Some("rshared")),
        (Shared, "rslave", None, Some("rslave")),
        (Slave, "rslave", Some("private"), Some("rslave")),
        (Shared, "rslave", Some("rshared"), Some("rshared")),
        (Shared, "rshared", Some("rslave"), Some("rshared")),
        (Shared, "shared", Some("shared"), Some("shared")),
        (Private, "rprivate", None, None),
        (Private, "rbind", Some("x"), Some("x")),
    ] {
        let got = run(host, &["rbind", option], root).unwrap();
        assert_eq!(got.as_deref(), wanted, "{option} on {host:?}");
    }
    for (host, option) in [
        (Private, "rshared"),
        (Slave, "rshared"),
        (Private, "rslave"),
    ] {
        let error = run(host, &[option], None).unwrap_err();
        assert!(matches!(error, ApplyError::NotPropagated { .. }), "{error}");
    }
}
