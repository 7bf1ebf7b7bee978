use std::path::PathBuf;
use std::str::FromStr;

use longshore_nri_api::{LinuxSeccomp, LinuxSeccompArg, LinuxSyscall, Wrapper};
use oci_spec::runtime::{
    LinuxSeccomp as OciSeccomp, LinuxSeccompArg as OciArg, LinuxSeccompArgBuilder,
    LinuxSeccompOperator, LinuxSyscall as OciSyscall,
};

use crate::ApplyError;
use crate::keyed::text;

/// The policy, in the types of the OCI spec.
pub(crate) fn policy(policy: &LinuxSeccomp) -> Result<OciSeccomp, ApplyError> {
    let LinuxSeccomp {
        default_action,
        default_errno,
        architectures,
        flags,
        listener_path,
        listener_metadata,
        syscalls,
    } = policy;
    text("linux.seccomp_policy.listener_path", listener_path)?;
    let syscalls = syscalls
        .iter()
        .map(syscall)
        .collect::<Result<Vec<_>, _>>()?;
    let mut seccomp = OciSeccomp::default();
    seccomp
        .set_default_action(parse(
            "linux.seccomp_policy.default_action",
            default_action,
        )?)
        .set_default_errno_ret(default_errno.get())
        .set_architectures(list("linux.seccomp_policy.architectures", architectures)?)
        .set_flags(list("linux.seccomp_policy.flags", flags)?)
        .set_listener_path(some(listener_path).map(PathBuf::from))
        .set_listener_metadata(some(listener_metadata))
        .set_syscalls((!syscalls.is_empty()).then_some(syscalls));
    Ok(seccomp)
}

fn syscall(syscall: &LinuxSyscall) -> Result<OciSyscall, ApplyError> {
    let LinuxSyscall {
        names,
        action,
        errno_ret,
        args,
    } = syscall;
    for name in names {
        text("linux.seccomp_policy.syscalls.names", name)?;
    }
    let args = args.iter().map(arg).collect::<Result<Vec<_>, _>>()?;
    let mut syscall = OciSyscall::default();
    syscall
        .set_names(names.clone())
        .set_action(parse("linux.seccomp_policy.syscalls.action", action)?)
        .set_errno_ret(errno_ret.get())
        .set_args((!args.is_empty()).then_some(args));
    Ok(syscall)
}

fn arg(arg: &LinuxSeccompArg) -> Result<OciArg, ApplyError> {
    const FIELD: &str = "linux.seccomp_policy.syscalls.args";
    let LinuxSeccompArg {
        index,
        value,
        value_two,
        op,
    } = arg;
    // A system call has six arguments.
    let position = usize::try_from(*index)
        .ok()
        .filter(|index| *index < 6)
        .ok_or_else(|| ApplyError::out_of_range(FIELD, index, "0 to 5"))?;
    let op: LinuxSeccompOperator = parse(FIELD, op)?;
    let built = LinuxSeccompArgBuilder::default()
        .index(position)
        .value(*value)
        .op(op);
    // Zero is a value only where the operator has two of them.
    let built = if *value_two != 0 || op == LinuxSeccompOperator::ScmpCmpMaskedEq {
        built.value_two(*value_two)
    } else {
        built
    };
    built.build().map_err(ApplyError::spec(FIELD))
}

fn parse<T: FromStr>(field: &'static str, name: &str) -> Result<T, ApplyError> {
    name.parse().map_err(|_| ApplyError::unknown(field, name))
}

fn list<T: FromStr>(field: &'static str, names: &[String]) -> Result<Option<Vec<T>>, ApplyError> {
    let values = names
        .iter()
        .map(|name| parse(field, name))
        .collect::<Result<Vec<T>, _>>()?;
    Ok((!values.is_empty()).then_some(values))
}

fn some(text: &str) -> Option<String> {
    (!text.is_empty()).then(|| text.to_owned())
}
