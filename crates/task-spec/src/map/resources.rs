//! Requests and limits of processors and memory.
//!
//! `disk` is counted by Mesos' master and enforced by nobody: no engine bounds what a container writes, on every file
//! system. `ports` are checked where they are used. Anything else cannot be served and is refused.

use longshore_engine::ContainerSpec;
use longshore_mesos_api::v1::value::Type as ValueType;
use longshore_mesos_api::v1::{Resource, TaskInfo};

use crate::error::refused;
use crate::{TaskContext, TaskSpecError};

const MIB: u64 = 1024 * 1024;
/// The least that a container gets, whatever it asks for.
const MIN_MEMORY: u64 = 32 * MIB;
const MIN_SHARES: u64 = 2;
const SHARES_PER_CPU: f64 = 1024.0;
/// The period of the processor quota, in microseconds.
const PERIOD: u64 = 100_000;
const MIN_QUOTA: i64 = 1000;
/// More of either than any host has; far below where a conversion could overflow.
const MAX_CPUS: f64 = 1e6;
const MAX_MEMORY_MIB: f64 = 1e12;

/// What is asked for, summed over task and executor.
#[derive(Debug, Default)]
struct Wanted {
    cpus: Option<f64>,
    mem: Option<f64>,
}

pub(super) fn map(
    task: &TaskInfo,
    context: &TaskContext,
    spec: &mut ContainerSpec,
) -> Result<(), TaskSpecError> {
    let mut wanted = Wanted::default();
    let executor = task
        .executor
        .as_ref()
        .map(|executor| executor.resources.as_slice());
    let all = [
        ("resources", task.resources.as_slice()),
        ("executor.resources", executor.unwrap_or_default()),
    ];
    for (field, resources) in all {
        for resource in resources {
            wanted.take(field, resource, context)?;
        }
    }
    let limit = |name: &str, max: f64| -> Result<Option<f64>, TaskSpecError> {
        let Some(scalar) = task.limits.get(name) else {
            return Ok(None);
        };
        let value = scalar.value;
        if value.is_infinite() && value > 0.0 {
            return Ok(Some(value));
        }
        number(&format!("limits[{name}]"), value, max).map(Some)
    };
    if let Some(name) = task
        .limits
        .keys()
        .find(|name| !matches!(name.as_str(), "cpus" | "mem"))
    {
        return Err(refused("limits", name, "only cpus and mem can be limited"));
    }
    cpus(wanted.cpus, limit("cpus", MAX_CPUS)?, context, spec)?;
    memory(wanted.mem, limit("mem", MAX_MEMORY_MIB)?, context, spec)
}

impl Wanted {
    fn take(
        &mut self,
        field: &str,
        resource: &Resource,
        context: &TaskContext,
    ) -> Result<(), TaskSpecError> {
        let name = resource.name.as_str();
        let field = format!("{field}[{name}]");
        let scalar = || -> Result<f64, TaskSpecError> {
            let typed = ValueType::try_from(resource.r#type) == Ok(ValueType::Scalar);
            match &resource.scalar {
                Some(scalar) if typed => Ok(scalar.value),
                _ => Err(refused(&field, name, "it must be of type SCALAR")),
            }
        };
        match name {
            "cpus" => add(&mut self.cpus, number(&field, scalar()?, MAX_CPUS)?),
            "mem" => add(&mut self.mem, number(&field, scalar()?, MAX_MEMORY_MIB)?),
            "disk" => {
                number(&field, scalar()?, f64::MAX)?;
                let persistent = resource
                    .disk
                    .as_ref()
                    .and_then(|disk| disk.persistence.as_ref());
                if let Some(persistence) = persistent
                    && !context.prepared_by_agent
                {
                    return Err(refused(
                        field,
                        &persistence.id,
                        "nothing mounts a persistent volume without an agent: use a docker volume",
                    ));
                }
            }
            "ports" if resource.ranges.is_some() => ports(&field, resource)?,
            "ports" => return Err(refused(field, name, "it must be of type RANGES")),
            "gpus" => {
                let value = resource.scalar.as_ref().map_or(0.0, |scalar| scalar.value);
                return Err(refused(
                    field,
                    value,
                    "this executor hands out no GPUs: ask for them by the docker parameter `gpus`",
                ));
            }
            _ => {
                return Err(refused(
                    field,
                    name,
                    "only cpus, mem, disk and ports can be served",
                ));
            }
        }
        Ok(())
    }
}

fn add(sum: &mut Option<f64>, value: f64) {
    *sum = Some(sum.unwrap_or_default() + value);
}

fn number(field: &str, value: f64, max: f64) -> Result<f64, TaskSpecError> {
    if (0.0..=max).contains(&value) {
        Ok(value)
    } else {
        Err(refused(
            field,
            value,
            format!("it must be a number from 0 to {max:e}"),
        ))
    }
}

fn cpus(
    request: Option<f64>,
    limit: Option<f64>,
    context: &TaskContext,
    spec: &mut ContainerSpec,
) -> Result<(), TaskSpecError> {
    let resources = &mut spec.resources;
    if let Some(cpus) = request {
        resources.cpu_shares = Some(whole(SHARES_PER_CPU * cpus).max(MIN_SHARES));
    }
    below("limits[cpus]", request, limit)?;
    let bound = match limit {
        Some(limit) if limit.is_infinite() => None,
        Some(limit) => Some(limit),
        None if context.enable_cfs => request,
        None => None,
    };
    if let Some(cpus) = bound {
        let quota = i64::try_from(whole(PERIOD_F64 * cpus)).unwrap_or(i64::MAX);
        resources.cpu_period = Some(PERIOD);
        resources.cpu_quota = Some(quota.max(MIN_QUOTA));
    }
    Ok(())
}

const PERIOD_F64: f64 = 100_000.0;

fn memory(
    request: Option<f64>,
    limit: Option<f64>,
    context: &TaskContext,
    spec: &mut ContainerSpec,
) -> Result<(), TaskSpecError> {
    below("limits[mem]", request, limit)?;
    let bytes = |mib: f64| whole(mib).saturating_mul(MIB).max(MIN_MEMORY);
    spec.resources.memory = match (limit, request) {
        (Some(limit), _) if limit.is_infinite() => None,
        (Some(limit), _) => Some(bytes(limit)),
        (None, request) => request.map(bytes),
    };
    if let (Some(request), Some(limit)) = (request, limit) {
        spec.resources.memory_reservation = Some(bytes(request));
        if limit > request {
            spec.oom_score_adj = Some(oom_score(bytes(request), context.host_memory));
        }
    }
    Ok(())
}

/// The more of the host a task asked for, the less it is in the way when memory runs out: 0 to 1000.
fn oom_score(request: u64, host: u64) -> i32 {
    let part = u128::from(request) * 1000 / u128::from(host.max(1));
    1000 - i32::try_from(part.min(1000)).unwrap_or(1000)
}

fn below(field: &str, request: Option<f64>, limit: Option<f64>) -> Result<(), TaskSpecError> {
    match (request, limit) {
        (Some(request), Some(limit)) if limit < request => Err(refused(
            field,
            limit,
            format!("it is below the request of {request}"),
        )),
        _ => Ok(()),
    }
}

/// Without its fraction; the value has been bounded.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "the fraction is to go, and the value was checked to be from 0 to 1e12"
)]
const fn whole(value: f64) -> u64 {
    value as u64
}

/// Each range from a port to one that is not below it.
fn ports(field: &str, resource: &Resource) -> Result<(), TaskSpecError> {
    let ranges = resource.ranges.iter().flat_map(|ranges| &ranges.range);
    for (index, range) in ranges.enumerate() {
        if range.begin > range.end || range.end > u64::from(u16::MAX) {
            return Err(refused(
                format!("{field}.ranges.range[{index}]"),
                format!("{}-{}", range.begin, range.end),
                "it is no range of ports: 0 to 65535, the lower one first",
            ));
        }
    }
    Ok(())
}
