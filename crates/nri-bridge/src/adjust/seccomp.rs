//! A seccomp policy as the profile that an engine takes in its security options.

use longshore_engine::ContainerSpec;
use longshore_nri_api::{LinuxSeccomp, LinuxSeccompArg, LinuxSyscall, Wrapper};
use serde_json::{Map, Value, json};

/// In place of the one it has.
pub(super) fn engine(spec: &mut ContainerSpec, policy: &LinuxSeccomp) {
    let is_seccomp =
        |option: &String| option.starts_with("seccomp=") || option.starts_with("seccomp:");
    spec.security_options.retain(|option| !is_seccomp(option));
    spec.security_options
        .push(format!("seccomp={}", profile(policy)));
}

fn profile(policy: &LinuxSeccomp) -> Value {
    let LinuxSeccomp {
        default_action,
        default_errno,
        architectures,
        flags,
        listener_path,
        listener_metadata,
        syscalls,
    } = policy;
    let mut profile = Map::new();
    profile.insert("defaultAction".to_owned(), json!(default_action));
    if let Some(errno) = default_errno.get() {
        profile.insert("defaultErrnoRet".to_owned(), json!(errno));
    }
    for (name, list) in [("architectures", architectures), ("flags", flags)] {
        if !list.is_empty() {
            profile.insert(name.to_owned(), json!(list));
        }
    }
    for (name, text) in [
        ("listenerPath", listener_path),
        ("listenerMetadata", listener_metadata),
    ] {
        if !text.is_empty() {
            profile.insert(name.to_owned(), json!(text));
        }
    }
    let syscalls: Vec<Value> = syscalls.iter().map(syscall).collect();
    profile.insert("syscalls".to_owned(), Value::Array(syscalls));
    Value::Object(profile)
}

fn syscall(syscall: &LinuxSyscall) -> Value {
    let LinuxSyscall {
        names,
        action,
        errno_ret,
        args,
    } = syscall;
    let mut rule = Map::new();
    rule.insert("names".to_owned(), json!(names));
    rule.insert("action".to_owned(), json!(action));
    if let Some(errno) = errno_ret.get() {
        rule.insert("errnoRet".to_owned(), json!(errno));
    }
    let args: Vec<Value> = args
        .iter()
        .map(|arg| {
            let LinuxSeccompArg {
                index,
                value,
                value_two,
                op,
            } = arg;
            json!({"index": index, "value": value, "valueTwo": value_two, "op": op})
        })
        .collect();
    if !args.is_empty() {
        rule.insert("args".to_owned(), Value::Array(args));
    }
    Value::Object(rule)
}
