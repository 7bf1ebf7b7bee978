//! From a request to what the shim does: what is asked for, checked against what this host and a
//! process container can do. Nothing is silently left out: it is done, refused or reported.

use std::ffi::CString;
use std::path::{Component, Path, PathBuf};

use longshore_mesos_api::v1::{
    CommandInfo, ContainerInfo, Volume, container_info, environment, mount_propagation,
    r_limit_info, value, volume,
};

use crate::cgroup::{self, Wanted};
use crate::check::Part;
use crate::record::{MountSpec, Mounts, Program, Rlimit, User};
use crate::service::{LaunchError, LaunchErrorKind, LaunchRequest};

#[cfg(test)]
mod tests;

/// What a container's PATH is when its command gives none (a Mesos agent's own default).
const DEFAULT_PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
const MIB: f64 = 1_048_576.0;

/// What this process may do.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Rights {
    /// The own effective uid; 0 may switch users and mount.
    pub uid: u32,
}

/// A checked request.
#[derive(Debug, PartialEq)]
pub(crate) struct Plan {
    pub program: Program,
    pub environment: Vec<(String, String)>,
    pub user: Option<User>,
    pub rlimits: Vec<Rlimit>,
    pub mounts: Mounts,
    /// Host directories that must exist, each with the volume that wants it.
    pub directories: Vec<PathBuf>,
    pub wanted: Wanted,
    pub unenforced: Vec<String>,
}

/// Checks a request. `sandbox` is the absolute path of the sandbox. Looks users up, so it may block.
///
/// # Errors
/// With the text of the answer.
pub(crate) fn plan(
    request: &LaunchRequest,
    sandbox: &Path,
    rights: Rights,
) -> Result<Plan, LaunchError> {
    plan_by_part(request, sandbox, rights).map_err(|(_, error)| error)
}

/// The same, with the part of the request that an error is about.
pub(crate) fn plan_by_part(
    request: &LaunchRequest,
    sandbox: &Path,
    rights: Rights,
) -> Result<Plan, (Part, LaunchError)> {
    fn of<T>(part: Part, result: Result<T, LaunchError>) -> Result<T, (Part, LaunchError)> {
        result.map_err(|error| (part, error))
    }
    let command = request.command.as_ref();
    let container = request.container.as_ref();
    if let Some(container) = container {
        of(Part::Container, refuse_unsupported(container))?;
    }
    if command.is_some_and(|command| !command.uris.is_empty()) {
        let error = bad("URIs are not supported: this agent has no fetcher");
        return Err((Part::Command, error));
    }
    let mut unenforced = Vec::new();
    let wanted = resources(request, &mut unenforced);
    let (mounts, directories) = of(Part::Volumes, volumes(container, rights, &mut unenforced))?;
    Ok(Plan {
        program: of(Part::Command, program(command))?,
        environment: of(Part::Environment, environment(command, sandbox))?,
        user: of(Part::User, user(command, rights))?,
        rlimits: of(Part::Container, rlimits(container))?,
        mounts,
        directories,
        wanted,
        unenforced,
    })
}

fn bad(message: impl Into<String>) -> LaunchError {
    LaunchError {
        kind: LaunchErrorKind::BadRequest,
        message: message.into(),
    }
}

fn refuse_unsupported(container: &ContainerInfo) -> Result<(), LaunchError> {
    if container.r#type() == container_info::Type::Docker {
        return Err(bad(
            "The provided ContainerInfo is not supported: containers of type DOCKER need an engine, and \
             this agent has none; it runs process containers (type MESOS without an image)",
        ));
    }
    if let Some(image) = container
        .mesos
        .as_ref()
        .and_then(|mesos| mesos.image.as_ref())
    {
        return Err(bad(format!(
            "Unsupported container image type: {}: this agent has no engine, and runs process containers only",
            image.r#type().as_str_name()
        )));
    }
    let linux = container.linux_info.as_ref();
    #[expect(
        deprecated,
        reason = "a client may still ask for it, and must not be ignored"
    )]
    let capabilities = linux.is_some_and(|linux| {
        linux.capability_info.is_some()
            || linux.bounding_capabilities.is_some()
            || linux.effective_capabilities.is_some()
    });
    let unsupported = [
        ("hostname", container.hostname.is_some()),
        ("network_infos", !container.network_infos.is_empty()),
        ("tty_info", container.tty_info.is_some()),
        ("linux_info capabilities", capabilities),
        (
            "linux_info.seccomp",
            linux.is_some_and(|linux| linux.seccomp.is_some()),
        ),
        (
            "linux_info.share_pid_namespace = false",
            linux.is_some_and(|linux| linux.share_pid_namespace == Some(false)),
        ),
        (
            "linux_info.ipc_mode",
            linux.is_some_and(|linux| linux.ipc_mode.is_some_and(|mode| mode != 0)),
        ),
        (
            "linux_info.shm_size",
            linux.is_some_and(|linux| linux.shm_size.is_some()),
        ),
    ];
    match unsupported.into_iter().find(|(_, asked)| *asked) {
        Some((what, _)) => Err(bad(format!(
            "The provided ContainerInfo is not supported: {what} cannot be given to a process \
             container of this agent"
        ))),
        None => Ok(()),
    }
}

fn program(command: Option<&CommandInfo>) -> Result<Program, LaunchError> {
    // The defaults of a command: shell, and nothing to run.
    let shell = command.is_none_or(|command| command.shell.unwrap_or(true));
    let value = command.and_then(|command| command.value.clone());
    let program = match (value, shell) {
        (None, true) => Program::Missing("Shell command is not specified".to_owned()),
        (None, false) => Program::Missing("Executable is not specified".to_owned()),
        (Some(value), true) => Program::Shell(value),
        (Some(file), false) => {
            let mut arguments = command
                .map(|command| command.arguments.clone())
                .unwrap_or_default();
            if arguments.is_empty() {
                // A program without even a name for itself is of no use to anybody.
                arguments.push(file.clone());
            }
            Program::Exec { file, arguments }
        }
    };
    let nul = match &program {
        Program::Missing(_) => false,
        Program::Shell(text) => text.contains('\0'),
        Program::Exec { file, arguments } => {
            file.contains('\0') || arguments.iter().any(|argument| argument.contains('\0'))
        }
    };
    if nul {
        Err(bad("The command holds a NUL byte"))
    } else {
        Ok(program)
    }
}

fn environment(
    command: Option<&CommandInfo>,
    sandbox: &Path,
) -> Result<Vec<(String, String)>, LaunchError> {
    let sandbox = sandbox.to_string_lossy().into_owned();
    let mut all = vec![
        ("PATH".to_owned(), DEFAULT_PATH.to_owned()),
        ("MESOS_SANDBOX".to_owned(), sandbox.clone()),
        ("PWD".to_owned(), sandbox),
    ];
    let given = command
        .and_then(|command| command.environment.as_ref())
        .map(|environment| environment.variables.as_slice())
        .unwrap_or_default();
    for variable in given {
        let name = &variable.name;
        if variable.r#type() != environment::variable::Type::Value {
            return Err(bad(format!(
                "Environment variable '{name}' of type '{}' is not supported: this agent has no \
                 secret resolver",
                variable.r#type().as_str_name()
            )));
        }
        let value = variable.value.clone().unwrap_or_default();
        if name.is_empty() || name.contains(['=', '\0']) || value.contains('\0') {
            return Err(bad(format!(
                "Environment variable '{}' is malformed",
                name.escape_debug()
            )));
        }
        match all.iter_mut().find(|(known, _)| known == name) {
            Some((_, old)) => *old = value,
            None => all.push((name.clone(), value)),
        }
    }
    Ok(all)
}

fn user(command: Option<&CommandInfo>, rights: Rights) -> Result<Option<User>, LaunchError> {
    let Some(name) = command.and_then(|command| command.user.as_deref()) else {
        return Ok(None);
    };
    let unknown = || LaunchError {
        kind: LaunchErrorKind::Internal,
        message: format!(
            "Failed to create sandbox: Failed to chown directory to '{name}': No such user '{name}'"
        ),
    };
    let known = match nix::unistd::User::from_name(name) {
        Ok(Some(user)) => Some(user),
        Ok(None) => match name.parse().map(nix::unistd::Uid::from_raw) {
            Ok(uid) => nix::unistd::User::from_uid(uid).ok().flatten(),
            Err(_) => return Err(unknown()),
        },
        Err(error) => {
            return Err(LaunchError {
                kind: LaunchErrorKind::Internal,
                message: format!("Failed to look up the user '{name}': {}", error.desc()),
            });
        }
    };
    let user = match known {
        Some(known) => {
            let groups = CString::new(known.name.as_str())
                .ok()
                .and_then(|name| nix::unistd::getgrouplist(&name, known.gid).ok())
                .unwrap_or_else(|| vec![known.gid]);
            User {
                uid: known.uid.as_raw(),
                gid: known.gid.as_raw(),
                groups: groups.into_iter().map(nix::unistd::Gid::as_raw).collect(),
            }
        }
        None => {
            // A bare number that no database knows: that uid and the gid of the same number.
            let uid = name.parse().map_err(|_| unknown())?;
            User {
                uid,
                gid: uid,
                groups: vec![uid],
            }
        }
    };
    if rights.uid == user.uid {
        // Nothing to switch for an ordinary user; root must still take on root's own groups.
        return Ok((rights.uid == 0).then_some(user));
    }
    if rights.uid != 0 {
        return Err(bad(format!(
            "Cannot run as the user '{name}': this agent is not root but uid {}",
            rights.uid
        )));
    }
    Ok(Some(user))
}

fn rlimits(container: Option<&ContainerInfo>) -> Result<Vec<Rlimit>, LaunchError> {
    use nix::sys::resource::Resource;
    use r_limit_info::r_limit::Type;

    let given = container
        .and_then(|container| container.rlimit_info.as_ref())
        .map(|info| info.rlimits.as_slice())
        .unwrap_or_default();
    let mut limits = Vec::with_capacity(given.len());
    for limit in given {
        let resource = match limit.r#type() {
            Type::RlmtAs => Resource::RLIMIT_AS,
            Type::RlmtCore => Resource::RLIMIT_CORE,
            Type::RlmtCpu => Resource::RLIMIT_CPU,
            Type::RlmtData => Resource::RLIMIT_DATA,
            Type::RlmtFsize => Resource::RLIMIT_FSIZE,
            Type::RlmtLocks => Resource::RLIMIT_LOCKS,
            Type::RlmtMemlock => Resource::RLIMIT_MEMLOCK,
            Type::RlmtMsgqueue => Resource::RLIMIT_MSGQUEUE,
            Type::RlmtNice => Resource::RLIMIT_NICE,
            Type::RlmtNofile => Resource::RLIMIT_NOFILE,
            Type::RlmtNproc => Resource::RLIMIT_NPROC,
            Type::RlmtRss => Resource::RLIMIT_RSS,
            Type::RlmtRtprio => Resource::RLIMIT_RTPRIO,
            Type::RlmtRttime => Resource::RLIMIT_RTTIME,
            Type::RlmtSigpending => Resource::RLIMIT_SIGPENDING,
            Type::RlmtStack => Resource::RLIMIT_STACK,
            Type::Unknown => return Err(bad("Unknown resource limit type")),
        };
        let name = limit.r#type().as_str_name();
        let (soft, hard) = match (limit.soft, limit.hard) {
            (None, None) => (u64::MAX, u64::MAX),
            (Some(soft), Some(hard)) if soft <= hard => (soft, hard),
            (Some(_), Some(_)) => return Err(bad(format!("{name}: soft is over hard"))),
            _ => {
                return Err(bad(format!(
                    "{name}: soft and hard are given both or not at all"
                )));
            }
        };
        limits.push(Rlimit {
            resource: resource as u32,
            soft,
            hard,
        });
    }
    Ok(limits)
}

pub(super) fn resources(request: &LaunchRequest, unenforced: &mut Vec<String>) -> Wanted {
    let mut cpus: Option<f64> = None;
    let mut mem: Option<f64> = None;
    for resource in &request.resources {
        let scalar = resource.scalar.as_ref().map_or(0.0, |scalar| scalar.value);
        match resource.name.as_str() {
            "cpus" => cpus = Some(cpus.unwrap_or_default() + scalar),
            "mem" => mem = Some(mem.unwrap_or_default() + scalar),
            other => {
                let reason = format!("{other}: this agent limits cpus and mem only");
                if !unenforced.contains(&reason) {
                    unenforced.push(reason);
                }
            }
        }
    }
    let limit = |name: &str| {
        request
            .limits
            .get(name)
            .map(|scalar: &value::Scalar| scalar.value)
    };
    for other in request
        .limits
        .keys()
        .filter(|name| !matches!(name.as_str(), "cpus" | "mem"))
    {
        unenforced.push(format!("{other}: this agent limits cpus and mem only"));
    }
    let bytes = |mib: f64| cgroup::whole(mib * MIB);
    let mem_limit = limit("mem").or(mem).filter(|limit| limit.is_finite());
    Wanted {
        cpus: cpus.filter(|cpus| cpus.is_finite()),
        cpus_limit: limit("cpus").filter(|limit| limit.is_finite()),
        mem: mem.filter(|mem| mem.is_finite()).map(bytes),
        mem_limit: mem_limit.map(bytes),
    }
}

fn volumes(
    container: Option<&ContainerInfo>,
    rights: Rights,
    unenforced: &mut Vec<String>,
) -> Result<(Mounts, Vec<PathBuf>), LaunchError> {
    let given = container
        .map(|container| container.volumes.as_slice())
        .unwrap_or_default();
    let mut same = Vec::new();
    let mut mounted = Vec::new();
    let mut directories = Vec::new();
    for volume in given {
        let (source, shared) = host_path(volume)?;
        let target = plain(volume, &volume.container_path)?;
        let read_only = volume.mode() == volume::Mode::Ro;
        directories.push(source.clone());
        let spec = MountSpec {
            source,
            target,
            read_only,
            shared,
        };
        if spec.source == spec.target {
            same.push(spec);
        } else {
            mounted.push(spec);
        }
    }
    if mounted.is_empty() {
        for spec in same.iter().filter(|spec| spec.read_only) {
            let path = spec.source.display();
            unenforced.push(format!(
                "volume {path}: the same path on both sides is not mounted, so it is not read-only"
            ));
        }
        return Ok((Mounts::default(), directories));
    }
    if rights.uid != 0 {
        return Err(bad(format!(
            "The volume {} cannot be mounted at {}: this agent is not root; without root a volume \
             needs the same path on both sides",
            mounted[0].source.display(),
            mounted[0].target.display()
        )));
    }
    // In a namespace of its own even a volume with the same path on both sides must be attached
    // where it is, if what is mounted below it shall reach the host.
    let list = same
        .into_iter()
        .filter(|spec| spec.shared || spec.read_only)
        .chain(mounted)
        .collect();
    Ok((
        Mounts {
            namespace: true,
            list,
        },
        directories,
    ))
}

/// The host path of a volume, and whether mounts below it go both ways.
pub(super) fn host_path(volume: &Volume) -> Result<(PathBuf, bool), LaunchError> {
    let unsupported = |what: &str| {
        bad(format!(
            "The volume {} is not supported: {what}; give it a host path",
            volume.container_path
        ))
    };
    if volume.image.is_some() {
        return Err(unsupported("it is an image"));
    }
    if let Some(path) = &volume.host_path {
        return Ok((absolute(volume, path)?, false));
    }
    let Some(source) = &volume.source else {
        return Err(unsupported("it has no source"));
    };
    match (source.r#type(), &source.host_path) {
        (volume::source::Type::HostPath, Some(host)) => {
            let mode = host
                .mount_propagation
                .as_ref()
                .map(|propagation| propagation.mode());
            let shared = mode == Some(mount_propagation::Mode::Bidirectional);
            Ok((absolute(volume, &host.path)?, shared))
        }
        (kind, _) => Err(unsupported(&format!(
            "its source is {}",
            kind.as_str_name()
        ))),
    }
}

fn absolute(volume: &Volume, path: &str) -> Result<PathBuf, LaunchError> {
    let path = plain(volume, path)?;
    if path.is_absolute() {
        return Ok(path);
    }
    Err(bad(format!(
        "The volume {} is not supported: its host path '{}' is not absolute",
        volume.container_path,
        path.display()
    )))
}

/// A path without `.`, `..`, doubled slashes or NUL.
fn plain(volume: &Volume, text: &str) -> Result<PathBuf, LaunchError> {
    let path = Path::new(text);
    let bad_component = path
        .components()
        .any(|component| component == Component::ParentDir);
    let plain: PathBuf = path
        .components()
        .filter(|component| *component != Component::CurDir)
        .collect();
    if bad_component || text.contains('\0') || plain.file_name().is_none() {
        return Err(bad(format!(
            "The volume {} is invalid: '{}' is no path of a volume",
            volume.container_path.escape_debug(),
            text.escape_debug()
        )));
    }
    Ok(plain)
}
