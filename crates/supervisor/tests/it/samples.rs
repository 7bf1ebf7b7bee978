//! Each file of `tests/samples` is a test. The first line of an invalid one says what is expected:
//! `# LINE | KEY | part of the message`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use longshore_supervisor::{Config, DEFAULT_TOML, Flags, Sources};

pub(crate) fn sources(file: &Path) -> Sources {
    let env = BTreeMap::from([("HOME".to_owned(), "/home/somebody".to_owned())]);
    Sources {
        file: Some(file.to_owned()),
        env,
        flags: Flags::default(),
        // Root may switch users and mount.
        uid: 0,
    }
}

fn samples(kind: &str) -> Vec<PathBuf> {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/samples")
        .join(kind);
    let mut files: Vec<_> = std::fs::read_dir(dir)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    files.sort();
    assert!(files.len() > 3);
    files
}

#[test]
fn each_valid_sample_is_accepted() {
    for file in samples("valid") {
        let config = Config::load(&sources(&file), None);
        let config = config.unwrap_or_else(|error| panic!("{}: {error}", file.display()));
        assert_eq!(config.warnings, Vec::<String>::new(), "{}", file.display());
    }
}

#[test]
fn the_sample_of_the_readme_is_valid_and_has_eight_lines() {
    let readme = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../README.md");
    let readme = std::fs::read_to_string(readme).unwrap();
    let (_, sample) = readme.split_once("```toml\n").unwrap();
    let (sample, _) = sample.split_once("```").unwrap();
    assert_eq!(sample.lines().count(), 8);
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("longshore.toml");
    std::fs::write(&file, sample).unwrap();
    let config = Config::load(&sources(&file), None).unwrap();
    assert_eq!(config.plugins.len(), 1);
    assert_eq!(config.warnings, Vec::<String>::new());
}

#[test]
fn each_invalid_sample_is_refused_with_file_line_and_key() {
    for file in samples("invalid") {
        let text = std::fs::read_to_string(&file).unwrap();
        let expected = text.lines().next().unwrap().strip_prefix("# ").unwrap();
        let mut parts = expected.split('|').map(str::trim);
        let [line, key, part] = [(); 3].map(|()| parts.next().unwrap_or_default());
        check(&file, line, key, part);
    }
}

fn check(file: &Path, line: &str, key: &str, part: &str) {
    let error = Config::load(&sources(file), None).err();
    let error = error
        .unwrap_or_else(|| panic!("{} was accepted", file.display()))
        .to_string();
    let beginning = format!("{}:{line}: {key}", file.display());
    assert!(
        error.starts_with(&beginning),
        "\n  {error}\nshould begin with\n  {beginning}"
    );
    assert!(
        error.contains(part.trim()),
        "\n  {error}\nshould contain\n  {part}"
    );
    assert!(!error.contains('\n'), "{error}");
}

#[test]
fn the_printed_defaults_are_themselves_a_valid_configuration_and_change_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let (empty, defaults) = (
        dir.path().join("empty.toml"),
        dir.path().join("defaults.toml"),
    );
    std::fs::write(&empty, "").unwrap();
    std::fs::write(&defaults, DEFAULT_TOML).unwrap();
    let one = Config::load(&sources(&empty), None).unwrap();
    let other = Config::load(&sources(&defaults), None).unwrap();
    assert_eq!(one.agent, other.agent);
    let values = |config: &Config| {
        config
            .settings()
            .iter()
            .map(|s| (s.key.clone(), s.value.clone()))
            .collect::<Vec<_>>()
    };
    assert_eq!(values(&one), values(&other));
}
