//! Rows 47 to 131 and 263 to 271 of the case tables, as far as they are about merging.

use longshore_nri_api::{Container, ContainerAdjustment, ContainerUpdate, Strip};

use super::*;

mod create;
mod laws;
mod update;

const BAR: &str = "00-bar";
const FOO: &str = "10-foo";

/// A change to an adjustment, as a plugin with this name would make it.
type Adjust = fn(&mut ContainerAdjustment, &str);

fn adjusted(adjust: Adjust, plugin: &str) -> CreateContainerResponse {
    let mut adjustment = ContainerAdjustment::default();
    adjust(&mut adjustment, plugin);
    CreateContainerResponse {
        adjust: Some(adjustment),
        ..CreateContainerResponse::default()
    }
}

fn create_request(change: impl FnOnce(&mut Container)) -> CreateContainerRequest {
    let mut container = Container {
        id: "ctr0".into(),
        name: "ctr0".into(),
        ..Container::default()
    };
    container.args = ["echo", "original", "argument", "list"]
        .map(str::to_owned)
        .to_vec();
    change(&mut container);
    CreateContainerRequest {
        pod: None,
        container: Some(container),
    }
}

/// The merged adjustment of plugins in this order, stripped.
fn merge(
    request: CreateContainerRequest,
    replies: &[(&str, Adjust)],
) -> Result<ContainerAdjustment, MergeError> {
    let mut merge = CreateMerge::new(request, Compat::Correct);
    for (plugin, adjust) in replies {
        merge.add(plugin, adjusted(*adjust, plugin))?;
    }
    Ok(merge.finish().adjustment.strip().unwrap_or_default())
}

fn update_of(id: &str, set: fn(&mut LinuxResources, &str), plugin: &str) -> ContainerUpdate {
    let mut update = ContainerUpdate::new(id);
    set(update.resources_mut(), plugin);
    update
}

fn set_cpu(resources: &mut LinuxResources, _plugin: &str) {
    resources
        .set_cpu_shares(123_u64)
        .set_cpu_quota(456)
        .set_cpu_period(789_u64);
    resources
        .set_cpu_realtime_runtime(321)
        .set_cpu_realtime_period(654_u64);
    resources.set_cpuset_cpus("0-1").set_cpuset_mems("2-3");
}

fn set_memory(resources: &mut LinuxResources, _plugin: &str) {
    resources
        .set_memory_limit(1_234_000)
        .set_memory_reservation(4_000)
        .set_memory_swap(34_000);
    resources
        .set_memory_kernel(30_000)
        .set_memory_kernel_tcp(2_000);
    resources.set_memory_swappiness(987_u64);
    resources
        .set_memory_disable_oom_killer(true)
        .set_memory_use_hierarchy(true);
}

fn set_classes(resources: &mut LinuxResources, plugin: &str) {
    resources.set_rdt_class(plugin).set_blockio_class(plugin);
}

fn set_hugepages(resources: &mut LinuxResources, _plugin: &str) {
    resources
        .add_hugepage_limit("1M", 4096)
        .add_hugepage_limit("4M", 1024);
}

fn set_unified(resources: &mut LinuxResources, _plugin: &str) {
    resources
        .set_unified("resource.1", "value1")
        .set_unified("resource.2", "value2");
}
