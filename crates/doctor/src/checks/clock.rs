//! The clock: records and certificates go by it.

use std::time::{Duration, SystemTime};

use crate::files;
use crate::{Finding, View};

const CHECK: &str = "clock";

/// So much ahead is no matter of rounding.
const AHEAD: Duration = Duration::from_secs(60);

pub(super) fn check(view: &View) -> Vec<Finding> {
    let mut all = Vec::new();
    if view.clock_synchronized == Some(false) {
        let what = "nobody keeps this machine's clock right".to_owned();
        let advice =
            "run chrony or systemd-timesyncd; logs of several machines cannot be compared without";
        all.push(Finding::warning(CHECK, what, advice));
    }
    let now = SystemTime::now();
    let ahead = |path: &std::path::PathBuf| {
        let changed = std::fs::symlink_metadata(path).and_then(|meta| meta.modified());
        changed.is_ok_and(|changed| changed.duration_since(now).is_ok_and(|by| by > AHEAD))
    };
    let records = files::directories(&view.at(&view.state_dir), "mounts");
    let mut records = records.iter().flat_map(|dir| files::entries(dir));
    if let Some(record) = records.find(ahead) {
        let what = format!(
            "{} was written in the future: the clock was set back",
            record.display()
        );
        let advice = "ages are wrong until the clock has passed that moment; see who sets it";
        all.push(Finding::warning(CHECK, what, advice));
    }
    all
}
