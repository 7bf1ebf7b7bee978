//! Whether limits can be enforced.

use crate::files;
use crate::{Finding, View};

const CHECK: &str = "cgroups";
const WANTED: [&str; 2] = ["cpu", "memory"];

pub(super) fn check(view: &View) -> Vec<Finding> {
    let mounts = files::text(&view.at("/proc/self/mounts"));
    let mounts = if mounts.is_empty() {
        files::text(&view.at("/proc/mounts"))
    } else {
        mounts
    };
    let mut has = Vec::new();
    for line in mounts.lines() {
        let mut fields = line.split(' ');
        let (Some(_), Some(at), Some(kind), Some(options)) =
            (fields.next(), fields.next(), fields.next(), fields.next())
        else {
            continue;
        };
        match kind {
            "cgroup2" => {
                let text = files::text(&view.at(at).join("cgroup.controllers"));
                has.extend(text.split_whitespace().map(str::to_owned));
            }
            "cgroup" => has.extend(options.split(',').map(str::to_owned)),
            _ => {}
        }
    }
    let missing: Vec<_> = WANTED
        .into_iter()
        .filter(|wanted| !has.iter().any(|it| it == wanted))
        .collect();
    if missing.is_empty() {
        return Vec::new();
    }
    let what = format!(
        "no cgroup controller for {}: limits of plugins are not enforced, and their trees are followed by parents alone",
        missing.join(" and ")
    );
    let advice = "mount cgroup2 at /sys/fs/cgroup, and see that the kernel's command line does not disable the controllers";
    vec![Finding::warning(CHECK, what, advice)]
}
