//! SELinux: containers of an engine may not use sockets with the wrong label.

use std::path::Path;

use crate::files;
use crate::{Finding, View};

const CHECK: &str = "selinux";
const LABEL: &str = "security.selinux";
/// Longer ones are none.
const LABEL_MAX: usize = 1024;
const TYPE: &str = "container_file_t";

pub(super) fn check(view: &View) -> Vec<Finding> {
    let enforces = files::text(&view.at("/sys/fs/selinux/enforce")).trim() == "1";
    let csi = view.runtime_dir.join("csi");
    if !enforces || !view.at(&csi).is_dir() {
        return Vec::new();
    }
    let label = label(&view.at(&csi)).unwrap_or_else(|| "no label".to_owned());
    if label.contains(TYPE) {
        return Vec::new();
    }
    let shown = csi.display();
    let what = format!(
        "SELinux enforces, and {shown} has {label}: plugins in containers cannot listen there"
    );
    let advice = format!("semanage fcontext -a -t {TYPE} '{shown}(/.*)?' && restorecon -R {shown}");
    vec![Finding::warning(CHECK, what, advice)]
}

/// What the file says of itself (xattr(7)).
fn label(path: &Path) -> Option<String> {
    let mut value = vec![0; LABEL_MAX];
    let length = rustix::fs::getxattr(path, LABEL, &mut value).ok()?;
    let text = String::from_utf8_lossy(&value[..length]);
    Some(text.trim_end_matches('\0').to_owned())
}
