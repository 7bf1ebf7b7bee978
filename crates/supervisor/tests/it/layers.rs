//! Precedence: defaults < file < environment < flag, and where each value says that it is from.

use std::path::PathBuf;

use longshore_supervisor::{AgentChoice, Config};

use crate::samples::sources;

#[test]
fn a_flag_wins_over_the_environment_and_that_over_the_file() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("c.toml");
    std::fs::write(
        &file,
        "log = \"debug\"\nstate_dir = \"/file\"\nruntime_dir = \"/file-r\"\n",
    )
    .unwrap();
    let mut sources = sources(&file);
    sources
        .env
        .insert("LONGSHORE_STATE_DIR".to_owned(), "/env".to_owned());
    sources
        .env
        .insert("LONGSHORE_RUNTIME_DIR".to_owned(), "/env-r".to_owned());
    sources.flags.runtime_dir = Some(PathBuf::from("/flag-r"));
    let config = Config::load(&sources, None).unwrap();
    assert_eq!(config.log, "debug");
    assert_eq!(config.state_dir, PathBuf::from("/env"));
    assert_eq!(config.runtime_dir, PathBuf::from("/flag-r"));

    let origin = |key: &str| {
        let setting = config.settings().iter().find(|setting| setting.key == key);
        setting
            .unwrap_or_else(|| panic!("{key}"))
            .origin
            .to_string()
    };
    assert_eq!(origin("log"), format!("{}:1", file.display()));
    assert_eq!(origin("state_dir"), "$LONGSHORE_STATE_DIR");
    assert_eq!(origin("runtime_dir"), "--runtime-dir");
    assert_eq!(origin("csi.kill_grace"), "default");
}

#[test]
fn a_bad_value_of_the_environment_is_named_by_its_variable() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("c.toml");
    std::fs::write(&file, "").unwrap();
    let mut sources = sources(&file);
    sources
        .env
        .insert("LONGSHORE_AGENT_URL".to_owned(), "nowhere".to_owned());
    let error = Config::load(&sources, None).unwrap_err().to_string();
    assert!(
        error.starts_with("$LONGSHORE_AGENT_URL: agent.url: "),
        "{error}"
    );
    sources.flags.agent_url = Some("http://127.0.0.1:5051".to_owned());
    let config = Config::load(&sources, None).unwrap();
    assert!(matches!(config.agent, AgentChoice::External { .. }));
}

#[test]
fn a_missing_file_is_an_error_only_when_it_was_named() {
    let dir = tempfile::tempdir().unwrap();
    let missing = dir.path().join("none.toml");
    let error = Config::load(&sources(&missing), None)
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("cannot read") && error.contains("none.toml"),
        "{error}"
    );
}

#[test]
fn what_is_no_regular_file_or_too_large_is_refused_without_hanging() {
    let dir = tempfile::tempdir().unwrap();
    let fifo = dir.path().join("fifo");
    nix::unistd::mkfifo(&fifo, nix::sys::stat::Mode::S_IRUSR).unwrap();
    let error = Config::load(&sources(&fifo), None).unwrap_err().to_string();
    assert!(error.contains("not a regular file"), "{error}");
    let large = dir.path().join("large.toml");
    std::fs::write(&large, vec![b'#'; (1 << 20) + 1]).unwrap();
    let error = Config::load(&sources(&large), None)
        .unwrap_err()
        .to_string();
    assert!(error.contains("larger than 1048576 bytes"), "{error}");
}

#[test]
fn a_client_finds_the_daemon_while_its_file_is_broken() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("c.toml");
    for broken in [
        "nonsense = 1",
        "x = [",
        "= 5",
        "[plugins.a]\ntype = ",
        "log = 5",
    ] {
        std::fs::write(
            &file,
            format!("runtime_dir = \"/run/elsewhere\"\n{broken}\n"),
        )
        .unwrap();
        let found = Config::runtime_dir(&sources(&file)).unwrap();
        assert_eq!(found, PathBuf::from("/run/elsewhere"), "{broken}");
        Config::load(&sources(&file), None).unwrap_err();
    }
    // Neither directory is in it: what is broken cannot be about them.
    std::fs::write(&file, "x = [\n").unwrap();
    let (broken, valid) = (
        Config::runtime_dir(&sources(&file)),
        dir.path().join("v.toml"),
    );
    std::fs::write(&valid, "").unwrap();
    assert_eq!(
        broken.unwrap(),
        Config::runtime_dir(&sources(&valid)).unwrap()
    );
}

#[test]
fn a_client_that_cannot_tell_which_daemon_is_meant_asks_none() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("c.toml");
    for (text, told) in [
        ("runtime_dir =\n", "c.toml:1: "),
        ("[runtime_dir\n", "c.toml:1: "),
        ("\nstate_dir =\nlog = \"info\"\n", "c.toml:2: "),
        (
            "runtime_dir = \"r\"\n",
            "c.toml:1: runtime_dir: `r` is not an absolute path",
        ),
        (
            "runtime_dir = 5\n",
            "c.toml:1: runtime_dir: is not a string",
        ),
        (
            "state_dir = \"s\"\n",
            "c.toml:1: state_dir: `s` is not an absolute path",
        ),
    ] {
        std::fs::write(&file, text).unwrap();
        let error = Config::runtime_dir(&sources(&file))
            .unwrap_err()
            .to_string();
        assert!(error.contains(told), "{text}: {error}");
    }
    let missing = dir.path().join("typo.toml");
    let error = Config::runtime_dir(&sources(&missing)).unwrap_err();
    assert!(error.to_string().contains("typo.toml"), "{error}");

    let mut flagged = sources(&file);
    flagged.flags.runtime_dir = Some(PathBuf::from("./r"));
    let error = Config::runtime_dir(&flagged).unwrap_err().to_string();
    assert_eq!(
        error,
        "--runtime-dir: runtime_dir: `./r` is not an absolute path"
    );
    flagged.flags.runtime_dir = Some(PathBuf::from("/r"));
    assert_eq!(Config::runtime_dir(&flagged).unwrap(), PathBuf::from("/r"));
}

#[test]
fn text_that_is_not_utf8_is_named_with_its_line() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("c.toml");
    std::fs::write(&file, b"log = \"info\"\n# \xff\n").unwrap();
    let error = Config::load(&sources(&file), None).unwrap_err().to_string();
    assert_eq!(
        error,
        format!("{}:2: the text is not UTF-8", file.display())
    );
}
