//! Room on the file system of the records.

use crate::{Finding, Space, View};

const CHECK: &str = "space";

/// Less is a problem: a full disk stops launches.
const BYTES_MIN: u64 = 64 << 20;
const INODES_MIN: u64 = 1_000;
/// Less than one part in so many is a warning.
const PART: u64 = 20;

pub(super) fn check(view: &View) -> Vec<Finding> {
    let Some(space) = view.space else {
        return Vec::new();
    };
    let Space {
        free_bytes,
        total_bytes,
        free_inodes,
        total_inodes,
    } = space;
    let dir = view.state_dir.display();
    let mut all = Vec::new();
    let mut judge = |free: u64, total: u64, least: u64, text: String, advice: &str| {
        if total > 0 && free < least {
            all.push(Finding::problem(CHECK, text, advice));
        } else if total > 0 && free < total / PART {
            all.push(Finding::warning(CHECK, text, advice));
        }
    };
    let text = format!("the file system of {dir} has {} MiB left", free_bytes >> 20);
    let advice =
        "make room: `longshore task rm` of ended tasks, logs of sandboxes, what else lies there";
    judge(free_bytes, total_bytes, BYTES_MIN, text, advice);
    let text = format!("the file system of {dir} has {free_inodes} inodes left");
    let advice = "find the directory with the many small files (`du --inodes -x`) and clear it";
    judge(free_inodes, total_inodes, INODES_MIN, text, advice);
    all
}
