//! Adjustments of a container that is being created, field by field.

use longshore_nri_api::{
    Container, ContainerAdjustment, Field, LinuxContainer, LinuxContainerAdjustment, LinuxRdt,
    PosixRlimit,
};

use super::keyed::{Claimant, merge_list, merge_map};
use super::{Compat, CreateMerge, MergeError, resources};

impl CreateMerge {
    /// Merges one reply, in the order of the protocol: the first conflict is the one reported.
    pub(super) fn adjust(
        &mut self,
        plugin: &str,
        adjustment: ContainerAdjustment,
    ) -> Result<(), MergeError> {
        let container = self.container.clone();
        let who = Claimant {
            plugin,
            container: &container,
        };
        let ContainerAdjustment {
            annotations,
            mounts,
            env,
            hooks,
            linux,
            rlimits,
            cdi_devices,
            args,
        } = adjustment;
        let (owners, result) = (&mut self.owners, &mut self.adjustment);
        let view = self.request.container.get_or_insert_default();
        merge_map(
            who,
            Field::Annotations,
            annotations,
            &mut result.annotations,
            &mut view.annotations,
            owners,
        )?;
        merge_list(
            who,
            Field::Mounts,
            mounts,
            &mut result.mounts,
            owners,
            |key, mount| {
                view.mounts.retain(|mount| mount.destination != key);
                view.mounts.extend(mount.cloned());
            },
        )?;
        merge_list(
            who,
            Field::Env,
            env,
            &mut result.env,
            owners,
            |key, entry| {
                view.env
                    .retain(|entry| entry.split('=').next() != Some(key));
                view.env
                    .extend(entry.map(|entry| format!("{}={}", entry.key, entry.value)));
            },
        )?;
        self.arguments(who, args)?;
        if let Some(hooks) = hooks.filter(|hooks| *hooks != longshore_nri_api::Hooks::default()) {
            self.owners.claim_hooks(who.container, plugin);
            let view = self.request.container.get_or_insert_default();
            view.hooks.get_or_insert_default().append(hooks.clone());
            self.adjustment.add_hooks(hooks);
        }
        if let Some(linux) = linux {
            self.linux(who, linux)?;
        }
        self.rlimits(who, rlimits)?;
        for device in cdi_devices {
            self.owners
                .claim(who.container, Field::CdiDevices, Some(&device.name), plugin)?;
            self.adjustment.cdi_devices.push(device);
        }
        Ok(())
    }

    /// An empty first argument marks that those of plugins before are replaced.
    fn arguments(&mut self, who: Claimant<'_>, mut args: Vec<String>) -> Result<(), MergeError> {
        let Some(first) = args.first() else {
            return Ok(());
        };
        if first.is_empty() {
            self.owners
                .clear(who.container, Field::Args, None, who.plugin);
            args.remove(0);
        }
        who.claim_simple(&mut self.owners, Field::Args)?;
        self.request
            .container
            .get_or_insert_default()
            .args
            .clone_from(&args);
        self.adjustment.args = args;
        Ok(())
    }

    fn rlimits(&mut self, who: Claimant<'_>, rlimits: Vec<PosixRlimit>) -> Result<(), MergeError> {
        let view = self.request.container.get_or_insert_default();
        for rlimit in rlimits {
            let kind = Some(rlimit.r#type.as_str());
            self.owners
                .claim(who.container, Field::Rlimits, kind, who.plugin)?;
            if self.compat == Compat::Correct {
                view.rlimits.retain(|other| other.r#type != rlimit.r#type);
            }
            view.rlimits.push(rlimit.clone());
            self.adjustment.rlimits.push(rlimit);
        }
        Ok(())
    }

    fn linux(
        &mut self,
        who: Claimant<'_>,
        linux: LinuxContainerAdjustment,
    ) -> Result<(), MergeError> {
        let owners = &mut self.owners;
        let result = self.adjustment.linux.get_or_insert_default();
        let view: &mut Container = self.request.container.get_or_insert_default();
        let view: &mut LinuxContainer = view.linux.get_or_insert_default();
        merge_list(
            who,
            Field::Devices,
            linux.devices,
            &mut result.devices,
            owners,
            |key, device| {
                view.devices.retain(|device| device.path != key);
                view.devices.extend(device.cloned());
            },
        )?;
        if let Some(wanted) = linux.resources {
            let shown = view.resources.get_or_insert_default();
            resources::claim(who, &wanted, owners)?;
            resources::overlay(&wanted, shown, self.compat);
            let merged = result.resources.get_or_insert_default();
            resources::overlay(&wanted, merged, self.compat);
            shown.devices.extend(wanted.devices.iter().cloned());
            merged.devices.extend(wanted.devices);
        }
        if !linux.cgroups_path.is_empty() {
            who.claim_simple(owners, Field::CgroupsPath)?;
            view.cgroups_path.clone_from(&linux.cgroups_path);
            result.cgroups_path = linux.cgroups_path;
        }
        macro_rules! whole {
            ($($name:ident => $field:ident),*) => {$(
                if linux.$name.is_some() {
                    who.claim_simple(owners, Field::$field)?;
                    view.$name.clone_from(&linux.$name);
                    result.$name = linux.$name;
                }
            )*};
        }
        whole!(oom_score_adj => OomScoreAdj, io_priority => IoPriority, seccomp_policy => SeccompPolicy);
        let namespaces = linux.namespaces;
        merge_list(
            who,
            Field::Namespace,
            namespaces,
            &mut result.namespaces,
            owners,
            |key, namespace| {
                view.namespaces.retain(|namespace| namespace.r#type != key);
                view.namespaces.extend(namespace.cloned());
            },
        )?;
        merge_map(
            who,
            Field::Sysctl,
            linux.sysctl,
            &mut result.sysctl,
            &mut view.sysctl,
            owners,
        )?;
        merge_map(
            who,
            Field::LinuxNetDevices,
            linux.net_devices,
            &mut result.net_devices,
            &mut view.net_devices,
            owners,
        )?;
        whole!(scheduler => LinuxSched);
        if let Some(rdt) = linux.rdt {
            rdt_claims(who, &rdt, owners)?;
            merge_rdt(result.rdt.get_or_insert_default(), &rdt, self.compat);
            if self.compat == Compat::Correct {
                merge_rdt(view.rdt.get_or_insert_default(), &rdt, self.compat);
            }
        }
        if linux.memory_policy.is_some() {
            who.claim_simple(owners, Field::MemoryPolicy)?;
            result.memory_policy = linux.memory_policy;
        }
        Ok(())
    }
}

fn rdt_claims(
    who: Claimant<'_>,
    rdt: &LinuxRdt,
    owners: &mut longshore_nri_api::OwningPlugins,
) -> Result<(), MergeError> {
    for (field, set) in [
        (Field::RdtClosId, rdt.clos_id.is_some()),
        (Field::RdtSchemata, rdt.schemata.is_some()),
        (Field::RdtEnableMonitoring, rdt.enable_monitoring.is_some()),
    ] {
        if rdt.remove {
            owners.clear(who.container, field, None, who.plugin);
        }
        if set {
            who.claim_simple(owners, field)?;
        }
    }
    Ok(())
}

/// `remove` takes away what was there before; what is set beside it is set afterwards, and the
/// mark stays, so that what the container had from the start goes too.
fn merge_rdt(merged: &mut LinuxRdt, rdt: &LinuxRdt, compat: Compat) {
    if rdt.remove {
        *merged = LinuxRdt {
            remove: true,
            ..LinuxRdt::default()
        };
    }
    let sets = rdt.clos_id.is_some() || rdt.schemata.is_some() || rdt.enable_monitoring.is_some();
    if sets && compat == Compat::GoAdaptation {
        merged.remove = false;
    }
    if rdt.clos_id.is_some() {
        merged.clos_id.clone_from(&rdt.clos_id);
    }
    if rdt.schemata.is_some() {
        merged.schemata.clone_from(&rdt.schemata);
    }
    if rdt.enable_monitoring.is_some() {
        merged.enable_monitoring = rdt.enable_monitoring;
    }
}
