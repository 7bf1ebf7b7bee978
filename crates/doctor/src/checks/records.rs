//! Records that were set aside.

use crate::files;
use crate::{Finding, View};

const CHECK: &str = "records";

/// More are counted, not named.
const NAMED: usize = 10;

pub(super) fn check(view: &View) -> Vec<Finding> {
    let mut found = Vec::new();
    for dir in [&view.state_dir, &view.runtime_dir] {
        // What is mounted below a plugin's mount root is not ours.
        for dir in files::directories(&view.at(dir), "mounts") {
            found.extend(longshore_checkpoint::set_aside_in(&dir).unwrap_or_default());
        }
    }
    found.sort();
    let more = found.len().saturating_sub(NAMED);
    let mut all: Vec<_> = found
        .iter()
        .take(NAMED)
        .map(|path| {
            let why = match longshore_checkpoint::judge(path) {
                Ok(Some(judgement)) => judgement.to_string(),
                Ok(None) => "nothing is wrong with it".to_owned(),
                Err(error) => error.to_string(),
            };
            let what = format!("{} was set aside: {why}", path.display());
            let advice = "nothing reads it any more: look at it, keep a copy where it matters, then delete it";
            Finding::warning(CHECK, what, advice)
        })
        .collect();
    if more > 0 {
        let what = format!("{more} more records were set aside");
        all.push(Finding::warning(
            CHECK,
            what,
            "delete those above and look again",
        ));
    }
    all
}
