//! Owner and mode of the state and the runtime directory.

use std::fs::Metadata;
use std::os::unix::fs::MetadataExt as _;

use crate::{Finding, View};

const CHECK: &str = "directories";

pub(super) fn check(view: &View) -> Vec<Finding> {
    let runtime = if view.uid == 0 { 0o711 } else { 0o700 };
    [
        ("state_dir", &view.state_dir, 0o700),
        ("runtime_dir", &view.runtime_dir, runtime),
    ]
    .into_iter()
    .filter_map(|(key, dir, mode)| {
        let shown = dir.display();
        match std::fs::metadata(view.at(dir)) {
            Ok(found) => {
                let (what, advice) = wrong(&found, view.uid, mode, &shown.to_string())?;
                let text = format!("{key} {shown} {what}");
                Some(Finding::problem(CHECK, text, advice))
            }
            // A daemon makes it.
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => None,
            Err(error) => {
                let text = format!("{key} {shown} cannot be looked at: {error}");
                let advice = "run this as the user whom the daemon runs as";
                Some(Finding::problem(CHECK, text, advice))
            }
        }
    })
    .collect()
}

fn wrong(found: &Metadata, uid: u32, mode: u32, shown: &str) -> Option<(String, String)> {
    let has = found.mode() & 0o7777;
    if !found.is_dir() {
        let advice = format!("move {shown} away");
        return Some(("is not a directory".to_owned(), advice));
    }
    if found.uid() != uid {
        let what = format!(
            "belongs to uid {}, and the daemon is uid {uid}",
            found.uid()
        );
        return Some((what, format!("chown {uid} {shown}")));
    }
    // Less is as good; more lets others in.
    (has & !mode & 0o077 != 0).then(|| {
        let what = format!("has mode {has:04o}: others get in");
        (what, format!("chmod {mode:04o} {shown}"))
    })
}
