//! Whoever deletes old files where ours lie: tmpfiles.d(5), tmpwatch.

use std::collections::BTreeMap;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use crate::files;
use crate::{Finding, View};

const CHECK: &str = "cleaners";

/// A file hides those of the same name in later directories.
const RULES: [&str; 3] = ["/etc/tmpfiles.d", "/run/tmpfiles.d", "/usr/lib/tmpfiles.d"];
const OTHERS: [&str; 2] = ["/etc/cron.daily/tmpwatch", "/etc/cron.daily/tmpreaper"];

pub(super) fn check(view: &View) -> Vec<Finding> {
    let mut named = BTreeMap::new();
    for dir in RULES {
        for path in files::entries(&view.at(dir)) {
            let name = path.file_name().unwrap_or_default().to_owned();
            if path.extension().is_some_and(|ending| ending == "conf") {
                named.entry(name).or_insert(path);
            }
        }
    }
    let rules: Vec<_> = named
        .values()
        .flat_map(|file| rules(&files::text(file), file))
        .collect();
    let mut all = Vec::new();
    for (key, dir) in [
        ("state_dir", &view.state_dir),
        ("runtime_dir", &view.runtime_dir),
    ] {
        let spared = rules.iter().any(|rule| rule.spares && rule.is_about(dir));
        let cleaner = rules.iter().find(|rule| rule.cleans && rule.is_about(dir));
        if let (false, Some(rule)) = (spared, cleaner) {
            let what = format!(
                "{} deletes what is old below {}, and {key} is {}",
                rule.file.display(),
                rule.path.display(),
                dir.display()
            );
            let advice = format!(
                "put {key} elsewhere, or spare it: echo 'x {}' > /etc/tmpfiles.d/longshore.conf",
                dir.display()
            );
            all.push(Finding::problem(CHECK, what, advice));
        }
        let in_tmp = dir.starts_with("/tmp") || dir.starts_with("/var/tmp");
        for other in OTHERS.iter().filter(|_| in_tmp) {
            if view.at(other).exists() {
                let what = format!("{other} deletes what is old in {key} {}", dir.display());
                all.push(Finding::problem(
                    CHECK,
                    what,
                    format!("put {key} elsewhere"),
                ));
            }
        }
    }
    all
}

struct Rule {
    file: PathBuf,
    path: PathBuf,
    /// With an age: old files go.
    cleans: bool,
    /// `x`, or `X` on the directory itself.
    spares: bool,
}

impl Rule {
    /// Whether the directory, or one above it, is what the rule names: a path whose parts may be patterns (glob(7)).
    fn is_about(&self, dir: &Path) -> bool {
        let mut parts = dir.components();
        self.path.components().all(|wanted| {
            let part = parts.next().map(|part| part.as_os_str().as_bytes());
            part.is_some_and(|part| fits(wanted.as_os_str().as_bytes(), part))
        })
    }
}

/// A set of characters counts as any: it is better to name one rule too many.
fn fits(pattern: &[u8], text: &[u8]) -> bool {
    match pattern {
        [] => text.is_empty(),
        [b'*', rest @ ..] => (0..=text.len()).any(|skipped| fits(rest, &text[skipped..])),
        [b'[', rest @ ..] if rest.contains(&b']') => {
            let end = rest.iter().position(|byte| *byte == b']');
            !text.is_empty() && fits(&rest[end.unwrap_or_default() + 1..], &text[1..])
        }
        [b'?', rest @ ..] => !text.is_empty() && fits(rest, &text[1..]),
        [byte, rest @ ..] => text.first() == Some(byte) && fits(rest, &text[1..]),
    }
}

/// A line is: type, path, mode, user, group, age, argument.
fn rules(text: &str, file: &Path) -> Vec<Rule> {
    let lines = text.lines().map(str::trim);
    lines
        .filter(|line| !line.starts_with('#'))
        .filter_map(|line| {
            let fields: Vec<_> = line.split_whitespace().collect();
            let (kind, path) = (fields.first()?, fields.get(1)?);
            let age = fields.get(5).is_some_and(|age| *age != "-");
            Some(Rule {
                file: file.to_owned(),
                path: path.into(),
                cleans: age && kind.starts_with(['d', 'D', 'e', 'v', 'q', 'Q', 'C']),
                spares: kind.starts_with(['x', 'X']),
            })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_fit_part_by_part() {
        let about = |pattern: &str, dir: &str| {
            let rules = rules(&format!("e {pattern} - - - 1d"), Path::new("f"));
            rules[0].is_about(Path::new(dir))
        };
        for pattern in [
            "/run",
            "/run/",
            "/run/longshore",
            "/r?n",
            "/run/long*",
            "/*",
            "/run/*",
            "/run/[a-m]ong*e",
        ] {
            assert!(about(pattern, "/run/longshore"), "{pattern}");
        }
        for pattern in [
            "/run/longshore/csi",
            "/ru",
            "/run/long",
            "/run/x*",
            "/tmp/*",
            "/run/longshore?",
            "/run/[",
        ] {
            assert!(!about(pattern, "/run/longshore"), "{pattern}");
        }
    }
}
