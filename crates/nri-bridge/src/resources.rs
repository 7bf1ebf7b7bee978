//! Resources, as NRI has them and as engines do.

use longshore_engine::Resources;
use longshore_nri_api::{
    Field, HugepageLimit, LinuxCpu, LinuxDeviceCgroup, LinuxMemory, LinuxPids, LinuxResources,
    Wrapper,
};

use crate::refusal::at;
use crate::{Judge, Refusal};

/// The period that is meant where a limit of processors has none, in microseconds.
const PERIOD: u64 = 100_000;
/// Billionths of a processor.
const NANO: u64 = 1_000_000_000;

/// Whether the container runs already: an engine changes less of it then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum When {
    /// It is to be made.
    Creation,
    /// It is there.
    Update,
}

/// An engine's resources as NRI shows them. What NRI has no word for is left out: devices and limits of processes have
/// members of their own, GPUs and block I/O weights none.
#[must_use]
pub fn to_nri(resources: &Resources) -> LinuxResources {
    let signed = |value: u64| i64::try_from(value).unwrap_or(i64::MAX).into();
    let (quota, period) = processors(resources);
    LinuxResources {
        memory: Some(LinuxMemory {
            limit: resources.memory.map(signed),
            reservation: resources.memory_reservation.map(signed),
            swap: resources.memory_swap.map(Into::into),
            swappiness: resources.memory_swappiness.map(|it| u64::from(it).into()),
            disable_oom_killer: resources.oom_kill_disable.map(Into::into),
            ..LinuxMemory::default()
        }),
        cpu: Some(LinuxCpu {
            shares: resources.cpu_shares.map(Into::into),
            quota: quota.map(Into::into),
            period: period.map(Into::into),
            realtime_runtime: resources.cpu_realtime_runtime.map(signed),
            realtime_period: resources.cpu_realtime_period.map(Into::into),
            cpus: resources.cpuset_cpus.clone().unwrap_or_default(),
            mems: resources.cpuset_mems.clone().unwrap_or_default(),
        }),
        pids: resources.pids_limit.map(|limit| LinuxPids { limit }),
        ..LinuxResources::default()
    }
}

/// Quota and period, also where processors are given.
fn processors(resources: &Resources) -> (Option<i64>, Option<u64>) {
    match resources.nano_cpus.filter(|cpus| *cpus > 0) {
        Some(cpus) => {
            let quota = u128::from(cpus) * u128::from(PERIOD) / u128::from(NANO);
            (Some(i64::try_from(quota).unwrap_or(i64::MAX)), Some(PERIOD))
        }
        None => (resources.cpu_quota, resources.cpu_period),
    }
}

/// Changes an engine's resources to what plugins want; what they do not mention, and what they leave as it is, stays.
///
/// A limit of memory without one of swap sets that to the same, as Go's runtime tools do: no swap.
///
/// # Errors
/// [`Refusal`]; `target` may be half changed then.
pub fn apply(
    target: &mut Resources,
    wanted: &LinuxResources,
    judge: &Judge<'_>,
    when: When,
) -> Result<(), Refusal> {
    let LinuxResources {
        memory,
        cpu,
        hugepage_limits,
        blockio_class,
        rdt_class,
        unified,
        devices,
        pids,
    } = wanted;
    if let Some(wanted) = memory {
        apply_memory(target, wanted, judge, when)?;
    }
    if let Some(wanted) = cpu {
        apply_cpu(target, wanted, judge)?;
    }
    if let Some(HugepageLimit { page_size, .. }) = hugepage_limits.first() {
        let place = at("linux.resources.hugepage_limits", Field::HugepageLimits);
        let why = "an engine has no limit of huge pages";
        return Err(judge.refuse(place, page_size, why));
    }
    // An empty class clears, and there is none to clear.
    if let Some(class) = blockio_class.get().filter(|class| !class.is_empty()) {
        let place = at("linux.resources.blockio_class", Field::BlockioClass);
        return Err(judge.refuse(place, class, "there are no block I/O classes here"));
    }
    if let Some(class) = rdt_class.get().filter(|class| !class.is_empty()) {
        let place = at("linux.resources.rdt_class", Field::RdtClass);
        return Err(judge.refuse(place, class, "there are no RDT classes here"));
    }
    if let Some(file) = unified.keys().next() {
        let place = at("linux.resources.unified", Field::CgroupsUnified);
        let why =
            "an engine takes no files of the unified hierarchy; set what has a name of its own";
        return Err(judge.refuse(place, file, why));
    }
    for rule in devices {
        apply_device_rule(target, rule, judge, when)?;
    }
    if let Some(LinuxPids { limit }) = pids {
        target.pids_limit = Some(if *limit > 0 { *limit } else { -1 });
    }
    Ok(())
}

fn apply_memory(
    target: &mut Resources,
    wanted: &LinuxMemory,
    judge: &Judge<'_>,
    when: When,
) -> Result<(), Refusal> {
    let LinuxMemory {
        limit,
        reservation,
        swap,
        kernel,
        kernel_tcp,
        swappiness,
        disable_oom_killer,
        use_hierarchy,
    } = wanted;
    let refuse =
        |name, field, value: String, why: &str| Err(judge.refuse(at(name, field), value, why));
    if kernel.is_some() {
        let why = "engines have no limit of kernel memory any more";
        return refuse(
            "linux.resources.memory.kernel",
            Field::MemKernelLimit,
            String::new(),
            why,
        );
    }
    if kernel_tcp.is_some() {
        let why = "engines have no limit of TCP buffers any more";
        return refuse(
            "linux.resources.memory.kernel_tcp",
            Field::MemTcpLimit,
            String::new(),
            why,
        );
    }
    if use_hierarchy.is_some() {
        let why = "it is always in force";
        let name = "linux.resources.memory.use_hierarchy";
        return refuse(name, Field::MemUseHierarchy, String::new(), why);
    }
    let is_changed =
        |now: Option<u64>, wanted: i64| now.and_then(|it| i64::try_from(it).ok()) != Some(wanted);
    if let Some(limit) = limit
        .get()
        .filter(|limit| is_changed(target.memory, *limit))
    {
        let why = "an engine takes a limit above 0; leave it out for none";
        let Some(bytes) = u64::try_from(limit).ok().filter(|bytes| *bytes > 0) else {
            let name = "linux.resources.memory.limit";
            return refuse(name, Field::MemLimit, limit.to_string(), why);
        };
        target.memory = Some(bytes);
        target.memory_swap = Some(limit);
    }
    if let Some(bytes) = reservation.get() {
        let Ok(bytes) = u64::try_from(bytes) else {
            let name = "linux.resources.memory.reservation";
            let why = "an engine takes no less than 0";
            return refuse(name, Field::MemReservation, bytes.to_string(), why);
        };
        target.memory_reservation = Some(bytes);
    }
    if let Some(swap) = swap.get() {
        target.memory_swap = Some(swap);
    }
    let changes = |now: bool| when == When::Update && now;
    if let Some(value) = swappiness.get() {
        let name = "linux.resources.memory.swappiness";
        let known = u8::try_from(value).ok().filter(|value| *value <= 100);
        if changes(known != target.memory_swappiness) {
            let why = "an engine does not change it while the container is there";
            return refuse(name, Field::MemSwappiness, value.to_string(), why);
        }
        if known.is_none() {
            return refuse(
                name,
                Field::MemSwappiness,
                value.to_string(),
                "it is from 0 to 100",
            );
        }
        target.memory_swappiness = known;
    }
    if let Some(value) = disable_oom_killer.get() {
        if changes(Some(value) != target.oom_kill_disable) {
            let name = "linux.resources.memory.disable_oom_killer";
            let why = "an engine does not change it while the container is there";
            return refuse(name, Field::MemDisableOomKiller, value.to_string(), why);
        }
        target.oom_kill_disable = Some(value);
    }
    Ok(())
}

fn apply_cpu(target: &mut Resources, wanted: &LinuxCpu, judge: &Judge<'_>) -> Result<(), Refusal> {
    let LinuxCpu {
        shares,
        quota,
        period,
        realtime_runtime,
        realtime_period,
        cpus,
        mems,
    } = wanted;
    if let Some(shares) = shares.get() {
        target.cpu_shares = Some(shares);
    }
    let (quota_now, period_now) = processors(target);
    let (quota, period) = (quota.get().or(quota_now), period.get().or(period_now));
    if (quota, period) != (quota_now, period_now) {
        // The engine takes processors or these, never both.
        target.nano_cpus = None;
        (target.cpu_quota, target.cpu_period) = (quota, period);
    }
    if let Some(runtime) = realtime_runtime.get() {
        let Ok(micros) = u64::try_from(runtime) else {
            let place = at(
                "linux.resources.cpu.realtime_runtime",
                Field::CpuRealtimeRuntime,
            );
            let why = "an engine takes no less than 0";
            return Err(judge.refuse(place, runtime.to_string(), why));
        };
        target.cpu_realtime_runtime = Some(micros);
    }
    if let Some(period) = realtime_period.get() {
        target.cpu_realtime_period = Some(period);
    }
    if !cpus.is_empty() {
        target.cpuset_cpus = Some(cpus.clone());
    }
    if !mems.is_empty() {
        target.cpuset_mems = Some(mems.clone());
    }
    Ok(())
}

/// `c 1:3 rwm`: an engine allows more, and never takes away.
fn apply_device_rule(
    target: &mut Resources,
    rule: &LinuxDeviceCgroup,
    judge: &Judge<'_>,
    when: When,
) -> Result<(), Refusal> {
    let LinuxDeviceCgroup {
        allow,
        r#type,
        major,
        minor,
        access,
    } = rule;
    let number = |value: Option<i64>| match value {
        Some(value) if value >= 0 => value.to_string(),
        _ => "*".to_owned(),
    };
    let kind = if r#type.is_empty() { "a" } else { r#type };
    let access = if access.is_empty() { "rwm" } else { access };
    let text = format!(
        "{kind} {}:{} {access}",
        number(major.get()),
        number(minor.get())
    );
    let refuse = |why: &str| {
        let place = at("linux.resources.devices", Field::None);
        Err(judge.refuse(place, text.clone(), why))
    };
    if when == When::Update {
        return refuse("an engine does not change rules of devices while the container is there");
    }
    if !allow {
        return refuse("an engine only allows devices beyond its own, and denies none");
    }
    if !matches!(kind, "a" | "b" | "c") || !access.bytes().all(|byte| b"rwm".contains(&byte)) {
        return refuse("its type is a, b or c, and its access of r, w and m");
    }
    if !target.device_cgroup_rules.contains(&text) {
        target.device_cgroup_rules.push(text);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wanted(change: impl FnOnce(&mut LinuxResources)) -> LinuxResources {
        let mut resources = LinuxResources::default();
        change(&mut resources);
        resources
    }

    fn applied(
        mut target: Resources,
        wanted: &LinuxResources,
        when: When,
    ) -> Result<Resources, String> {
        apply(&mut target, wanted, &Judge::of_plugin("10-a"), when)
            .map(|()| target)
            .map_err(|refusal| refusal.to_string())
    }

    #[test]
    fn what_is_shown_and_comes_back_changes_nothing() {
        let resources = Resources {
            cpu_shares: Some(512),
            nano_cpus: Some(1_500_000_000),
            cpuset_cpus: Some("0-1".to_owned()),
            memory: Some(64 << 20),
            memory_swap: Some(-1),
            memory_swappiness: Some(10),
            oom_kill_disable: Some(true),
            pids_limit: Some(7),
            blkio_weight: Some(100),
            ..Resources::default()
        };
        for when in [When::Creation, When::Update] {
            let back = applied(resources.clone(), &to_nri(&resources), when);
            assert_eq!(back.as_ref(), Ok(&resources), "{when:?}");
        }
    }

    #[test]
    fn limits_become_the_engines() {
        let wanted = wanted(|resources| {
            resources.set_memory_limit(1 << 20);
            let cpu = resources.cpu.get_or_insert_default();
            cpu.quota = Some(50_000_i64.into());
            cpu.mems = "0".to_owned();
            resources.pids = Some(LinuxPids { limit: 0 });
        });
        let before = Resources {
            nano_cpus: Some(NANO),
            memory: Some(4 << 20),
            memory_swap: Some(8 << 20),
            ..Resources::default()
        };
        let after = applied(before, &wanted, When::Update).unwrap();
        assert_eq!(
            (after.memory, after.memory_swap),
            (Some(1 << 20), Some(1 << 20))
        );
        assert_eq!(after.nano_cpus, None);
        assert_eq!(
            (after.cpu_quota, after.cpu_period),
            (Some(50_000), Some(PERIOD))
        );
        assert_eq!(after.cpuset_mems.as_deref(), Some("0"));
        assert_eq!(after.pids_limit, Some(-1));
    }

    #[test]
    fn what_an_engine_has_not_is_refused_with_plugin_and_field() {
        type Change = fn(&mut LinuxResources);
        let memory = |it: &mut LinuxResources, change: fn(&mut LinuxMemory)| {
            change(it.memory.get_or_insert_default());
        };
        let _shape = memory;
        let cases: &[(&str, Change)] = &[
            ("hugepage_limits \"2MB\"", |it| {
                it.hugepage_limits.push(HugepageLimit {
                    page_size: "2MB".to_owned(),
                    limit: 1,
                });
            }),
            ("blockio_class \"gold\"", |it| {
                it.blockio_class = Some("gold".into());
            }),
            ("rdt_class \"gold\"", |it| {
                it.rdt_class = Some("gold".into());
            }),
            ("unified \"memory.high\"", |it| {
                it.unified.insert("memory.high".to_owned(), "1".to_owned());
            }),
            ("devices \"c 1:* rw\"", |it| {
                it.devices.push(LinuxDeviceCgroup {
                    r#type: "c".to_owned(),
                    major: Some(1_i64.into()),
                    access: "rw".to_owned(),
                    ..LinuxDeviceCgroup::default()
                });
            }),
            ("memory.kernel", |it| {
                it.memory.get_or_insert_default().kernel = Some(1_i64.into());
            }),
            ("memory.kernel_tcp", |it| {
                it.memory.get_or_insert_default().kernel_tcp = Some(1_i64.into());
            }),
            ("memory.use_hierarchy", |it| {
                it.memory.get_or_insert_default().use_hierarchy = Some(true.into());
            }),
            ("memory.limit \"-1\"", |it| {
                it.memory.get_or_insert_default().limit = Some((-1_i64).into());
            }),
            ("memory.reservation \"-1\"", |it| {
                it.memory.get_or_insert_default().reservation = Some((-1_i64).into());
            }),
            ("memory.swappiness \"101\"", |it| {
                it.memory.get_or_insert_default().swappiness = Some(101_u64.into());
            }),
            ("cpu.realtime_runtime \"-1\"", |it| {
                it.cpu.get_or_insert_default().realtime_runtime = Some((-1_i64).into());
            }),
        ];
        for (field, change) in cases {
            let refused = applied(Resources::default(), &wanted(change), When::Creation);
            let text = refused.expect_err(field);
            let start = format!("plugin \"10-a\" set linux.resources.{field}, which");
            assert!(text.starts_with(&start), "{text}");
        }
        // Of what runs already less can be changed; classes that clear are nothing to do.
        for (field, change) in [
            (
                "memory.swappiness",
                (|it| {
                    it.memory.get_or_insert_default().swappiness = Some(1_u64.into());
                }) as Change,
            ),
            ("memory.disable_oom_killer", |it| {
                it.memory.get_or_insert_default().disable_oom_killer = Some(true.into());
            }),
            ("devices", |it| {
                it.devices.push(LinuxDeviceCgroup {
                    allow: true,
                    ..LinuxDeviceCgroup::default()
                });
            }),
        ] {
            let wanted = wanted(change);
            assert!(
                applied(Resources::default(), &wanted, When::Creation).is_ok(),
                "{field}"
            );
            let text = applied(Resources::default(), &wanted, When::Update).expect_err(field);
            assert!(text.contains(&format!("linux.resources.{field}")), "{text}");
        }
        let clearing = wanted(|it| {
            it.blockio_class = Some("".into());
            it.rdt_class = Some("".into());
        });
        let same = applied(Resources::default(), &clearing, When::Creation);
        assert_eq!(same, Ok(Resources::default()));
    }
}
