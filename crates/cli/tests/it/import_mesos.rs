//! `csi import-mesos` on trees as a Mesos agent leaves them.

use longshore_mesos_api::v1 as mesos;
use prost::Message as _;

use crate::support::Home;

fn info() -> mesos::CsiPluginContainerInfo {
    mesos::CsiPluginContainerInfo {
        services: vec![1, 2],
        command: Some(mesos::CommandInfo {
            shell: Some(false),
            value: Some("/opt/driver".to_owned()),
            arguments: vec!["driver".to_owned(), "--debug".to_owned()],
            environment: Some(mesos::Environment {
                variables: [("LANG", "C"), ("CSI_ENDPOINT", "unix:///old")]
                    .map(|(name, value)| mesos::environment::Variable {
                        name: name.to_owned(),
                        value: Some(value.to_owned()),
                        ..Default::default()
                    })
                    .into(),
            }),
            uris: vec![mesos::command_info::Uri {
                value: "http://x/driver.tgz".to_owned(),
                ..Default::default()
            }],
            ..Default::default()
        }),
        resources: vec![mesos::Resource {
            name: "mem".to_owned(),
            r#type: mesos::value::Type::Scalar.into(),
            scalar: Some(mesos::value::Scalar { value: 64.0 }),
            ..Default::default()
        }],
        ..Default::default()
    }
}

/// A record in Mesos' form: the length, then the message.
fn record(info: &mesos::CsiPluginContainerInfo) -> Vec<u8> {
    let body = info.encode_to_vec();
    let mut bytes = u32::try_from(body.len()).unwrap().to_le_bytes().to_vec();
    bytes.extend(body);
    bytes
}

fn plant(home: &Home, plugin: &str, bytes: &[u8]) {
    let id = format!(
        "mesos-internal-csi-{}--CONTROLLER_SERVICE-NODE_SERVICE",
        plugin.replace(['/', '.'], "-")
    );
    let dir = home
        .join("work/csi")
        .join(plugin)
        .join("containers")
        .join(id);
    std::fs::create_dir_all(&dir).unwrap();
    std::fs::write(dir.join("container.info"), bytes).unwrap();
}

#[test]
fn the_configuration_that_is_printed_is_valid_and_says_what_it_leaves_out() {
    let home = Home::new();
    plant(&home, "org.example.driver/default", &record(&info()));
    plant(&home, "org.example.other/fast", &record(&info()));
    let before = tree(&home);
    let done = home.run(["csi", "import-mesos", "work"]).exits(0);
    assert_eq!(tree(&home), before, "nothing is changed");
    assert!(
        done.stdout
            .contains("# not taken over: fetch http://x/driver.tgz"),
        "{done:#?}"
    );
    assert!(!done.stdout.contains("unix:///old"), "{done:#?}");
    let file = home.write("c.toml", &done.stdout);
    let checked = home
        .run(["config", "check", "-c", file.to_str().unwrap()])
        .exits(0);
    assert!(checked.stdout.contains("valid, 2 plugins"), "{checked:#?}");
    let shown = home
        .run(["config", "show", "-c", file.to_str().unwrap()])
        .exits(0)
        .stdout;
    for part in [
        "org.example.driver",
        "\"/opt/driver\", \"--debug\"",
        "64MiB",
        "plugins.fast",
    ] {
        assert!(shown.contains(part), "{part} is missing:\n{shown}");
    }
}

fn tree(home: &Home) -> Vec<std::path::PathBuf> {
    let mut found = Vec::new();
    let mut dirs = vec![home.join("work")];
    while let Some(dir) = dirs.pop() {
        for entry in std::fs::read_dir(dir).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                dirs.push(path.clone());
            }
            found.push(path);
        }
    }
    found.sort();
    found
}

#[test]
fn a_record_that_cannot_be_read_is_named_and_the_others_are_printed() {
    let home = Home::new();
    plant(&home, "org.example.good/default", &record(&info()));
    plant(&home, "org.example.short/default", &record(&info())[..20]);
    plant(&home, "org.example.empty/default", b"");
    plant(
        &home,
        "org.example.garbage/default",
        b"\x04\0\0\0\xff\xff\xff\xff",
    );
    let done = home.run(["csi", "import-mesos", "work"]).exits(1);
    for part in [
        "org.example.short",
        "org.example.empty",
        "org.example.garbage",
    ] {
        let named = |line: &str| {
            line.starts_with("# ") && line.contains(part) && line.contains("container.info")
        };
        assert!(done.stdout.lines().any(named), "{part}: {done:#?}");
    }
    assert!(
        done.stdout.contains("type = \"org.example.good\""),
        "{done:#?}"
    );
}

#[test]
fn a_directory_without_plugins_says_what_to_name() {
    let home = Home::new();
    std::fs::create_dir_all(home.join("work/csi")).unwrap();
    let done = home.run(["csi", "import-mesos", "work"]).exits(1);
    assert!(
        done.stderr.contains("no plugin was found") && done.stderr.contains("hint: "),
        "{done:#?}"
    );
    home.run(["csi", "import-mesos", "nowhere"]).exits(1);
}
