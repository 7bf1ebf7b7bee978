//! The group that may use the control socket: `control_group`.

use super::problems::Problems;

/// A group of this machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ControlGroup {
    /// As it is written.
    pub name: String,
    /// Its number.
    pub gid: u32,
}

/// The group; what is not acceptable is noted. A daemon of another user than root keeps its sockets in a directory that nobody
/// else gets into.
pub(super) fn group(
    name: Option<&str>,
    uid: u32,
    problems: &mut Problems<'_>,
) -> Option<ControlGroup> {
    let name = name?;
    if uid != 0 {
        let message = "only a daemon of root can let a group in; leave it out";
        problems.note("control_group", message);
        return None;
    }
    match nix::unistd::Group::from_name(name) {
        Ok(Some(group)) => Some(ControlGroup {
            name: name.to_owned(),
            gid: group.gid.as_raw(),
        }),
        Ok(None) => {
            let message =
                format!("there is no group `{name}`; make it with `groupadd --system {name}`");
            problems.note("control_group", message);
            None
        }
        Err(error) => {
            let message = format!("the group `{name}` cannot be looked up: {error}");
            problems.note("control_group", message);
            None
        }
    }
}
