use std::collections::BTreeMap;

/// Limits, shares and devices of a container: members of `HostConfig`, and the body of
/// `POST /containers/ID/update`, which takes those of the first part only.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Resources {
    /// `CpuShares`: a weight; 1024 is one part.
    pub cpu_shares: Option<u64>,
    /// `CpuPeriod`: microseconds.
    pub cpu_period: Option<u64>,
    /// `CpuQuota`: microseconds of processor time in each period; -1 is no limit.
    pub cpu_quota: Option<i64>,
    /// `NanoCpus`: processors times 10^9. Not together with period and quota.
    pub nano_cpus: Option<u64>,
    /// `CpuRealtimePeriod`: microseconds.
    pub cpu_realtime_period: Option<u64>,
    /// `CpuRealtimeRuntime`: microseconds.
    pub cpu_realtime_runtime: Option<u64>,
    /// `CpusetCpus`: as `0-2,7`.
    pub cpuset_cpus: Option<String>,
    /// `CpusetMems`.
    pub cpuset_mems: Option<String>,
    /// `Memory`: bytes; an update with 0 changes nothing.
    pub memory: Option<u64>,
    /// `MemoryReservation`: bytes.
    pub memory_reservation: Option<u64>,
    /// `MemorySwap`: bytes of memory and swap together; -1 is no limit of swap. An engine refuses an update of the memory
    /// beyond this without it.
    pub memory_swap: Option<i64>,
    /// `PidsLimit`: processes and threads; -1 is no limit.
    pub pids_limit: Option<i64>,
    /// `BlkioWeight`: 10 to 1000.
    pub blkio_weight: Option<u16>,

    /// `MemorySwappiness`: 0 to 100. Not in an update; cgroup v1 only.
    pub memory_swappiness: Option<u8>,
    /// `OomKillDisable`. Not in an update; cgroup v1 only.
    pub oom_kill_disable: Option<bool>,
    /// `Ulimits`. Not in an update.
    pub ulimits: Vec<Ulimit>,
    /// `Devices`. Not in an update.
    pub devices: Vec<Device>,
    /// `DeviceCgroupRules`, as `c 1:3 rwm`. Not in an update.
    pub device_cgroup_rules: Vec<String>,
    /// `DeviceRequests` (GPUs). Not in an update.
    pub device_requests: Vec<DeviceRequest>,
}

/// A resource limit of the container's processes (setrlimit(2)).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ulimit {
    /// `Name`: the resource without `RLIMIT_`, in lower case (`nofile`).
    pub name: String,
    /// `Soft`; -1 is no limit.
    pub soft: i64,
    /// `Hard`; -1 is no limit.
    pub hard: i64,
}

/// A device of the host in the container.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Device {
    /// `PathOnHost`: absolute.
    pub path_on_host: String,
    /// `PathInContainer`: absolute.
    pub path_in_container: String,
    /// `CgroupPermissions`: of `r`, `w` and `m` (mknod) at least one.
    pub permissions: String,
}

/// Devices that a driver hands out (`docker run --gpus`).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DeviceRequest {
    /// `Driver`.
    pub driver: Option<String>,
    /// `Count`; -1 is all of them. Not together with `device_ids`.
    pub count: Option<i64>,
    /// `DeviceIDs`.
    pub device_ids: Vec<String>,
    /// `Capabilities`: alternatives, each a list of what is needed at once.
    pub capabilities: Vec<Vec<String>>,
    /// `Options`.
    pub options: BTreeMap<String, String>,
}
