//! What crictl and runc are given.

use std::fs;

use longshore_nri_simulate::{Case, Outcome};

use crate::{played, problems};

#[tokio::test]
async fn crictl_configs_and_an_oci_spec_make_a_case() {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name);
    let pod = r#"{"metadata": {"name": "p", "uid": "u1", "namespace": "ns"},
        "log_directory": "/tmp", "labels": {"a": "b"}}"#;
    fs::write(path("pod.json"), pod).unwrap();
    let container = r#"
metadata: {name: busy}
image: {image: busybox}
command: [top]
envs: [{key: A, value: "1"}]
mounts: [{container_path: /x, host_path: /y, readonly: true}]
linux: {resources: {memory_limit_in_bytes: 1048576}}
"#;
    fs::write(path("container.yaml"), container).unwrap();
    let spec = r#"{"ociVersion": "1.0.2", "linux": {"cgroupsPath": "/pods/x"},
        "process": {"cwd": "/", "user": {"uid": 0, "gid": 0}, "args": ["sh"], "env": ["PATH=/bin"]}}"#;
    fs::write(path("config.json"), spec).unwrap();
    let case = Case::from_files(
        Some(&path("pod.json")),
        Some(&path("container.yaml")),
        Some(&path("config.json")),
    );
    let report = played(case.unwrap(), &[("10", "tuner")]).await;
    assert!(report.ok(), "{:?}", problems(&report));
    let Outcome::Created { before, after, .. } = &report.steps[1].outcome else {
        panic!("{:?}", report.steps[1]);
    };
    assert_eq!(before["process"]["args"][0], "top");
    assert_eq!(before["linux"]["cgroupsPath"], "/pods/x");
    let env = after["process"]["env"].to_string();
    for entry in ["PATH=/bin", "A=1", "TUNED=yes"] {
        assert!(env.contains(entry), "{env}");
    }
}

#[test]
fn files_that_are_not_what_they_should_be_are_named() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("pod.json");
    for text in ["{", "[1]", "{\"labels\": 1}"] {
        fs::write(&path, text).unwrap();
        let error = Case::from_files(Some(&path), None, None).unwrap_err();
        assert!(error.to_string().contains("pod.json"), "{error}");
    }
    let none = dir.path().join("none");
    let error = Case::from_files(Some(&none), None, None).unwrap_err();
    assert!(error.to_string().contains("none"), "{error}");
}
