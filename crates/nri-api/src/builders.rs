//! Builders of adjustments.
//!
//! ```
//! use longshore_nri_api::{ContainerAdjustment, Mount};
//!
//! let mut adjustment = ContainerAdjustment::default();
//! adjustment
//!     .add_env("MODE", "fast")
//!     .remove_env("DEBUG")
//!     .add_mount(Mount { destination: "/data".into(), ..Default::default() });
//! adjustment.resources_mut().set_cpu_shares(512_u64).set_memory_limit(1 << 20);
//! ```

use crate::{
    CdiDevice, ContainerAdjustment, ContainerEviction, Hooks, IoPrioClass, KeyValue,
    LinuxContainerAdjustment, LinuxDevice, LinuxIoPriority, LinuxMemoryPolicy, LinuxNamespace,
    LinuxNetDevice, LinuxRdt, LinuxScheduler, LinuxSeccomp, Mount, PosixRlimit, mark_for_removal,
};

impl ContainerAdjustment {
    /// The Linux part, made when missing.
    pub fn linux_mut(&mut self) -> &mut LinuxContainerAdjustment {
        self.linux.get_or_insert_default()
    }

    /// Sets an annotation.
    pub fn add_annotation(
        &mut self,
        key: impl Into<String>,
        value: impl Into<String>,
    ) -> &mut Self {
        self.annotations.insert(key.into(), value.into());
        self
    }

    /// Removes an annotation. With [`Self::add_annotation`] of the same key: replaces it.
    pub fn remove_annotation(&mut self, key: &str) -> &mut Self {
        self.annotations
            .insert(mark_for_removal(key), String::new());
        self
    }

    /// Adds a mount.
    pub fn add_mount(&mut self, mount: Mount) -> &mut Self {
        self.mounts.push(mount);
        self
    }

    /// Removes what is mounted at a destination. With [`Self::add_mount`] there: replaces it.
    pub fn remove_mount(&mut self, destination: &str) -> &mut Self {
        let destination = mark_for_removal(destination);
        self.add_mount(Mount {
            destination,
            ..Mount::default()
        })
    }

    /// Sets an environment variable.
    pub fn add_env(&mut self, name: impl Into<String>, value: impl Into<String>) -> &mut Self {
        self.env.push(KeyValue {
            key: name.into(),
            value: value.into(),
        });
        self
    }

    /// Removes an environment variable. With [`Self::add_env`] of the same name: replaces it.
    pub fn remove_env(&mut self, name: &str) -> &mut Self {
        self.add_env(mark_for_removal(name), "")
    }

    /// Sets the arguments, unless another plugin sets them too: then the request fails.
    pub fn set_args(&mut self, args: impl IntoIterator<Item = impl Into<String>>) -> &mut Self {
        self.args = args.into_iter().map(Into::into).collect();
        self
    }

    /// Sets the arguments, replacing what plugins before this one set.
    pub fn update_args(&mut self, args: impl IntoIterator<Item = impl Into<String>>) -> &mut Self {
        self.args = std::iter::once(String::new())
            .chain(args.into_iter().map(Into::into))
            .collect();
        self
    }

    /// Adds OCI hooks to those already asked for, list by list.
    pub fn add_hooks(&mut self, hooks: Hooks) -> &mut Self {
        self.hooks.get_or_insert_default().append(hooks);
        self
    }

    /// Adds a resource limit of processes, such as `RLIMIT_NOFILE`.
    pub fn add_rlimit(&mut self, kind: impl Into<String>, hard: u64, soft: u64) -> &mut Self {
        self.rlimits.push(PosixRlimit {
            r#type: kind.into(),
            hard,
            soft,
        });
        self
    }

    /// Adds a CDI device by its qualified name, such as `vendor.com/class=device`.
    pub fn add_cdi_device(&mut self, name: impl Into<String>) -> &mut Self {
        self.cdi_devices.push(CdiDevice { name: name.into() });
        self
    }

    /// Adds a device node.
    pub fn add_device(&mut self, device: LinuxDevice) -> &mut Self {
        self.linux_mut().devices.push(device);
        self
    }

    /// Removes the device node at a path. With [`Self::add_device`] there: replaces it.
    pub fn remove_device(&mut self, path: &str) -> &mut Self {
        let path = mark_for_removal(path);
        self.add_device(LinuxDevice {
            path,
            ..LinuxDevice::default()
        })
    }

    /// Moves a network device of the host into the container, there named `name`.
    pub fn add_net_device(
        &mut self,
        host: impl Into<String>,
        name: impl Into<String>,
    ) -> &mut Self {
        self.linux_mut()
            .net_devices
            .insert(host.into(), LinuxNetDevice { name: name.into() });
        self
    }

    /// Takes back the move of a network device.
    pub fn remove_net_device(&mut self, host: &str) -> &mut Self {
        self.linux_mut()
            .net_devices
            .insert(mark_for_removal(host), LinuxNetDevice::default());
        self
    }

    /// Sets the namespace of its type, in place of the one the container has.
    pub fn add_or_replace_namespace(&mut self, namespace: LinuxNamespace) -> &mut Self {
        self.linux_mut().namespaces.push(namespace);
        self
    }

    /// Removes the namespace of a type, such as `network`: the container shares the host's.
    pub fn remove_namespace(&mut self, kind: &str) -> &mut Self {
        let namespace = LinuxNamespace {
            r#type: mark_for_removal(kind),
            path: String::new(),
        };
        self.add_or_replace_namespace(namespace)
    }

    /// Sets a sysctl.
    pub fn set_sysctl(&mut self, key: impl Into<String>, value: impl Into<String>) -> &mut Self {
        self.linux_mut().sysctl.insert(key.into(), value.into());
        self
    }

    /// Removes a sysctl. With [`Self::set_sysctl`] of the same key: replaces it.
    pub fn remove_sysctl(&mut self, key: &str) -> &mut Self {
        self.linux_mut()
            .sysctl
            .insert(mark_for_removal(key), String::new());
        self
    }

    /// Sets the cgroup path. Empty changes nothing.
    pub fn set_cgroups_path(&mut self, path: impl Into<String>) -> &mut Self {
        self.linux_mut().cgroups_path = path.into();
        self
    }

    /// Sets the OOM score adjustment, -1000 to 1000.
    pub fn set_oom_score_adj(&mut self, score: i32) -> &mut Self {
        self.linux_mut().oom_score_adj = Some(i64::from(score).into());
        self
    }

    /// Sets class and priority (0 highest to 7) of I/O.
    pub fn set_io_priority(&mut self, class: IoPrioClass, priority: i32) -> &mut Self {
        self.linux_mut().io_priority = Some(LinuxIoPriority {
            class: class.into(),
            priority,
        });
        self
    }

    /// Sets the seccomp policy, as a whole.
    pub fn set_seccomp_policy(&mut self, policy: LinuxSeccomp) -> &mut Self {
        self.linux_mut().seccomp_policy = Some(policy);
        self
    }

    /// Sets the scheduling policy, as a whole.
    pub fn set_scheduler(&mut self, scheduler: LinuxScheduler) -> &mut Self {
        self.linux_mut().scheduler = Some(scheduler);
        self
    }

    /// Sets the memory policy, as a whole.
    pub fn set_memory_policy(&mut self, policy: LinuxMemoryPolicy) -> &mut Self {
        self.linux_mut().memory_policy = Some(policy);
        self
    }

    /// Sets the RDT class of service.
    pub fn set_rdt_clos_id(&mut self, id: impl Into<String>) -> &mut Self {
        self.rdt_mut().clos_id = Some(id.into().into());
        self
    }

    /// Sets the RDT schemata, all lines.
    pub fn set_rdt_schemata(
        &mut self,
        lines: impl IntoIterator<Item = impl Into<String>>,
    ) -> &mut Self {
        let lines: Vec<String> = lines.into_iter().map(Into::into).collect();
        self.rdt_mut().schemata = Some(lines.into());
        self
    }

    /// Sets whether RDT monitors the container.
    pub fn set_rdt_enable_monitoring(&mut self, enable: bool) -> &mut Self {
        self.rdt_mut().enable_monitoring = Some(enable.into());
        self
    }

    /// Takes the container out of RDT; what is set beside it is set afterwards.
    pub fn remove_rdt(&mut self) -> &mut Self {
        self.rdt_mut().remove = true;
        self
    }

    fn rdt_mut(&mut self) -> &mut LinuxRdt {
        self.linux_mut().rdt.get_or_insert_default()
    }
}

impl Hooks {
    /// Appends the hooks of each list to the same list here.
    pub fn append(&mut self, other: Self) {
        let Self {
            prestart,
            create_runtime,
            create_container,
            start_container,
            poststart,
            poststop,
        } = other;
        self.prestart.extend(prestart);
        self.create_runtime.extend(create_runtime);
        self.create_container.extend(create_container);
        self.start_container.extend(start_container);
        self.poststart.extend(poststart);
        self.poststop.extend(poststop);
    }
}

impl ContainerEviction {
    /// Asks for the container to be stopped.
    #[must_use]
    pub fn new(container_id: impl Into<String>, reason: impl Into<String>) -> Self {
        Self {
            container_id: container_id.into(),
            reason: reason.into(),
        }
    }
}
