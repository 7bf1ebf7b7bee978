//! What could not run is no valid configuration, and an operator hears of all of it at once.

use std::path::{Path, PathBuf};

use longshore_supervisor::{Config, Sources};

use crate::samples::sources;

fn file(dir: &Path, text: &str) -> PathBuf {
    let file = dir.join("c.toml");
    std::fs::write(&file, text).unwrap();
    file
}

fn errors(sources: &Sources) -> Vec<String> {
    let errors = Config::load(sources, None).unwrap_err();
    errors.iter().map(ToString::to_string).collect()
}

#[test]
fn all_that_is_wrong_is_told_in_the_order_of_its_lines() {
    let dir = tempfile::tempdir().unwrap();
    let text = "log = \"loud\"\nstate_dir = \"var/x\"\nlgo = 1\n\
                [agent.embedded]\nmax_containers = 0\nlisten = \"here\"\n\
                [csi]\n# Nothing.\nkill_grace = \"5\"\n\
                [plugins.a]\ntype = \"../x\"\nservices = [\"controller\"]\n\
                restart = { initial = \"2s\", max = \"1s\" }\n\
                [[plugins.a.containers]]\nservices = [\"node\", \"node\"]\ncommand = [\"x\"]\n\
                resources = { cpus = -1 }\n\
                [plugins.b]\ntyp = \"t\"\nendpoints = { node = \"/x\" }\n\
                [plugins.c]\ntype = \"t\"\nendpoints = { node = \"/x\" }\n\
                [plugins.d]\ntype = \"t\"\nendpoints = { node = \"/x\" }\n";
    let file = file(dir.path(), text);
    let found = errors(&sources(&file));
    let expected = [
        "1: log: ",
        "2: state_dir: ",
        "3: lgo: unknown field",
        "5: agent.embedded.max_containers: ",
        "6: agent.embedded.listen: `here`",
        "6: agent.embedded.listen: TCP needs a token",
        "9: csi.kill_grace: ",
        "11: plugins.a.type: ",
        "12: plugins.a.services: no container offers",
        "13: plugins.a.restart.max: ",
        "15: plugins.a.containers[0].services: names a service twice",
        "16: plugins.a.containers[0].command: `x` is not an absolute path",
        "17: plugins.a.containers[0].resources.cpus: ",
        // Not also that a type is missing: what was meant for it has been named.
        "19: plugins.b.typ: unknown field",
        "24: plugins.d: its id",
    ];
    for beginning in expected {
        let beginning = format!("{}:{beginning}", file.display());
        let told = found.iter().filter(|e| e.starts_with(&beginning)).count();
        assert_eq!(told, 1, "{beginning}: {found:#?}");
    }
    assert_eq!(found.len(), expected.len(), "{found:#?}");
    assert!(
        found.iter().all(|e| !e.contains("plugins.b.type")),
        "{found:#?}"
    );
    let line = |error: &String| -> usize {
        let rest = &error[file.to_str().unwrap().len() + 1..];
        rest[..rest.find(':').unwrap()].parse().unwrap()
    };
    assert!(found.is_sorted_by_key(line), "{found:#?}");
}

#[test]
fn what_the_embedded_agent_would_refuse_to_this_user_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let text = "[plugins.a]\ntype = \"t\"\n[[plugins.a.containers]]\nservices = [\"node\"]\n\
                command = [\"/x\"]\nuser = \"0\"\n\
                [plugins.b]\ntype = \"u\"\n[[plugins.b.containers]]\nservices = [\"node\"]\n\
                command = [\"/x\"]\nvolumes = [{ host = \"/a\", container = \"/b\" }]\n";
    let file = file(dir.path(), text);
    let mut sources = sources(&file);
    Config::load(&sources, None).unwrap();
    sources.uid = 1000;
    let found = errors(&sources);
    assert_eq!(found.len(), 2, "{found:#?}");
    assert!(
        found[0].contains(":6: plugins.a.containers[0].user: "),
        "{found:#?}"
    );
    assert!(
        found[1].contains(":12: plugins.b.containers[0].volumes: "),
        "{found:#?}"
    );
    // Another agent has its own users and rights.
    sources.flags.agent_url = Some("http://127.0.0.1:5051".to_owned());
    Config::load(&sources, None).unwrap();
}

#[test]
fn a_user_that_this_machine_does_not_know_is_no_error_of_the_file() {
    let dir = tempfile::tempdir().unwrap();
    let text = "[plugins.a]\ntype = \"t\"\n[[plugins.a.containers]]\nservices = [\"node\"]\n\
                command = [\"/x\"]\nuser = \"no-such-user\"\n\
                [plugins.b]\ntype = \"u\"\nendpoints = { node = \"/x\" }\n";
    let file = file(dir.path(), text);
    let config = Config::load(&sources(&file), None).unwrap();
    assert_eq!(config.plugins.len(), 2);
    let beginning = format!("{}:6: plugins.a.containers[0].user: ", file.display());
    assert_eq!(config.lacking.len(), 1, "{:#?}", config.lacking);
    assert!(
        config.lacking[0].starts_with(&beginning) && config.lacking[0].contains("'no-such-user'"),
        "{:#?}",
        config.lacking
    );
    assert_eq!(config.warnings, config.lacking);
    // Another kind of refusal is one all the same, beside it.
    std::fs::write(&file, text.replace("\"/x\"]", "\"x\"]")).unwrap();
    let found = errors(&sources(&file));
    assert!(found.len() == 1 && found[0].contains(":5: "), "{found:#?}");
}

#[test]
fn a_variable_that_no_setting_is_read_from_is_warned_about() {
    let dir = tempfile::tempdir().unwrap();
    let file = file(dir.path(), "");
    let mut sources = sources(&file);
    for (name, value) in [
        ("LONGSHORE_STATEDIR", "/x"),
        ("LONGSHORE_COLOUR", "red"),
        ("LONGSHORE_CONFIG", "/y"),
        ("LONGSHORE_AGENT_ID", "n1"),
    ] {
        sources.env.insert(name.to_owned(), value.to_owned());
    }
    let config = Config::load(&sources, None).unwrap();
    let expected = [
        "$LONGSHORE_COLOUR: no setting is read from this variable, ignored",
        "$LONGSHORE_STATEDIR: no setting is read from this variable, ignored; did you mean \
         LONGSHORE_STATE_DIR?",
    ];
    assert_eq!(config.warnings, expected);
    // They stay when the plugin directory is read again.
    assert_eq!(config.rescan().warnings, expected);
}

#[test]
fn a_filter_from_a_variable_or_a_flag_is_judged_too() {
    let dir = tempfile::tempdir().unwrap();
    let file = file(dir.path(), "log = \"debug\"\n");
    let mut sources = sources(&file);
    sources
        .env
        .insert("LONGSHORE_LOG".to_owned(), "loud".to_owned());
    let found = errors(&sources);
    assert!(
        found[0].starts_with("$LONGSHORE_LOG: log: `loud` "),
        "{found:#?}"
    );
    sources.flags.log = Some("info,x=loud".to_owned());
    let found = errors(&sources);
    assert!(found[0].starts_with("--log: log: "), "{found:#?}");
}

#[test]
fn the_files_of_the_tcp_listener_are_looked_at() {
    let dir = tempfile::tempdir().unwrap();
    let token = dir.path().join("token");
    let text = format!("[agent.embedded]\nlisten = \"127.0.0.1:5051\"\ntoken_file = {token:?}\n");
    let file = file(dir.path(), &text);
    let config = Config::load(&sources(&file), None).unwrap();
    let error = config.check_files().unwrap_err().to_string();
    let beginning = format!("{}:2: agent.embedded.listen: ", file.display());
    assert!(
        error.starts_with(&beginning) && error.contains(token.to_str().unwrap()),
        "{error}"
    );
    std::fs::write(&token, "short").unwrap();
    config.check_files().unwrap_err();
    use std::os::unix::fs::PermissionsExt as _;
    std::fs::write(&token, "0123456789abcdefABCDEFGHIJKLMNOPQRSTUVWXYZ-._~+/").unwrap();
    std::fs::set_permissions(&token, std::fs::Permissions::from_mode(0o600)).unwrap();
    config.check_files().unwrap();
}

#[test]
fn the_defaults_are_told_one_by_one() {
    let defaults = Config::defaults();
    let value = |key: &str| {
        let found = defaults.iter().find(|setting| setting.key == key);
        found.unwrap_or_else(|| panic!("{key}")).value.to_string()
    };
    assert_eq!(value("log"), "\"info\"");
    assert_eq!(value("csi.restart.start_limit_burst"), "10");
}
