//! An adjustment, put into what a container is made of: each kind is mapped, or refused with plugin and field.
//!
//! The table of what becomes of which member is in `docs/nri.md`.

mod engine;
mod mounts;
mod namespaces;
mod process;
mod seccomp;

pub use engine::engine;
pub use process::process;

use std::collections::BTreeMap;

use longshore_engine::EnvVar;
use longshore_engine::spec::Ulimit;
use longshore_nri_api::{Field, KeyValue, OptionalInt, PosixRlimit, removed_key};

use crate::refusal::at;
use crate::{Judge, Refusal};

/// Variables: removed first, then set. Those that are only removed are told, since an image may have them.
fn env(target: &mut Vec<EnvVar>, wanted: &[KeyValue]) -> Vec<String> {
    let mut removed = Vec::new();
    for name in wanted.iter().filter_map(|entry| removed_key(&entry.key)) {
        target.retain(|variable| variable.name != name);
        removed.push(name.to_owned());
    }
    for entry in wanted
        .iter()
        .filter(|entry| removed_key(&entry.key).is_none())
    {
        target.retain(|variable| variable.name != entry.key);
        removed.retain(|name| *name != entry.key);
        target.push(EnvVar::new(&entry.key, &entry.value));
    }
    removed
}

/// Keys with a dash before them are removed first, then the others are set.
fn keyed(target: &mut BTreeMap<String, String>, wanted: &BTreeMap<String, String>) {
    for key in wanted.keys().filter_map(|key| removed_key(key)) {
        target.remove(key);
    }
    for (key, value) in wanted.iter().filter(|(key, _)| removed_key(key).is_none()) {
        target.insert(key.clone(), value.clone());
    }
}

/// The names of `prlimit(2)` in lower case, without `RLIMIT_`.
const RLIMITS: [&str; 16] = [
    "as",
    "core",
    "cpu",
    "data",
    "fsize",
    "locks",
    "memlock",
    "msgqueue",
    "nice",
    "nofile",
    "nproc",
    "rss",
    "rtprio",
    "rttime",
    "sigpending",
    "stack",
];

/// Each replaces that of its type.
fn rlimits(
    target: &mut Vec<Ulimit>,
    wanted: &[PosixRlimit],
    judge: &Judge<'_>,
) -> Result<(), Refusal> {
    for PosixRlimit { r#type, hard, soft } in wanted {
        let refuse = |why: &str| judge.refuse(at("rlimits", Field::Rlimits), r#type, why);
        let lower = r#type.to_ascii_lowercase();
        let name = lower.strip_prefix("rlimit_").unwrap_or(&lower);
        if !RLIMITS.contains(&name) {
            return Err(refuse("there is no such limit"));
        }
        if soft > hard {
            return Err(refuse("the soft limit is over the hard one"));
        }
        let number = |value: u64| match i64::try_from(value) {
            Ok(value) => Ok(value),
            Err(_) if value == u64::MAX => Ok(-1),
            Err(_) => Err(refuse(
                "it is more than can be counted; all bits set is no limit",
            )),
        };
        let limit = Ulimit {
            name: name.to_owned(),
            soft: number(*soft)?,
            hard: number(*hard)?,
        };
        target.retain(|known| known.name != limit.name);
        target.push(limit);
    }
    Ok(())
}

/// From -1000 to 1000.
fn oom_score(wanted: Option<&OptionalInt>, judge: &Judge<'_>) -> Result<Option<i32>, Refusal> {
    let Some(OptionalInt { value }) = wanted else {
        return Ok(None);
    };
    match i32::try_from(*value) {
        Ok(score) if (-1000..=1000).contains(&score) => Ok(Some(score)),
        _ => {
            let place = at("linux.oom_score_adj", Field::OomScoreAdj);
            Err(judge.refuse(place, value.to_string(), "it is from -1000 to 1000"))
        }
    }
}

#[cfg(test)]
mod tests;
