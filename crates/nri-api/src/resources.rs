//! Setters of resources, for adjustments and updates alike.
//!
//! All are reached through [`ContainerAdjustment::resources_mut`] and
//! [`ContainerUpdate::resources_mut`]. Setting a value twice keeps the last one.

use crate::{
    ContainerAdjustment, ContainerUpdate, HugepageLimit, LinuxCpu, LinuxMemory, LinuxPids,
    LinuxResources,
};

impl ContainerAdjustment {
    /// The resources to set, made when missing.
    pub fn resources_mut(&mut self) -> &mut LinuxResources {
        self.linux_mut().resources.get_or_insert_default()
    }
}

impl ContainerUpdate {
    /// An update of nothing yet, of the container with this id.
    #[must_use]
    pub fn new(container_id: impl Into<String>) -> Self {
        Self {
            container_id: container_id.into(),
            ..Self::default()
        }
    }

    /// The resources to set, made when missing.
    pub fn resources_mut(&mut self) -> &mut LinuxResources {
        self.linux
            .get_or_insert_default()
            .resources
            .get_or_insert_default()
    }

    /// Lets the request go on when this update conflicts or cannot be applied.
    pub fn set_ignore_failure(&mut self) -> &mut Self {
        self.ignore_failure = true;
        self
    }
}

macro_rules! setters {
    ($part:ident: $message:ident { $($(#[$doc:meta])* $setter:ident => $field:ident: $value:ty),* $(,)? }) => {
        impl LinuxResources {
            $($(#[$doc])*
            pub fn $setter(&mut self, value: impl Into<$value>) -> &mut Self {
                let part: &mut $message = self.$part.get_or_insert_default();
                part.$field = Some(value.into().into());
                self
            })*
        }
    };
}

setters! {
    memory: LinuxMemory {
        /// Memory limit in bytes; -1 for none.
        set_memory_limit => limit: i64,
        /// Soft memory limit in bytes.
        set_memory_reservation => reservation: i64,
        /// Limit on memory and swap together, in bytes.
        set_memory_swap => swap: i64,
        /// Limit on kernel memory in bytes.
        set_memory_kernel => kernel: i64,
        /// Limit on TCP buffers in bytes.
        set_memory_kernel_tcp => kernel_tcp: i64,
        /// Eagerness to swap, 0 to 100.
        set_memory_swappiness => swappiness: u64,
        /// Whether the kernel's OOM killer is off.
        set_memory_disable_oom_killer => disable_oom_killer: bool,
        /// Whether limits hold for the whole hierarchy.
        set_memory_use_hierarchy => use_hierarchy: bool,
    }
}

setters! {
    cpu: LinuxCpu {
        /// Relative weight, 2 to 262144; 1024 is one processor's worth.
        set_cpu_shares => shares: u64,
        /// Microseconds a period; -1 for no limit.
        set_cpu_quota => quota: i64,
        /// Length of a period in microseconds.
        set_cpu_period => period: u64,
        /// Realtime microseconds a realtime period.
        set_cpu_realtime_runtime => realtime_runtime: i64,
        /// Length of a realtime period in microseconds.
        set_cpu_realtime_period => realtime_period: u64,
    }
}

impl LinuxResources {
    /// The processors to run on, such as `0-3,8`. Empty changes nothing.
    pub fn set_cpuset_cpus(&mut self, cpus: impl Into<String>) -> &mut Self {
        self.cpu.get_or_insert_default().cpus = cpus.into();
        self
    }

    /// The memory nodes to use, such as `0-1`. Empty changes nothing.
    pub fn set_cpuset_mems(&mut self, mems: impl Into<String>) -> &mut Self {
        self.cpu.get_or_insert_default().mems = mems.into();
        self
    }

    /// Adds a limit for huge pages of one size, such as `2MB`, in bytes.
    pub fn add_hugepage_limit(&mut self, page_size: impl Into<String>, limit: u64) -> &mut Self {
        self.hugepage_limits.push(HugepageLimit {
            page_size: page_size.into(),
            limit,
        });
        self
    }

    /// Sets a file of the unified cgroup hierarchy.
    pub fn set_unified(&mut self, file: impl Into<String>, value: impl Into<String>) -> &mut Self {
        self.unified.insert(file.into(), value.into());
        self
    }

    /// The block I/O class; empty clears it.
    pub fn set_blockio_class(&mut self, class: impl Into<String>) -> &mut Self {
        self.blockio_class = Some(class.into().into());
        self
    }

    /// The RDT class; empty clears it.
    pub fn set_rdt_class(&mut self, class: impl Into<String>) -> &mut Self {
        self.rdt_class = Some(class.into().into());
        self
    }

    /// The largest number of processes and threads; -1 for no limit.
    pub fn set_pids_limit(&mut self, limit: i64) -> &mut Self {
        self.pids = Some(LinuxPids { limit });
        self
    }
}
