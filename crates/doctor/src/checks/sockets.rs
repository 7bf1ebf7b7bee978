//! The control socket of a daemon that is not there, or that does not answer.

use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};

use crate::{Finding, View};

const CHECK: &str = "sockets";

pub(super) fn check(view: &View) -> Vec<Finding> {
    let path = view.runtime_dir.join("control/control.sock");
    let Ok(found) = std::fs::symlink_metadata(view.at(&path)) else {
        return Vec::new();
    };
    let shown = path.display();
    let mut all = Vec::new();
    if !found.file_type().is_socket() {
        let what = format!("{shown} is no socket");
        let advice = format!("no daemon starts while it is there: rm {shown}");
        return vec![Finding::problem(CHECK, what, advice)];
    }
    if found.mode() & 0o007 != 0 || found.uid() != view.uid {
        let mode = found.mode() & 0o7777;
        let what = format!(
            "{shown} has mode {mode:04o} and belongs to uid {}: whoever gets in is refused, but it was not the daemon who opened it",
            found.uid()
        );
        let advice = "find out who changed it, then start the daemon again, which makes it anew";
        all.push(Finding::problem(CHECK, what, advice));
    }
    if !view.daemon_answers {
        let what = format!("{shown} is there and no daemon answers");
        let advice = "see whether one runs and hangs (`systemctl status longshore`); one that starts replaces the socket";
        all.push(Finding::problem(CHECK, what, advice));
    }
    all
}
