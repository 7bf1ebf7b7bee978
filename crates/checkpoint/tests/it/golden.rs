//! Golden files: what earlier versions wrote is read, and what this one writes the one before reads.

use std::path::{Path, PathBuf};

use longshore_checkpoint::testing::check_golden;
use longshore_checkpoint::{CodecError, Damage, Durability, Loaded, Record, Writer, read};

use crate::plugin;

fn golden(kind: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/golden")
        .join(kind)
}

#[test]
fn the_envelope_and_the_bincode_body_have_not_changed() {
    check_golden(golden("plugin"), &plugin("org.example.nfs"), 1, "0.1.0").unwrap();
}

/// The history of one record over three releases: a field is added.
///
/// ```text
/// release   writes  reads up to
///       A        1            1    text
///       B        1            2    learns the weight
///       C        2            2    writes it
/// ```
macro_rules! release {
    ($name:ident, writes $writes:literal, reads $reads:literal) => {
        #[derive(Debug, Clone, PartialEq)]
        struct $name {
            text: String,
            weight: u8,
        }

        impl Record for $name {
            const KIND: &'static str = "example";
            const VERSION: u16 = $writes;
            const READS_UP_TO: u16 = $reads;

            fn encode(&self) -> Result<Vec<u8>, CodecError> {
                let mut body = self.text.clone().into_bytes();
                if $writes >= 2 {
                    body.push(self.weight);
                }
                Ok(body)
            }

            fn decode(version: u16, body: &[u8]) -> Result<Self, CodecError> {
                let (text, weight) = match (version, body) {
                    (1, text) => (text, 0),
                    (2, [text @ .., weight]) => (text, *weight),
                    _ => return Err(CodecError::UnsupportedVersion { version }),
                };
                let text = String::from_utf8(text.to_vec()).map_err(CodecError::decode)?;
                Ok(Self { text, weight })
            }
        }
    };
}

release!(A, writes 1, reads 1);
release!(B, writes 1, reads 2);
release!(C, writes 2, reads 2);

macro_rules! write {
    ($dir:expr, $release:ident) => {{
        let path = $dir.path().join(stringify!($release));
        let record = $release {
            text: "moin".to_owned(),
            weight: 7,
        };
        Writer::new()
            .write(&path, &record, Durability::Process)
            .unwrap();
        path
    }};
}

#[test]
fn what_a_release_writes_the_release_before_reads() {
    let dir = tempfile::tempdir().unwrap();
    let (a, b, c) = (write!(dir, A), write!(dir, B), write!(dir, C));
    // Downgrades by one release.
    assert_eq!(read::<A>(b).unwrap().record().unwrap().text, "moin");
    let kept = B {
        text: "moin".to_owned(),
        weight: 7,
    };
    assert_eq!(read::<B>(&c).unwrap().record().unwrap(), kept);
    // Upgrades, also over two releases.
    assert_eq!(
        read::<C>(&a).unwrap().record().unwrap(),
        C {
            text: "moin".to_owned(),
            weight: 0
        }
    );
    // A downgrade over two releases is recognised, and nothing is lost.
    let Loaded::Damaged(damage) = read::<A>(&c).unwrap() else {
        panic!("read")
    };
    assert!(
        matches!(
            damage,
            Damage::Newer {
                version: 2,
                supported: 1
            }
        ),
        "{damage}"
    );
}

#[test]
fn golden_files_of_every_version_are_kept_and_the_rule_is_checked() {
    let c = C {
        text: "moin".to_owned(),
        weight: 7,
    };
    check_golden(golden("example"), &c, 1, "0.3.0").unwrap();
    let b = B {
        text: "moin".to_owned(),
        weight: 0,
    };
    check_golden(golden("example"), &b, 1, "0.2.0").unwrap();
}

#[test]
fn a_release_that_breaks_a_golden_rule_is_told() {
    let c = C {
        text: "moin".to_owned(),
        weight: 7,
    };
    let broken = |oldest, release, sample: &C| {
        check_golden(golden("example"), sample, oldest, release).unwrap_err()
    };
    let changed = broken(
        1,
        "0.3.0",
        &C {
            text: "moon".to_owned(),
            weight: 7,
        },
    );
    assert!(
        changed.contains("a changed body needs a new version"),
        "{changed}"
    );
    assert!(broken(0, "0.3.0", &c).contains("v0.rec was read as Ok(Missing)"));
    assert!(broken(1, "0.4.0", &c).ends_with("releases: add a line \"0.4.0 2\""));
    // Writing version 2 in the release after 0.1.0, which reads version 1 alone.
    let hasty = broken(1, "0.2.0", &c);
    assert!(
        hasty.contains("release 0.1.0 reads up to version 1, but 0.2.0 writes 2"),
        "{hasty}"
    );
}
