//! What no reply may hold, whoever sends it: checked before anything is merged.

use longshore_nri_api::{ContainerAdjustment, ContainerEviction, ContainerUpdate, removed_key};

use super::MergeError;

/// The most entries of one list or map in a reply.
const ENTRIES_MAX: usize = 16_384;

/// Checks an adjustment.
pub(super) fn adjustment(plugin: &str, adjustment: &ContainerAdjustment) -> Result<(), MergeError> {
    let check = Check { plugin };
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
    check.count("annotations", annotations.len())?;
    check.count("mounts", mounts.len())?;
    check.count("env", env.len())?;
    check.count("rlimits", rlimits.len())?;
    check.count("CDI devices", cdi_devices.len())?;
    check.count("args", args.len())?;
    for (key, value) in annotations {
        check.key("annotations", key)?;
        check.text("annotations", value)?;
    }
    for mount in mounts {
        check.path("mounts", &mount.destination)?;
        check.text("mounts", &mount.source)?;
        check.text("mounts", &mount.r#type)?;
        check.texts("mounts", &mount.options)?;
    }
    for entry in env {
        check.key("env", &entry.key)?;
        check.text("env", &entry.value)?;
        if entry.key.contains('=') {
            return Err(check.bad("env", &entry.key, "a name has no ="));
        }
    }
    check.texts("args", args)?;
    for device in cdi_devices {
        check.key("CDI devices", &device.name)?;
    }
    for rlimit in rlimits {
        check.key("rlimits", &rlimit.r#type)?;
    }
    if let Some(hooks) = hooks {
        check.hooks(hooks)?;
    }
    linux.as_ref().map_or(Ok(()), |linux| check.linux(linux))
}

/// Checks updates and evictions.
pub(crate) fn updates(
    plugin: &str,
    updates: &[ContainerUpdate],
    evictions: &[ContainerEviction],
) -> Result<(), MergeError> {
    let check = Check { plugin };
    check.count("updates", updates.len())?;
    check.count("evictions", evictions.len())?;
    for update in updates {
        check.key("updates", &update.container_id)?;
        if let Some(resources) = update
            .linux
            .as_ref()
            .and_then(|linux| linux.resources.as_ref())
        {
            check.resources(resources)?;
        }
    }
    evictions
        .iter()
        .try_for_each(|eviction| check.key("evictions", &eviction.container_id))
}

struct Check<'a> {
    plugin: &'a str,
}

impl Check<'_> {
    fn linux(&self, linux: &longshore_nri_api::LinuxContainerAdjustment) -> Result<(), MergeError> {
        self.count("devices", linux.devices.len())?;
        self.count("namespaces", linux.namespaces.len())?;
        self.count("sysctl", linux.sysctl.len())?;
        self.count("net devices", linux.net_devices.len())?;
        for device in &linux.devices {
            self.path("devices", &device.path)?;
        }
        for namespace in &linux.namespaces {
            self.key("namespaces", &namespace.r#type)?;
            self.text("namespaces", &namespace.path)?;
        }
        for (key, value) in &linux.sysctl {
            self.key("sysctl", key)?;
            self.text("sysctl", value)?;
            if key.contains("..") || key.contains("/../") {
                return Err(self.bad("sysctl", key, "it leaves its directory"));
            }
        }
        for (host, device) in &linux.net_devices {
            self.key("net devices", host)?;
            self.text("net devices", &device.name)?;
        }
        self.text("cgroups path", &linux.cgroups_path)?;
        if linux.cgroups_path.split('/').any(|part| part == "..") {
            return Err(self.bad(
                "cgroups path",
                &linux.cgroups_path,
                "it leaves its directory",
            ));
        }
        linux
            .resources
            .as_ref()
            .map_or(Ok(()), |resources| self.resources(resources))
    }

    fn resources(&self, resources: &longshore_nri_api::LinuxResources) -> Result<(), MergeError> {
        self.count("hugepage limits", resources.hugepage_limits.len())?;
        self.count("unified", resources.unified.len())?;
        self.count("device rules", resources.devices.len())?;
        for (file, value) in &resources.unified {
            self.text("unified", value)?;
            self.key("unified", file)?;
            if file.contains('/') || file == ".." || file == "." {
                return Err(self.bad("unified", file, "it is no name of a file"));
            }
        }
        if let Some(cpu) = &resources.cpu {
            self.text("cpus", &cpu.cpus)?;
            self.text("mems", &cpu.mems)?;
        }
        resources
            .hugepage_limits
            .iter()
            .try_for_each(|limit| self.key("hugepage limits", &limit.page_size))
    }

    fn hooks(&self, hooks: &longshore_nri_api::Hooks) -> Result<(), MergeError> {
        let lists = [
            &hooks.prestart,
            &hooks.create_runtime,
            &hooks.create_container,
            &hooks.start_container,
            &hooks.poststart,
            &hooks.poststop,
        ];
        for list in lists {
            self.count("hooks", list.len())?;
            for hook in list {
                self.path("hooks", &hook.path)?;
                self.texts("hooks", &hook.args)?;
                self.texts("hooks", &hook.env)?;
            }
        }
        Ok(())
    }

    fn count(&self, field: &'static str, count: usize) -> Result<(), MergeError> {
        if count <= ENTRIES_MAX {
            return Ok(());
        }
        let plugin = self.plugin.to_owned();
        Err(MergeError::TooMany {
            plugin,
            field,
            count,
            max: ENTRIES_MAX,
        })
    }

    /// A key that may be marked for removal.
    fn key(&self, field: &'static str, key: &str) -> Result<(), MergeError> {
        if removed_key(key).unwrap_or(key).is_empty() {
            return Err(self.bad(field, key, "it is empty"));
        }
        self.text(field, key)
    }

    /// An absolute path that may be marked for removal.
    fn path(&self, field: &'static str, marked: &str) -> Result<(), MergeError> {
        let path = removed_key(marked).unwrap_or(marked);
        if !path.starts_with('/') {
            return Err(self.bad(field, marked, "it is no absolute path"));
        }
        if path.split('/').any(|part| part == "..") {
            return Err(self.bad(field, marked, "it leaves its directory"));
        }
        self.text(field, marked)
    }

    fn texts(&self, field: &'static str, texts: &[String]) -> Result<(), MergeError> {
        self.count(field, texts.len())?;
        texts.iter().try_for_each(|text| self.text(field, text))
    }

    fn text(&self, field: &'static str, text: &str) -> Result<(), MergeError> {
        if text.contains('\0') {
            return Err(self.bad(field, text, "it has a NUL"));
        }
        Ok(())
    }

    fn bad(&self, field: &'static str, value: &str, why: &'static str) -> MergeError {
        let value = value.chars().take(64).collect();
        MergeError::BadValue {
            plugin: self.plugin.to_owned(),
            field,
            value,
            why,
        }
    }
}
