//! Sets of fields: what a plugin may adjust, and what a reply does.

use std::fmt;
use std::ops::BitOr;

use longshore_nri_api::{
    ContainerAdjustment, ContainerUpdate, Field, Hooks, LinuxContainerAdjustment, LinuxResources,
};

/// A set of the fields that plugins can adjust or update.
///
/// ```
/// use longshore_nri_adaptation::FieldSet;
/// use longshore_nri_api::Field;
///
/// let devices: FieldSet = [Field::Devices, Field::Mounts].into_iter().collect();
/// assert!(devices.contains(Field::Devices) && !devices.contains(Field::Env));
/// assert_eq!(devices.to_string(), "Mounts,Devices");
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct FieldSet(u64);

/// Numbers of fields lie in 1..=40.
const ALL: u64 = ((1 << (Field::MemoryPolicy as u64 + 1)) - 1) & !1;

impl FieldSet {
    /// No field.
    pub const NONE: Self = Self(0);
    /// Every field.
    pub const ALL: Self = Self(ALL);

    /// The set of one field; empty for `Field::None`.
    #[must_use]
    pub const fn of(field: Field) -> Self {
        Self((1 << (field as u64)) & ALL)
    }

    /// Whether the field is in the set.
    #[must_use]
    pub const fn contains(self, field: Field) -> bool {
        self.0 & Self::of(field).0 != 0
    }

    /// The fields of the set, in ascending number.
    pub fn iter(self) -> impl Iterator<Item = Field> {
        (1..=Field::MemoryPolicy as i32)
            .filter_map(|number| Field::try_from(number).ok())
            .filter(move |field| self.contains(*field))
    }

    /// The fields that are not in `other`.
    #[must_use]
    pub const fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    /// Whether there is no field in it.
    #[must_use]
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    fn add(&mut self, field: Field, set: bool) {
        if set {
            self.0 |= Self::of(field).0;
        }
    }

    /// What an adjustment sets or removes. Device rules of the cgroup count as devices.
    pub(crate) fn of_adjustment(adjust: &ContainerAdjustment) -> Self {
        let mut set = Self::NONE;
        set.add(Field::Annotations, !adjust.annotations.is_empty());
        set.add(Field::Mounts, !adjust.mounts.is_empty());
        set.add(Field::Env, !adjust.env.is_empty());
        set.add(Field::Args, !adjust.args.is_empty());
        let hooks = adjust.hooks.as_ref();
        set.add(
            Field::OciHooks,
            hooks.is_some_and(|hooks| *hooks != Hooks::default()),
        );
        set.add(Field::Rlimits, !adjust.rlimits.is_empty());
        set.add(Field::CdiDevices, !adjust.cdi_devices.is_empty());
        adjust
            .linux
            .as_ref()
            .map_or(set, |linux| set | Self::of_linux(linux))
    }

    fn of_linux(linux: &LinuxContainerAdjustment) -> Self {
        let mut set = linux
            .resources
            .as_ref()
            .map_or(Self::NONE, Self::of_resources);
        set.add(Field::Devices, !linux.devices.is_empty());
        set.add(Field::CgroupsPath, !linux.cgroups_path.is_empty());
        set.add(Field::OomScoreAdj, linux.oom_score_adj.is_some());
        set.add(Field::IoPriority, linux.io_priority.is_some());
        set.add(Field::SeccompPolicy, linux.seccomp_policy.is_some());
        set.add(Field::Namespace, !linux.namespaces.is_empty());
        set.add(Field::Sysctl, !linux.sysctl.is_empty());
        set.add(Field::LinuxNetDevices, !linux.net_devices.is_empty());
        set.add(Field::LinuxSched, linux.scheduler.is_some());
        set.add(Field::MemoryPolicy, linux.memory_policy.is_some());
        if let Some(rdt) = &linux.rdt {
            set.add(Field::RdtClosId, rdt.remove || rdt.clos_id.is_some());
            set.add(Field::RdtSchemata, rdt.remove || rdt.schemata.is_some());
            let monitoring = rdt.remove || rdt.enable_monitoring.is_some();
            set.add(Field::RdtEnableMonitoring, monitoring);
        }
        set
    }

    fn of_resources(resources: &LinuxResources) -> Self {
        let mut set = Self::NONE;
        for (field, there) in crate::merge::simple_fields(resources) {
            set.add(field, there);
        }
        set.add(Field::HugepageLimits, !resources.hugepage_limits.is_empty());
        set.add(Field::CgroupsUnified, !resources.unified.is_empty());
        set.add(Field::Devices, !resources.devices.is_empty());
        set
    }

    /// What updates set.
    pub(crate) fn of_updates(updates: &[ContainerUpdate]) -> Self {
        updates
            .iter()
            .filter_map(|update| update.linux.as_ref()?.resources.as_ref())
            .fold(Self::NONE, |set, resources| {
                set | Self::of_resources(resources)
            })
    }
}

impl BitOr for FieldSet {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

impl FromIterator<Field> for FieldSet {
    fn from_iter<I: IntoIterator<Item = Field>>(fields: I) -> Self {
        fields
            .into_iter()
            .fold(Self::NONE, |set, field| set | Self::of(field))
    }
}

impl fmt::Display for FieldSet {
    /// The names of the fields, in ascending number, joined by commas.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut separator = "";
        for field in self.iter() {
            write!(f, "{separator}{}", field.as_str_name())?;
            separator = ",";
        }
        Ok(())
    }
}

impl fmt::Debug for FieldSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "FieldSet({self})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use longshore_nri_api::{LinuxRdt, LinuxSeccomp};

    #[test]
    fn every_field_is_in_the_set_of_all_and_none_is_not() {
        assert_eq!(FieldSet::ALL.iter().count(), 40);
        assert!(FieldSet::of(Field::None).is_empty());
        assert_eq!(FieldSet::ALL.without(FieldSet::ALL), FieldSet::NONE);
    }

    #[test]
    fn an_adjustment_counts_what_it_removes_too() {
        let mut adjust = ContainerAdjustment::default();
        assert!(FieldSet::of_adjustment(&adjust).is_empty());
        adjust.remove_env("A").remove_rdt();
        adjust.set_seccomp_policy(LinuxSeccomp::default());
        adjust.resources_mut().set_unified("memory.high", "1");
        let expected: FieldSet = [
            Field::Env,
            Field::RdtClosId,
            Field::RdtSchemata,
            Field::RdtEnableMonitoring,
            Field::SeccompPolicy,
            Field::CgroupsUnified,
        ]
        .into_iter()
        .collect();
        assert_eq!(FieldSet::of_adjustment(&adjust), expected);
        adjust.linux_mut().rdt = Some(LinuxRdt::default());
        assert!(!FieldSet::of_adjustment(&adjust).contains(Field::RdtClosId));
    }

    #[test]
    fn updates_count_their_resources() {
        let mut update = ContainerUpdate::new("c");
        assert!(FieldSet::of_updates(std::slice::from_ref(&update)).is_empty());
        update.resources_mut().set_pids_limit(3);
        assert_eq!(
            FieldSet::of_updates(&[update]),
            FieldSet::of(Field::PidsLimit)
        );
    }
}
