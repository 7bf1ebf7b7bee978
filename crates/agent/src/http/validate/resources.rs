//! The rules for resources and limits.

use std::collections::BTreeMap;

use longshore_mesos_api::v1::{Resource, value};

use super::Broken;

/// Every resource is well formed, GPUs are whole, and a container without a parent has only plain ones: unreserved,
/// not persistent, not revocable.
pub(super) fn check(resources: &[Resource], top_level: bool) -> Result<(), Broken> {
    for resource in resources {
        check_value(resource)
            .and_then(|()| {
                if top_level {
                    check_plain(resource)
                } else {
                    Ok(())
                }
            })
            .map_err(|broken| format!("Resource '{}' is invalid: {broken}", describe(resource)))?;
    }
    Ok(())
}

/// Upper limits are numbers, not negative; infinity lifts a limit.
pub(super) fn check_limits(limits: &BTreeMap<String, value::Scalar>) -> Result<(), Broken> {
    for (name, limit) in limits {
        if limit.value.is_nan() || limit.value < 0.0 {
            return Err(format!(
                "the limit of '{name}' is {}; it must not be negative",
                limit.value
            ));
        }
    }
    Ok(())
}

#[expect(deprecated, reason = "the old form of a reservation is still sent")]
fn check_value(resource: &Resource) -> Result<(), Broken> {
    if resource.name.is_empty() {
        return Err("Empty resource name".into());
    }
    if resource.role.as_deref() == Some("") {
        return Err("Empty role".into());
    }
    match value::Type::try_from(resource.r#type) {
        Ok(value::Type::Scalar) => check_scalar(resource),
        Ok(value::Type::Ranges) => check_ranges(resource),
        Ok(value::Type::Set) => check_set(resource),
        Ok(value::Type::Text) | Err(_) => Err("Unsupported resource type".into()),
    }
}

fn check_scalar(resource: &Resource) -> Result<(), Broken> {
    let (Some(scalar), None, None) = (&resource.scalar, &resource.ranges, &resource.set) else {
        return Err("Invalid scalar resource".into());
    };
    // Zero is fine, as on a Mesos agent, whatever its text says.
    if scalar.value.is_nan() || scalar.value < 0.0 {
        return Err("Invalid scalar resource: value <= 0".into());
    }
    if scalar.value.is_infinite() {
        return Err("Invalid scalar resource: value is infinite".into());
    }
    if resource.name == "gpus" && scalar.value.fract() != 0.0 {
        return Err("GPUs must be whole".into());
    }
    Ok(())
}

fn check_ranges(resource: &Resource) -> Result<(), Broken> {
    let (None, Some(ranges), None) = (&resource.scalar, &resource.ranges, &resource.set) else {
        return Err("Invalid ranges resource".into());
    };
    let mut sorted: Vec<(u64, u64)> = ranges
        .range
        .iter()
        .map(|range| (range.begin, range.end))
        .collect();
    sorted.sort_unstable();
    if let Some((begin, end)) = sorted.iter().find(|(begin, end)| begin > end) {
        return Err(format!(
            "Invalid ranges resource: [{begin}-{end}] ends before it begins"
        ));
    }
    if sorted.windows(2).any(|pair| pair[1].0 <= pair[0].1) {
        return Err("Invalid ranges resource: overlapping ranges".into());
    }
    Ok(())
}

fn check_set(resource: &Resource) -> Result<(), Broken> {
    let (None, None, Some(set)) = (&resource.scalar, &resource.ranges, &resource.set) else {
        return Err("Invalid set resource".into());
    };
    let mut sorted: Vec<&str> = set.item.iter().map(String::as_str).collect();
    sorted.sort_unstable();
    if sorted.windows(2).any(|pair| pair[0] == pair[1]) {
        return Err("Invalid set resource: duplicated elements".into());
    }
    Ok(())
}

#[expect(deprecated, reason = "the old form of a reservation is still sent")]
fn check_plain(resource: &Resource) -> Result<(), Broken> {
    let reserved = !resource.reservations.is_empty()
        || resource.reservation.is_some()
        || resource.role.as_deref().is_some_and(|role| role != "*");
    let disk = resource.disk.as_ref();
    if reserved {
        Err("a container without a parent takes only unreserved resources".into())
    } else if disk.is_some_and(|disk| disk.persistence.is_some()) {
        Err("a container without a parent takes no persistent volume".into())
    } else if resource.revocable.is_some() {
        Err("a container without a parent takes no revocable resources".into())
    } else if resource.shared.is_some() {
        Err("only a persistent volume can be shared".into())
    } else {
        Ok(())
    }
}

/// `cpus:0.5`, as Mesos writes it.
fn describe(resource: &Resource) -> String {
    match &resource.scalar {
        Some(scalar) => format!("{}:{}", resource.name, scalar.value),
        None => resource.name.clone(),
    }
}
