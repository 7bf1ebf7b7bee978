use std::error::Error;
use std::os::unix::fs::symlink;

use proptest::prelude::*;
use tempfile::TempDir;

use super::super::trust::tests::{chmod, judge_below};
use super::*;

/// A place with a plugin and a drop-in directory that only we can write.
struct Place {
    _dir: TempDir,
    root: PathBuf,
    options: LaunchOptions,
}

impl Place {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        let options = LaunchOptions::new(root.join("plugins"), root.join("conf.d"));
        for directory in [&options.plugin_dir, &options.config_dir] {
            fs::create_dir(directory).unwrap();
            chmod(directory, 0o755);
        }
        Self {
            _dir: dir,
            root,
            options,
        }
    }

    fn plugin(&self, name: impl AsRef<Path>, mode: u32) -> PathBuf {
        let path = self.options.plugin_dir.join(name);
        fs::write(&path, "#!/bin/sh\nexit 0\n").unwrap();
        chmod(&path, mode);
        path
    }

    fn drop_in(&self, name: &str, text: impl AsRef<[u8]>) -> PathBuf {
        let path = self.options.config_dir.join(name);
        fs::write(&path, text).unwrap();
        chmod(&path, 0o644);
        path
    }

    fn discover(&self) -> Result<Discovered, LaunchError> {
        discover_with(&self.options, &judge_below(&self.root))
    }

    /// The plugins found, and the names of what was skipped with the reason.
    fn found(&self) -> (Vec<String>, Vec<(PathBuf, String)>) {
        let found = self.discover().unwrap();
        let programs = found.programs.iter().map(|it| it.id.to_string());
        let skipped = found
            .skipped
            .iter()
            .map(|it| (it.path.clone(), text(&it.reason)));
        (programs.collect(), skipped.collect())
    }
}

fn text(error: &LaunchError) -> String {
    match error.source() {
        Some(source) => format!("{error}: {source}"),
        None => error.to_string(),
    }
}

#[test]
fn row_258_a_file_that_is_not_executable_is_ignored() {
    let place = Place::new();
    place.plugin("30-notexec", 0o644);
    place.plugin("README", 0o644);
    place.plugin("31-exec", 0o755);
    place.plugin("32-for-its-owner", 0o700);
    assert_eq!(
        place.found(),
        (vec!["31-exec".into(), "32-for-its-owner".into()], vec![])
    );
}

#[test]
fn a_directory_that_is_missing_holds_no_plugins_and_one_that_is_a_file_is_an_error() {
    let mut place = Place::new();
    place.options.plugin_dir = place.root.join("missing/too");
    assert_eq!(place.found(), (vec![], vec![]));
    let file = place.root.join("file");
    fs::write(&file, "").unwrap();
    chmod(&file, 0o644);
    place.options.plugin_dir = file;
    let error = place.discover().unwrap_err();
    assert!(matches!(error, LaunchError::List { .. }), "{error}");
}

#[test]
fn directories_are_skipped_and_plugins_come_in_the_order_of_their_names() {
    let place = Place::new();
    fs::create_dir(place.options.plugin_dir.join("10-directory")).unwrap();
    for name in ["99-z", "00-b", "20-device-injector", "00-a"] {
        place.plugin(name, 0o755);
    }
    assert_eq!(
        place.found().0,
        ["00-a", "00-b", "20-device-injector", "99-z"]
    );
}

#[test]
fn bad_names_are_named_and_the_others_are_used() {
    let mut place = Place::new();
    let bad = [
        "0-short", "000-long", "20", "20-", "20-a b", "README", "x0-x",
    ];
    for name in bad {
        place.plugin(name, 0o755);
    }
    let raw = place.plugin(OsStr::from_bytes(b"21-\xff"), 0o755);
    place.plugin("50-good", 0o755);
    let (found, skipped) = place.found();
    assert_eq!(found, ["50-good"]);
    let names: Vec<&Path> = skipped.iter().map(|(path, _)| path.as_path()).collect();
    let mut expected: Vec<PathBuf> = bad
        .iter()
        .map(|name| place.options.plugin_dir.join(name))
        .collect();
    expected.push(raw);
    expected.sort();
    assert_eq!(names, expected);
    for (path, reason) in &skipped {
        assert!(reason.contains(&format!("{path:?}")), "{reason}");
    }

    place.options.compat = Compat::GoAdaptation;
    let error = place.discover().unwrap_err();
    assert!(matches!(error, LaunchError::Name { .. }), "as Go: {error}");
}

#[test]
fn what_others_can_change_is_not_used_and_named() {
    let place = Place::new();
    let open = place.plugin("10-open", 0o777);
    place.plugin("20-good", 0o755);
    let (found, skipped) = place.found();
    assert_eq!(found, ["20-good"]);
    assert_eq!(skipped.len(), 1);
    assert_eq!(skipped[0].0, open);
    assert!(skipped[0].1.contains("mode 0777"), "{}", skipped[0].1);

    chmod(&place.options.plugin_dir, 0o775);
    let (found, skipped) = place.found();
    assert_eq!(found, Vec::<String>::new());
    assert_eq!(skipped[0].0, place.options.plugin_dir);
    chmod(&place.options.plugin_dir, 0o755);

    let trusting = LaunchOptions {
        trust_any_owner: true,
        ..place.options.clone()
    };
    assert_eq!(discover(&trusting).unwrap().programs.len(), 2);
}

#[test]
fn links_are_used_by_their_target() {
    let place = Place::new();
    let link = |name: &str, target: &Path| {
        symlink(target, place.options.plugin_dir.join(name)).unwrap();
    };
    let elsewhere = place.root.join("script");
    fs::write(&elsewhere, "#!/bin/sh\n").unwrap();
    chmod(&elsewhere, 0o755);
    let data = place.root.join("data");
    fs::write(&data, "").unwrap();
    chmod(&data, 0o644);
    let open = place.root.join("open");
    fs::create_dir(&open).unwrap();
    chmod(&open, 0o777);
    fs::copy(&elsewhere, open.join("script")).unwrap();

    link("10-good", &elsewhere);
    link("11-directory", &place.root);
    link("12-not-executable", &data);
    link("13-nowhere", &place.root.join("missing"));
    link("14-open", &open.join("script"));
    let (found, skipped) = place.found();
    assert_eq!(found, ["10-good"]);
    let names: Vec<_> = skipped
        .iter()
        .map(|(path, _)| path.file_name().unwrap().to_str().unwrap())
        .collect();
    assert_eq!(names, ["13-nowhere", "14-open"]);
    assert!(skipped[1].1.contains(&format!("{open:?}")), "{skipped:?}");
}

#[test]
fn the_drop_in_with_the_index_comes_before_the_one_with_the_name() {
    let place = Place::new();
    for name in ["10-both", "20-name", "30-none", "40-empty"] {
        place.plugin(name, 0o755);
    }
    place.drop_in("10-both.conf", "of 10-both");
    place.drop_in("both.conf", "of both");
    place.drop_in("name.conf", "  verbatim\r\n# é\n");
    place.drop_in("40-empty.conf", "");
    place.drop_in("empty.conf", "not this");
    let config: Vec<String> = place
        .discover()
        .unwrap()
        .programs
        .into_iter()
        .map(|it| it.config)
        .collect();
    assert_eq!(config, ["of 10-both", "  verbatim\r\n# é\n", "", ""]);
}

#[test]
fn a_drop_in_that_cannot_be_read_keeps_its_plugin_alone_from_starting() {
    let mut place = Place::new();
    let files = [
        "10-dir", "11-fifo", "12-large", "13-text", "14-open", "15-link",
    ];
    for name in files {
        place.plugin(name, 0o755);
    }
    place.plugin("20-good", 0o755);
    let config = |name: &str| place.options.config_dir.join(name);
    fs::create_dir(config("dir.conf")).unwrap();
    chmod(&config("dir.conf"), 0o755);
    nix::unistd::mkfifo(
        &config("11-fifo.conf"),
        nix::sys::stat::Mode::from_bits_truncate(0o600),
    )
    .unwrap();
    place.drop_in("large.conf", vec![b'#'; LaunchOptions::CONFIG_MAX + 1]);
    place.drop_in("13-text.conf", b"\xff");
    place.drop_in("14-open.conf", "");
    chmod(&config("14-open.conf"), 0o666);
    symlink("nowhere", config("link.conf")).unwrap();

    let (found, skipped) = place.found();
    assert_eq!(found, ["20-good"]);
    let confs = [
        "dir.conf",
        "11-fifo.conf",
        "large.conf",
        "13-text.conf",
        "14-open.conf",
        "link.conf",
    ];
    assert_eq!(skipped.len(), confs.len());
    for (((path, reason), file), conf) in skipped.iter().zip(files).zip(confs) {
        assert!(path.ends_with(file), "{path:?}");
        assert!(reason.contains(&format!("{:?}", config(conf))), "{reason}");
    }
    place.drop_in("12-large.conf", vec![b'#'; LaunchOptions::CONFIG_MAX]);
    assert!(place.found().0.contains(&"12-large".to_owned()));

    place.options.compat = Compat::GoAdaptation;
    assert!(place.discover().is_err(), "as Go");
}

#[test]
fn a_directory_of_thousands_is_refused() {
    let place = Place::new();
    for n in 0..=LaunchOptions::ENTRIES_MAX {
        fs::write(place.options.plugin_dir.join(n.to_string()), "").unwrap();
    }
    let error = place.discover().unwrap_err();
    assert!(matches!(error, LaunchError::Entries { .. }), "{error}");
}

fn names() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        "[0-9]{2}-[A-Za-z0-9_.+-]{1,12}".prop_map(String::into_bytes),
        "[0-9]{0,3}-?[ -~]{0,8}".prop_map(String::into_bytes),
        proptest::collection::vec(1u8.., 1..40),
        "\\PC{1,12}".prop_map(String::into_bytes),
    ]
}

proptest! {
    #[test]
    fn no_file_name_makes_it_panic_and_good_ones_come_back_as_they_were(name in names()) {
        let name = OsStr::from_bytes(&name);
        match plugin_id(name) {
            Ok(id) => {
                let full = id.to_string();
                prop_assert_eq!(OsStr::new(&full), name);
                prop_assert!(id.base().len() <= PluginId::NAME_MAX);
                prop_assert!(!id.base().contains('/') && !id.base().contains('\0'));
            }
            Err(error) => prop_assert!(error.to_string().len() < 1024),
        }
    }
}

proptest! {
    // Each case makes files.
    #![proptest_config(ProptestConfig { cases: 32, ..ProptestConfig::default() })]
    #[test]
    fn a_directory_of_any_names_is_plugins_and_named_skips(
        names in proptest::collection::btree_set(
            names().prop_filter("a file name", |name| {
                !name.is_empty() && !name.contains(&b'/') && name.len() < 250 && name != b"." && name != b".."
            }),
            0..12,
        ),
    ) {
        let place = Place::new();
        for name in &names {
            place.plugin(OsStr::from_bytes(name), 0o755);
        }
        let found = place.discover().unwrap();
        let mut seen: Vec<PathBuf> = found.programs.iter().map(|it| it.path.clone()).collect();
        prop_assert!(seen.is_sorted());
        seen.extend(found.skipped.iter().map(|it| it.path.clone()));
        seen.sort();
        let mut expected: Vec<PathBuf> = names
            .iter()
            .map(|name| place.options.plugin_dir.join(OsStr::from_bytes(name)))
            .collect();
        expected.sort();
        prop_assert_eq!(seen, expected);
    }
}
