//! The directory of `CSIPluginInfo` files (SM10, SM11).

use std::path::Path;

use longshore_supervisor::{Config, Sources};

use crate::samples::sources;

const GOOD: &str = r#"{
  "type": "org.apache.mesos.csi.test",
  "containers": [{
    "services": ["CONTROLLER_SERVICE", "NODE_SERVICE"],
    "command": {"shell": true, "value": "exec driver"}
  }]
}"#;

fn setup(dir: &Path) -> Sources {
    let plugins = dir.join("csi.d");
    std::fs::create_dir(&plugins).unwrap();
    let file = dir.join("c.toml");
    std::fs::write(
        &file,
        format!("[csi]\nplugin_dir = {plugins:?}\nkill_grace = \"3s\"\n"),
    )
    .unwrap();
    sources(&file)
}

fn names(config: &Config) -> Vec<&str> {
    config.plugins.iter().map(|plugin| plugin.name()).collect()
}

#[test]
fn sm10_a_file_added_later_is_a_plugin_after_the_next_look() {
    let dir = tempfile::tempdir().unwrap();
    let sources = setup(dir.path());
    let before = Config::load(&sources, None).unwrap();
    assert_eq!(names(&before), Vec::<&str>::new());
    std::fs::write(dir.path().join("csi.d/test.json"), GOOD).unwrap();
    let after = before.rescan();
    assert_eq!(names(&after), ["test"]);
    assert_eq!(after.errors, Vec::<String>::new());
    assert_eq!(
        after.plugins[0].config.kill_grace,
        std::time::Duration::from_secs(3)
    );
    std::fs::remove_file(dir.path().join("csi.d/test.json")).unwrap();
    assert_eq!(names(&after.rescan()), Vec::<&str>::new());
}

#[test]
fn sm11_a_broken_file_is_named_with_its_line_and_hurts_no_other() {
    let dir = tempfile::tempdir().unwrap();
    let sources = setup(dir.path());
    let broken = dir.path().join("csi.d/broken.json");
    std::fs::write(dir.path().join("csi.d/good.json"), GOOD).unwrap();
    std::fs::write(&broken, "{\n  \"type\": \"x\",\n  oops\n}").unwrap();
    let config = Config::load(&sources, None).unwrap();
    assert_eq!(names(&config), ["good"]);
    assert_eq!(config.errors.len(), 1);
    assert!(
        config.errors[0].starts_with(&format!("{}:3: ", broken.display())),
        "{:?}",
        config.errors
    );
    // Usable after the fix.
    std::fs::write(&broken, GOOD.replace("mesos", "other")).unwrap();
    let fixed = config.rescan();
    assert_eq!(names(&fixed), ["broken", "good"]);
    assert_eq!(fixed.errors, Vec::<String>::new());
    // Broken again: what it said before stays in force.
    std::fs::write(&broken, "").unwrap();
    let again = fixed.rescan();
    assert_eq!(names(&again), ["broken", "good"]);
    assert_eq!(again.errors.len(), 1);
}

#[test]
fn an_unknown_field_is_warned_about_as_mesos_ignores_it() {
    let dir = tempfile::tempdir().unwrap();
    let sources = setup(dir.path());
    let file = dir.path().join("csi.d/test.json");
    std::fs::write(
        &file,
        GOOD.replace("\"type\": \"org", "\"colour\": 1,\n  \"type\": \"org"),
    )
    .unwrap();
    let config = Config::load(&sources, None).unwrap();
    assert_eq!(names(&config), ["test"]);
    assert_eq!(
        config.warnings,
        [format!(
            "{}:2: colour: unknown field, ignored",
            file.display()
        )]
    );
}

#[test]
fn what_clashes_with_another_plugin_is_left_out_and_named() {
    let dir = tempfile::tempdir().unwrap();
    let sources = setup(dir.path());
    std::fs::write(dir.path().join("csi.d/a.json"), GOOD).unwrap();
    std::fs::write(
        dir.path().join("csi.d/b.json"),
        GOOD.replace("mesos.csi", "mesos-csi"),
    )
    .unwrap();
    let config = Config::load(&sources, None).unwrap();
    assert_eq!(names(&config), ["a"]);
    assert!(
        config.errors[0].contains("b.json") && config.errors[0].contains("also that of plugin a")
    );
}

#[test]
fn leftovers_of_editors_and_hidden_files_are_no_plugins() {
    let dir = tempfile::tempdir().unwrap();
    let sources = setup(dir.path());
    for name in [".hidden.json", "a.json~", "a.json.swp", "a.json.tmp"] {
        std::fs::write(dir.path().join("csi.d").join(name), "not even json").unwrap();
    }
    let config = Config::load(&sources, None).unwrap();
    assert_eq!((names(&config), config.errors.len()), (vec![], 0));
}

#[test]
fn a_directory_that_is_missing_is_reported_and_looked_for_again() {
    let dir = tempfile::tempdir().unwrap();
    let sources = setup(dir.path());
    std::fs::remove_dir(dir.path().join("csi.d")).unwrap();
    let config = Config::load(&sources, None).unwrap();
    assert!(config.errors[0].contains("csi.d"), "{:?}", config.errors);
    std::fs::create_dir(dir.path().join("csi.d")).unwrap();
    assert_eq!(config.rescan().errors, Vec::<String>::new());
}

#[test]
fn a_file_that_could_not_run_is_broken_like_one_that_cannot_be_read() {
    let dir = tempfile::tempdir().unwrap();
    let sources = setup(dir.path());
    let file = dir.path().join("csi.d/test.json");
    let command =
        |command: &str| GOOD.replace("{\"shell\": true, \"value\": \"exec driver\"}", command);
    for (text, line, part) in [
        (
            command("{\"shell\": false, \"value\": \"./driver\"}"),
            5,
            "`./driver` is not an absolute path",
        ),
        (
            GOOD.replace(
                "\"command\"",
                "\"container\": {\"type\": \"MESOS\",\n\"mesos\": {\"image\": {\"type\": \"DOCKER\", \"docker\": {\"name\": \"Not An Image\"}}}},\n\"command\"",
            ),
            6,
            "Not An Image",
        ),
    ] {
        std::fs::write(&file, text).unwrap();
        let config = Config::load(&sources, None).unwrap();
        let beginning = format!("{}:{line}: ", file.display());
        assert_eq!(config.errors.len(), 1, "{:#?}", config.errors);
        let error = &config.errors[0];
        assert!(error.starts_with(&beginning) && error.contains(part), "{error}");
    }
    // What this machine lacks is told as what it is: another day it may be there.
    let text = command("{\"value\": \"x\",\n\"user\": \"no-such-user\"}");
    std::fs::write(&file, text).unwrap();
    for config in [
        Config::load(&sources, None).unwrap(),
        Config::load(&sources, None).unwrap().rescan(),
    ] {
        assert_eq!(config.errors, Vec::<String>::new());
        assert_eq!(config.lacking.len(), 1, "{:#?}", config.lacking);
        let beginning = format!("{}:6: ", file.display());
        assert!(
            config.lacking[0].starts_with(&beginning) && config.lacking[0].contains("no-such-user"),
            "{:#?}",
            config.lacking
        );
        assert_eq!(config.warnings, config.lacking);
        assert_eq!(config.plugins.len(), 1);
    }
    // A mere name is looked for in PATH, as Mesos does.
    std::fs::write(&file, command("{\"shell\": false, \"value\": \"driver\"}")).unwrap();
    assert_eq!(
        Config::load(&sources, None).unwrap().errors,
        Vec::<String>::new()
    );
}
