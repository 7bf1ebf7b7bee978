use std::collections::{HashMap, HashSet};
use std::path::PathBuf;

use longshore_nri_api::{
    Hook, Hooks, IoPrioClass, KeyValue, LinuxIoPriority, LinuxScheduler, LinuxSchedulerFlag,
    LinuxSchedulerPolicy, OptionalInt, PosixRlimit, Wrapper,
};
use oci_spec::runtime::{
    Hook as OciHook, IOPriorityClass, LinuxIOPriorityBuilder,
    LinuxSchedulerFlag as OciSchedulerFlag, LinuxSchedulerPolicy as OciSchedulerPolicy,
    PosixRlimit as OciRlimit, PosixRlimitBuilder, PosixRlimitType, Process, Scheduler, Spec,
};

use crate::ApplyError;
use crate::keyed::{Change, change, path, text};

/// The process of the spec, made empty when there is none.
fn part(spec: &mut Spec) -> &mut Process {
    spec.process_mut().get_or_insert_with(|| {
        let mut process = Process::default();
        process
            .set_terminal(None)
            .set_args(None)
            .set_env(None)
            .set_capabilities(None)
            .set_rlimits(None)
            .set_no_new_privileges(None);
        process
    })
}

/// Environment variables keep their place when they get another value; new ones go to the end.
pub(crate) fn env(spec: &mut Spec, env: &[KeyValue]) -> Result<(), ApplyError> {
    const FIELD: &str = "env";
    if env.is_empty() {
        return Ok(());
    }
    let mut gone = HashSet::new();
    let mut added: HashMap<&str, &str> = HashMap::new();
    let mut order = Vec::new();
    for KeyValue { key, value } in env {
        if key.contains('=') {
            return Err(ApplyError::invalid(FIELD, key, "a name has no ="));
        }
        text(FIELD, value)?;
        match change(FIELD, key)? {
            Change::Remove(name) => {
                gone.insert(name);
            }
            Change::Add(name) => {
                if added.insert(name, value).is_none() {
                    order.push(name);
                }
            }
        }
    }
    let process = part(spec);
    let mut next = Vec::new();
    let mut placed = HashSet::new();
    for entry in process.env().iter().flatten() {
        let name = entry
            .split_once('=')
            .map_or(entry.as_str(), |(name, _)| name);
        match added.get_key_value(name) {
            Some((name, value)) => {
                if placed.insert(*name) {
                    next.push(format!("{name}={value}"));
                }
            }
            None if gone.contains(name) => {}
            None => next.push(entry.clone()),
        }
    }
    for name in order {
        if placed.insert(name) {
            next.push(format!("{name}={}", added[name]));
        }
    }
    process.set_env(Some(next));
    Ok(())
}

/// A leading empty argument is the marker of plugins that replace each other's arguments.
pub(crate) fn args(spec: &mut Spec, args: &[String]) -> Result<(), ApplyError> {
    let args = match args {
        [marker, rest @ ..] if marker.is_empty() => rest,
        args => args,
    };
    if args.is_empty() {
        return Ok(());
    }
    for arg in args {
        text("args", arg)?;
    }
    part(spec).set_args(Some(args.to_vec()));
    Ok(())
}

pub(crate) fn hooks(spec: &mut Spec, hooks: Option<&Hooks>) -> Result<(), ApplyError> {
    let Some(hooks) = hooks.filter(|hooks| **hooks != Hooks::default()) else {
        return Ok(());
    };
    let Hooks {
        prestart,
        create_runtime,
        create_container,
        start_container,
        poststart,
        poststop,
    } = hooks;
    let all = spec.hooks_mut().get_or_insert_default();
    append("hooks.prestart", prestart, all.prestart_mut())?;
    append(
        "hooks.create_runtime",
        create_runtime,
        all.create_runtime_mut(),
    )?;
    append(
        "hooks.create_container",
        create_container,
        all.create_container_mut(),
    )?;
    append(
        "hooks.start_container",
        start_container,
        all.start_container_mut(),
    )?;
    append("hooks.poststart", poststart, all.poststart_mut())?;
    append("hooks.poststop", poststop, all.poststop_mut())
}

fn append(
    field: &'static str,
    hooks: &[Hook],
    list: &mut Option<Vec<OciHook>>,
) -> Result<(), ApplyError> {
    for hook in hooks {
        let Hook {
            path: program,
            args,
            env,
            timeout,
        } = hook;
        path(field, program)?;
        for item in args.iter().chain(env) {
            text(field, item)?;
        }
        let timeout = timeout.get();
        if let Some(timeout) = timeout.filter(|timeout| *timeout <= 0) {
            return Err(ApplyError::out_of_range(
                field,
                timeout,
                "1 second and more",
            ));
        }
        let mut hook = OciHook::default();
        hook.set_path(PathBuf::from(program))
            .set_args((!args.is_empty()).then(|| args.clone()))
            .set_env((!env.is_empty()).then(|| env.clone()))
            .set_timeout(timeout);
        list.get_or_insert_default().push(hook);
    }
    Ok(())
}

pub(crate) fn oom_score_adj(
    spec: &mut Spec,
    score: Option<&OptionalInt>,
) -> Result<(), ApplyError> {
    let Some(OptionalInt { value }) = score else {
        return Ok(());
    };
    let score = i32::try_from(*value)
        .ok()
        .filter(|score| (-1000..=1000).contains(score))
        .ok_or_else(|| ApplyError::out_of_range("linux.oom_score_adj", value, "-1000 to 1000"))?;
    part(spec).set_oom_score_adj(Some(score));
    Ok(())
}

/// The class NONE takes the priority away.
pub(crate) fn io_priority(
    spec: &mut Spec,
    priority: Option<&LinuxIoPriority>,
) -> Result<(), ApplyError> {
    const FIELD: &str = "linux.io_priority";
    let Some(LinuxIoPriority { class, priority }) = priority else {
        return Ok(());
    };
    let known = IoPrioClass::try_from(*class).map_err(|_| ApplyError::unknown(FIELD, class))?;
    let class = match known {
        IoPrioClass::IoprioClassNone => {
            if let Some(process) = spec.process_mut() {
                process.set_io_priority(None);
            }
            return Ok(());
        }
        IoPrioClass::IoprioClassRt => IOPriorityClass::IoprioClassRt,
        IoPrioClass::IoprioClassBe => IOPriorityClass::IoprioClassBe,
        IoPrioClass::IoprioClassIdle => IOPriorityClass::IoprioClassIdle,
    };
    if !(0..=7).contains(priority) {
        return Err(ApplyError::out_of_range(FIELD, priority, "0 to 7"));
    }
    let priority = LinuxIOPriorityBuilder::default()
        .class(class)
        .priority(i64::from(*priority))
        .build()
        .map_err(ApplyError::spec(FIELD))?;
    part(spec).set_io_priority(Some(priority));
    Ok(())
}

/// The policy NONE takes the scheduler away. Zeros are not set, as in Go's JSON.
pub(crate) fn scheduler(
    spec: &mut Spec,
    scheduler: Option<&LinuxScheduler>,
) -> Result<(), ApplyError> {
    const FIELD: &str = "linux.scheduler";
    let Some(wanted) = scheduler else {
        return Ok(());
    };
    let LinuxScheduler {
        policy,
        nice,
        priority,
        flags,
        runtime,
        deadline,
        period,
    } = wanted;
    let known =
        LinuxSchedulerPolicy::try_from(*policy).map_err(|_| ApplyError::unknown(FIELD, policy))?;
    let policy = match known {
        LinuxSchedulerPolicy::SchedNone => {
            if let Some(process) = spec.process_mut() {
                process.set_scheduler(None);
            }
            return Ok(());
        }
        LinuxSchedulerPolicy::SchedOther => OciSchedulerPolicy::SchedOther,
        LinuxSchedulerPolicy::SchedFifo => OciSchedulerPolicy::SchedFifo,
        LinuxSchedulerPolicy::SchedRr => OciSchedulerPolicy::SchedRr,
        LinuxSchedulerPolicy::SchedBatch => OciSchedulerPolicy::SchedBatch,
        LinuxSchedulerPolicy::SchedIso => OciSchedulerPolicy::SchedIso,
        LinuxSchedulerPolicy::SchedIdle => OciSchedulerPolicy::SchedIdle,
        LinuxSchedulerPolicy::SchedDeadline => OciSchedulerPolicy::SchedDeadline,
    };
    let flags = flags
        .iter()
        .map(|flag| {
            let known = LinuxSchedulerFlag::try_from(*flag)
                .map_err(|_| ApplyError::unknown("linux.scheduler.flags", flag))?;
            Ok(match known {
                LinuxSchedulerFlag::SchedFlagResetOnFork => OciSchedulerFlag::SchedResetOnFork,
                LinuxSchedulerFlag::SchedFlagReclaim => OciSchedulerFlag::SchedFlagReclaim,
                LinuxSchedulerFlag::SchedFlagDlOverrun => OciSchedulerFlag::SchedFlagDLOverrun,
                LinuxSchedulerFlag::SchedFlagKeepPolicy => OciSchedulerFlag::SchedFlagKeepPolicy,
                LinuxSchedulerFlag::SchedFlagKeepParams => OciSchedulerFlag::SchedFlagKeepParams,
                LinuxSchedulerFlag::SchedFlagUtilClampMin => {
                    OciSchedulerFlag::SchedFlagUtilClampMin
                }
                LinuxSchedulerFlag::SchedFlagUtilClampMax => {
                    OciSchedulerFlag::SchedFlagUtilClampMax
                }
            })
        })
        .collect::<Result<Vec<_>, ApplyError>>()?;
    let mut scheduler = Scheduler::default();
    scheduler
        .set_policy(policy)
        .set_nice(some(*nice))
        .set_priority(some(*priority))
        .set_flags((!flags.is_empty()).then_some(flags))
        .set_runtime(some(*runtime))
        .set_deadline(some(*deadline))
        .set_period(some(*period));
    part(spec).set_scheduler(Some(scheduler));
    Ok(())
}

fn some<T: Default + PartialEq>(value: T) -> Option<T> {
    (value != T::default()).then_some(value)
}

/// A limit replaces that of the same type.
pub(crate) fn rlimits(spec: &mut Spec, rlimits: &[PosixRlimit]) -> Result<(), ApplyError> {
    const FIELD: &str = "rlimits";
    if rlimits.is_empty() {
        return Ok(());
    }
    let process = part(spec);
    let mut next: Vec<OciRlimit> = process.rlimits().clone().unwrap_or_default();
    for PosixRlimit { r#type, hard, soft } in rlimits {
        if soft > hard {
            return Err(ApplyError::invalid(
                FIELD,
                r#type,
                "the soft limit is over the hard one",
            ));
        }
        let rlimit = PosixRlimitBuilder::default()
            .typ(rlimit_type(FIELD, r#type)?)
            .hard(*hard)
            .soft(*soft)
            .build()
            .map_err(ApplyError::spec(FIELD))?;
        let same = |old: &&mut OciRlimit| old.typ() == rlimit.typ();
        match next.iter_mut().find(same) {
            Some(old) => *old = rlimit,
            None => next.push(rlimit),
        }
    }
    process.set_rlimits(Some(next));
    Ok(())
}

/// `RLIMIT_NOFILE`, `nofile` and what lies between are one type.
fn rlimit_type(field: &'static str, name: &str) -> Result<PosixRlimitType, ApplyError> {
    let upper = name.to_ascii_uppercase();
    let full = if upper.starts_with("RLIMIT_") {
        upper
    } else {
        format!("RLIMIT_{upper}")
    };
    full.parse().map_err(|_| ApplyError::unknown(field, name))
}
