//! What plugins adjust and update, over the wire: rows 47 to 86 and 102 to 131.

use longshore_nri_adaptation::{Adaptation, RequestError};
use longshore_nri_api::{
    Container, ContainerAdjustment, ContainerUpdate, CreateContainerRequest,
    CreateContainerResponse, Hook, Hooks, IoPrioClass, LinuxDevice, LinuxMemoryPolicy,
    LinuxNamespace, LinuxResources, LinuxScheduler, LinuxSchedulerFlag, LinuxSchedulerPolicy,
    LinuxSeccomp, LinuxSyscall, Mount, MpolFlag, MpolMode, Strip, UpdateContainerRequest,
    UpdateContainerResponse,
};
use prost::Message;

use crate::fake::{Fake, Live, adaptation, container, creation, options, pod};

/// A change to an adjustment, as the plugin of this full name makes it to the container it is shown.
type Adjust = fn(&mut ContainerAdjustment, &str, &Container);
/// As that, to resources.
type Set = fn(&mut LinuxResources, &str);

const FOO: &str = "10-foo";
const BAR: &str = "00-bar";

fn adjusts(name: &'static str, adjust: Adjust) -> Fake {
    Fake::new(name).on("CreateContainer", move |request| async move {
        let request = CreateContainerRequest::decode(request).unwrap();
        let mut reply = CreateContainerResponse::default();
        adjust(
            reply.adjust.get_or_insert_default(),
            name,
            &request.container.unwrap(),
        );
        Ok(reply)
    })
}

/// The container of the rows.
fn original() -> CreateContainerRequest {
    let mut request = creation(0);
    let container = request.container.get_or_insert_default();
    container.args = ["echo", "original", "argument", "list"]
        .map(str::to_owned)
        .to_vec();
    container
        .mounts
        .push(mount("/remove/test/destination", "/remove/test"));
    let linux = container.linux.get_or_insert_default();
    let resources = linux.resources.get_or_insert_default();
    resources.set_cpu_shares(111_u64).set_memory_limit(11111);
    linux.namespaces.push(namespace());
    request
}

async fn create(adaptation: &Adaptation) -> Result<ContainerAdjustment, RequestError> {
    let created = adaptation.create_container(original(), &options()).await?;
    Ok(created.adjustment.strip().unwrap_or_default())
}

/// One plugin: its adjustment comes out as it went in.
async fn one(adjust: Adjust) {
    let adaptation = adaptation().await;
    let _plugin = adjusts("00-test", adjust).join(&adaptation).await;
    let mut expected = ContainerAdjustment::default();
    adjust(&mut expected, "00-test", &original().container.unwrap());
    assert_eq!(
        create(&adaptation).await.unwrap(),
        expected.strip().unwrap()
    );
}

/// Two plugins, the second of which is asked first.
async fn two(first: Adjust, second: Adjust) -> Result<ContainerAdjustment, RequestError> {
    let adaptation = adaptation().await;
    let _foo = adjusts(FOO, second).join(&adaptation).await;
    let _bar = adjusts(BAR, first).join(&adaptation).await;
    create(&adaptation).await
}

async fn conflict(adjust: Adjust) {
    let failed = two(adjust, adjust).await.unwrap_err().to_string();
    assert!(
        failed.starts_with(r#"plugins "00-bar" and "10-foo" both tried to set"#),
        "{failed}"
    );
}

fn mount(destination: &str, source: &str) -> Mount {
    Mount {
        destination: destination.to_owned(),
        source: source.to_owned(),
        r#type: "bind".to_owned(),
        options: Vec::new(),
    }
}

fn namespace() -> LinuxNamespace {
    LinuxNamespace {
        r#type: "cgroup".to_owned(),
        path: "/".to_owned(),
    }
}

fn device(plugin: &str) -> LinuxDevice {
    LinuxDevice {
        path: "/dev/test".to_owned(),
        r#type: "c".to_owned(),
        major: 313,
        minor: if plugin == FOO { 110 } else { 100 },
        ..Default::default()
    }
}

fn hooks(plugin: &str) -> Hooks {
    let hook = Hook {
        path: format!("/bin/{plugin}"),
        ..Default::default()
    };
    Hooks {
        prestart: vec![hook],
        ..Default::default()
    }
}

fn scheduler() -> LinuxScheduler {
    LinuxScheduler {
        policy: LinuxSchedulerPolicy::SchedFifo.into(),
        priority: 10,
        flags: vec![LinuxSchedulerFlag::SchedFlagResetOnFork.into()],
        ..Default::default()
    }
}

fn seccomp() -> LinuxSeccomp {
    LinuxSeccomp {
        default_action: "SCMP_ACT_ALLOW".to_owned(),
        listener_path: "/run/meshuggah-rocks.sock".to_owned(),
        syscalls: vec![LinuxSyscall {
            names: vec!["sched_getaffinity".to_owned()],
            action: "SCMP_ACT_NOTIFY".to_owned(),
            ..Default::default()
        }],
        ..Default::default()
    }
}

fn cpu(resources: &mut LinuxResources, _: &str) {
    resources
        .set_cpu_shares(123_u64)
        .set_cpu_quota(456)
        .set_cpu_period(789_u64);
    resources
        .set_cpu_realtime_runtime(321)
        .set_cpu_realtime_period(654_u64);
    resources.set_cpuset_cpus("0-1").set_cpuset_mems("2-3");
}

fn memory(resources: &mut LinuxResources, _: &str) {
    resources
        .set_memory_limit(1_234_000)
        .set_memory_reservation(4000)
        .set_memory_swap(34_000);
    resources
        .set_memory_kernel(30_000)
        .set_memory_kernel_tcp(2000);
    resources.set_memory_swappiness(987_u64);
    resources
        .set_memory_disable_oom_killer(true)
        .set_memory_use_hierarchy(true);
}

fn classes(resources: &mut LinuxResources, plugin: &str) {
    resources.set_rdt_class(plugin).set_blockio_class(plugin);
}

fn hugepages(resources: &mut LinuxResources, _: &str) {
    resources
        .add_hugepage_limit("1M", 4096)
        .add_hugepage_limit("4M", 1024);
}

fn unified(resources: &mut LinuxResources, _: &str) {
    resources
        .set_unified("resource.1", "value1")
        .set_unified("resource.2", "value2");
}

fn rdt(adjust: &mut ContainerAdjustment) {
    adjust
        .set_rdt_clos_id("test")
        .set_rdt_schemata(["L3:0=ff", "MB:0=50"]);
    adjust.set_rdt_enable_monitoring(true);
}

macro_rules! rows {
    ($check:ident: $($name:ident: |$a:pat_param, $plugin:pat_param| $change:expr;)*) => {$(
        #[tokio::test]
        async fn $name() {
            $check(|$a, $plugin, _| {
                $change;
            })
            .await;
        }
    )*};
}

rows! { one:
    row_047_annotation: |a, plugin| a.add_annotation("key", plugin);
    row_048_mount: |a, plugin| a.add_mount(mount("/mnt/test", &format!("/dev/{plugin}")));
    row_049_remove_mount: |a, _| a.remove_mount("/remove/test/destination");
    row_050_environment: |a, plugin| a.add_env("key", plugin);
    row_051_arguments: |a, _| a.set_args(["echo", "updated", "argument", "list"]);
    row_052_hooks: |a, plugin| a.add_hooks(hooks(plugin));
    row_053_devices: |a, plugin| a.add_device(device(plugin));
    row_054_namespace: |a, _| a.add_or_replace_namespace(namespace());
    row_055_rlimits: |a, _| a.add_rlimit("nofile", 456, 123);
    row_056_cdi_devices: |a, _| a.add_cdi_device("vendor0.com/dev=dev0");
    row_057_io_priority: |a, _| a.set_io_priority(IoPrioClass::IoprioClassRt, 5);
    row_058_net_devices: |a, _| a.add_net_device("hostIf", "containerIf");
    row_059_scheduler: |a, _| a.set_scheduler(scheduler());
    row_060_sysctl: |a, _| a.set_sysctl("net.core.somaxconn", "256");
    row_061_memory_policy: |a, _| a.set_memory_policy(LinuxMemoryPolicy {
        mode: MpolMode::MpolInterleave.into(),
        nodes: "0,1".to_owned(),
        flags: vec![MpolFlag::MpolFStaticNodes.into()],
    });
    row_062_cpu: |a, plugin| cpu(a.resources_mut(), plugin);
    row_063_memory: |a, plugin| memory(a.resources_mut(), plugin);
    row_064_classes: |a, plugin| classes(a.resources_mut(), plugin);
    row_065_hugepages: |a, plugin| hugepages(a.resources_mut(), plugin);
    row_066_unified: |a, plugin| unified(a.resources_mut(), plugin);
    row_067_cgroups_path: |a, plugin| a.set_cgroups_path(format!("/{plugin}"));
    row_068_seccomp_policy: |a, _| a.set_seccomp_policy(seccomp());
    row_069_rdt: |a, _| rdt(a);
}

rows! { conflict:
    row_070_annotation_conflict: |a, plugin| a.add_annotation("key", plugin);
    row_072_mount_conflict: |a, plugin| a.add_mount(mount("/mnt/test", plugin));
    row_074_environment_conflict: |a, plugin| a.add_env("key", plugin);
    row_076_arguments_conflict: |a, _| a.set_args(["echo", "updated"]);
    row_079_devices_conflict: |a, plugin| a.add_device(device(plugin));
    row_081_classes_conflict: |a, plugin| classes(a.resources_mut(), plugin);
    row_082_io_priority_conflict: |a, _| a.set_io_priority(IoPrioClass::IoprioClassRt, 5);
    row_084_net_devices_conflict: |a, _| a.add_net_device("hostIf", "containerIf");
    row_085_scheduler_conflict: |a, _| a.set_scheduler(scheduler());
    row_086_rdt_conflict: |a, _| rdt(a);
}

#[tokio::test]
async fn row_071_annotation_overwrite() {
    let first: Adjust = |a, plugin, _| {
        a.add_annotation("key", plugin);
    };
    let second: Adjust = |a, plugin, _| {
        a.remove_annotation("key").add_annotation("key", plugin);
    };
    let merged = two(first, second).await.unwrap();
    assert_eq!(merged.annotations.get("key").map(String::as_str), Some(FOO));
}

#[tokio::test]
async fn row_073_mount_overwrite() {
    let first: Adjust = |a, plugin, _| {
        a.add_mount(mount("/mnt/test", plugin));
    };
    let second: Adjust = |a, plugin, _| {
        a.remove_mount("/mnt/test")
            .add_mount(mount("/mnt/test", plugin));
    };
    assert_eq!(
        two(first, second).await.unwrap().mounts,
        [mount("/mnt/test", FOO)]
    );
}

#[tokio::test]
async fn row_075_environment_overwrite() {
    let first: Adjust = |a, plugin, _| {
        a.add_env("key", plugin);
    };
    let second: Adjust = |a, plugin, _| {
        a.remove_env("key").add_env("key", plugin);
    };
    let merged = two(first, second).await.unwrap();
    let [entry] = &merged.env[..] else {
        panic!("one entry: {:?}", merged.env)
    };
    assert_eq!((entry.key.as_str(), entry.value.as_str()), ("key", FOO));
}

#[tokio::test]
async fn row_077_arguments_overwrite_and_the_second_plugin_saw_those_of_the_first() {
    let first: Adjust = |a, _, _| {
        a.set_args(["echo", "updated", "argument", "list"]);
    };
    let second: Adjust = |a, _, shown| {
        let more = ["twice...".to_owned()];
        a.update_args(shown.args.iter().cloned().chain(more));
    };
    let merged = two(first, second).await.unwrap();
    assert_eq!(
        merged.args,
        ["echo", "updated", "argument", "list", "twice..."]
    );
}

#[tokio::test]
async fn row_078_hooks_add_up_in_order() {
    let add: Adjust = |a, plugin, _| {
        a.add_hooks(hooks(plugin));
    };
    let merged = two(add, add).await.unwrap();
    let paths: Vec<_> = merged
        .hooks
        .unwrap()
        .prestart
        .into_iter()
        .map(|it| it.path)
        .collect();
    assert_eq!(paths, ["/bin/00-bar", "/bin/10-foo"]);
}

#[tokio::test]
async fn row_080_devices_overwrite() {
    let first: Adjust = |a, plugin, _| {
        a.add_device(device(plugin));
    };
    let second: Adjust = |a, plugin, _| {
        a.remove_device("/dev/test").add_device(device(plugin));
    };
    assert_eq!(
        two(first, second).await.unwrap().linux.unwrap().devices,
        [device(FOO)]
    );
}

#[tokio::test]
async fn row_083_sysctl_overwrite() {
    let first: Adjust = |a, plugin, _| {
        a.set_sysctl("kernel.domainname", plugin);
    };
    let second: Adjust = |a, plugin, _| {
        a.remove_sysctl("kernel.domainname")
            .set_sysctl("kernel.domainname", plugin);
    };
    let sysctl = two(first, second).await.unwrap().linux.unwrap().sysctl;
    assert_eq!(
        sysctl.get("kernel.domainname").map(String::as_str),
        Some(FOO)
    );
    assert_eq!(sysctl.len(), 1);
}

fn update_of(id: &str, set: Set, plugin: &str) -> ContainerUpdate {
    let mut update = ContainerUpdate::new(id);
    set(update.resources_mut(), plugin);
    update
}

/// A plugin that updates container 0: when container 1 is created, and when container 0 is updated.
async fn updates(adaptation: &Adaptation, name: &'static str, set: Set) -> Live {
    let fake = Fake::new(name)
        .on("CreateContainer", move |request| async move {
            let request = CreateContainerRequest::decode(request).unwrap();
            let mut reply = CreateContainerResponse::default();
            if request.container.unwrap().id == "ctr1" {
                reply.update.push(update_of("ctr0", set, name));
            }
            Ok(reply)
        })
        .on("UpdateContainer", move |_| async move {
            Ok(UpdateContainerResponse {
                update: vec![update_of("ctr0", set, name)],
                evict: Vec::new(),
            })
        });
    fake.join(adaptation).await
}

/// Creates container 0, then container 1; the updates of the second creation.
async fn created(adaptation: &Adaptation) -> Result<Vec<ContainerUpdate>, RequestError> {
    let first = adaptation.create_container(creation(0), &options()).await?;
    assert!(first.updates.is_empty());
    Ok(adaptation
        .create_container(creation(1), &options())
        .await?
        .updates)
}

async fn create_one(set: Set) {
    let adaptation = adaptation().await;
    let _plugin = updates(&adaptation, "00-test", set).await;
    let updates = created(&adaptation).await.unwrap();
    assert_eq!(updates, [update_of("ctr0", set, "00-test")]);
}

/// Only the first of two plugins updates.
async fn create_only(set: Set) {
    let adaptation = adaptation().await;
    let _foo = updates(&adaptation, FOO, set).await;
    let _bar = Fake::new(BAR).join(&adaptation).await;
    assert_eq!(
        created(&adaptation).await.unwrap(),
        [update_of("ctr0", set, FOO)]
    );
}

async fn create_both(set: Set) {
    let adaptation = adaptation().await;
    let _foo = updates(&adaptation, FOO, set).await;
    let _bar = updates(&adaptation, BAR, set).await;
    assert!(matches!(
        created(&adaptation).await,
        Err(RequestError::Merge(_))
    ));
}

/// The resources that the rows ask for.
fn requested() -> LinuxResources {
    let mut resources = LinuxResources::default();
    resources
        .set_cpu_shares(999_u64)
        .set_cpu_quota(888)
        .set_cpu_period(777_u64);
    resources
        .set_cpu_realtime_runtime(666)
        .set_cpu_realtime_period(555_u64);
    resources.set_cpuset_cpus("444").set_cpuset_mems("333");
    resources
        .set_memory_limit(9999)
        .set_memory_reservation(8888)
        .set_memory_swap(7777);
    resources
        .set_memory_kernel(6666)
        .set_memory_kernel_tcp(5555);
    resources.set_memory_swappiness(444_u64);
    resources
        .set_memory_disable_oom_killer(false)
        .set_memory_use_hierarchy(false);
    resources
}

async fn updated(adaptation: &Adaptation) -> Result<LinuxResources, RequestError> {
    let request = UpdateContainerRequest {
        pod: Some(pod(0)),
        container: Some(container(0)),
        linux_resources: Some(requested()),
    };
    let change = adaptation.update_container(request, &options()).await?;
    assert!(change.updates.is_empty());
    Ok(change.requested)
}

fn overlaid(set: Set, plugin: &str) -> LinuxResources {
    let mut resources = requested();
    set(&mut resources, plugin);
    resources
}

async fn update_one(set: Set) {
    let adaptation = adaptation().await;
    let _plugin = updates(&adaptation, "00-test", set).await;
    assert_eq!(
        updated(&adaptation).await.unwrap(),
        overlaid(set, "00-test")
    );
}

async fn update_only(set: Set) {
    let adaptation = adaptation().await;
    let _foo = updates(&adaptation, FOO, set).await;
    let _bar = Fake::new(BAR).join(&adaptation).await;
    assert_eq!(updated(&adaptation).await.unwrap(), overlaid(set, FOO));
}

async fn update_both(set: Set) {
    let adaptation = adaptation().await;
    let _foo = updates(&adaptation, FOO, set).await;
    let _bar = updates(&adaptation, BAR, set).await;
    assert!(matches!(
        updated(&adaptation).await,
        Err(RequestError::Merge(_))
    ));
}

macro_rules! update_rows {
    ($($name:ident: $check:ident($set:ident);)*) => {$(
        #[tokio::test]
        async fn $name() {
            $check($set).await;
        }
    )*};
}

update_rows! {
    row_102_creation_with_an_update_of_cpu: create_one(cpu);
    row_103_creation_with_an_update_of_memory: create_one(memory);
    row_104_creation_with_an_update_of_classes: create_one(classes);
    row_105_creation_with_an_update_of_hugepages: create_one(hugepages);
    row_106_creation_with_an_update_of_unified: create_one(unified);
    row_107_creation_with_two_updates_of_cpu: create_both(cpu);
    row_108_creation_with_one_update_of_cpu: create_only(cpu);
    row_109_creation_with_two_updates_of_memory: create_both(memory);
    row_110_creation_with_one_update_of_memory: create_only(memory);
    row_111_creation_with_two_updates_of_classes: create_both(classes);
    row_112_creation_with_one_update_of_classes: create_only(classes);
    row_113_creation_with_two_updates_of_hugepages: create_both(hugepages);
    row_114_creation_with_one_update_of_hugepages: create_only(hugepages);
    row_115_creation_with_two_updates_of_unified: create_both(unified);
    row_116_creation_with_one_update_of_unified: create_only(unified);
    row_117_update_of_cpu: update_one(cpu);
    row_118_update_of_memory: update_one(memory);
    row_119_update_of_classes: update_one(classes);
    row_120_update_of_hugepages: update_one(hugepages);
    row_121_update_of_unified: update_one(unified);
    row_122_two_updates_of_cpu: update_both(cpu);
    row_123_one_update_of_cpu: update_only(cpu);
    row_124_two_updates_of_memory: update_both(memory);
    row_125_one_update_of_memory: update_only(memory);
    row_126_two_updates_of_classes: update_both(classes);
    row_127_one_update_of_classes: update_only(classes);
    row_128_two_updates_of_hugepages: update_both(hugepages);
    row_129_one_update_of_hugepages: update_only(hugepages);
    row_130_two_updates_of_unified: update_both(unified);
    row_131_one_update_of_unified: update_only(unified);
}
