//! Adjustments applied to specs.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod inject;
mod laws;
mod rows;
mod rules;

use longshore_nri_api::ContainerAdjustment;
use longshore_nri_oci::oci_spec::runtime::Spec;
use longshore_nri_oci::{Adjuster, ApplyError};
use serde_json::{Value, json};

/// The spec S of the rows.
fn base() -> Value {
    json!({
        "ociVersion": "1.2.0",
        "process": {"user": {"uid": 0, "gid": 0}, "cwd": "/"},
        "linux": {"resources": {
            "memory": {"limit": 12345},
            "cpu": {"shares": 45678, "quota": 87654, "period": 54321, "cpus": "0-111", "mems": "0-4"},
            "pids": {"limit": 1},
        }},
    })
}

fn spec(value: &Value) -> Spec {
    serde_json::from_value(value.clone()).unwrap()
}

fn apply(spec: &mut Spec, adjustment: &ContainerAdjustment) -> Result<(), ApplyError> {
    Adjuster::default().apply(spec, adjustment)
}

/// S with an adjustment, against S with JSON merged into it (RFC 7396).
#[track_caller]
fn check(change: impl FnOnce(&mut ContainerAdjustment), patch: Value) {
    check_on(&json!({}), change, patch);
}

/// As [`check`], on S with JSON merged into it.
#[track_caller]
fn check_on(more: &Value, change: impl FnOnce(&mut ContainerAdjustment), patch: Value) {
    let mut start = base();
    merge(&mut start, more);
    let mut adjustment = ContainerAdjustment::default();
    change(&mut adjustment);
    let mut got = spec(&start);
    apply(&mut got, &adjustment).unwrap();
    merge(&mut start, &patch);
    assert_eq!(got, spec(&start));
    apply(&mut got, &adjustment).unwrap();
    if adjustment.hooks.is_none() {
        assert_eq!(got, spec(&start), "applied twice");
    }
}

fn merge(target: &mut Value, patch: &Value) {
    let (Some(target), Some(patch)) = (target.as_object_mut(), patch.as_object()) else {
        *target = patch.clone();
        return;
    };
    for (key, value) in patch {
        if value.is_null() {
            target.remove(key);
        } else {
            merge(target.entry(key.clone()).or_insert(json!({})), value);
        }
    }
}

/// The error of an adjustment of S, which stays as it was.
#[track_caller]
fn refused(change: impl FnOnce(&mut ContainerAdjustment)) -> String {
    let mut adjustment = ContainerAdjustment::default();
    // Something that would be applied before the error comes.
    adjustment.add_annotation("before", "1");
    change(&mut adjustment);
    let mut got = spec(&base());
    let error = apply(&mut got, &adjustment).unwrap_err();
    assert_eq!(got, spec(&base()), "all or nothing");
    error.to_string()
}
