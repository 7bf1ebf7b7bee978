use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;

use longshore_nri_api::{CdiDevice, ContainerAdjustment, LinuxContainerAdjustment};
use oci_spec::runtime::{LinuxBlockIo, LinuxIntelRdt, LinuxResources, Spec};

use crate::{ApplyError, Propagation, device, keyed, linux, mount, process, resources, seccomp};

/// What a function of the runtime says when it refuses.
pub type Refusal = Box<dyn std::error::Error + Send + Sync>;

type Filter = dyn Fn(&mut BTreeMap<String, String>) -> Result<(), Refusal> + Send + Sync;
type Resolver<T> = dyn Fn(&str) -> Result<T, Refusal> + Send + Sync;
type CdiInjector = dyn Fn(&mut Spec, &[String]) -> Result<(), Refusal> + Send + Sync;
type ResourceCheck = dyn Fn(&LinuxResources) -> Result<(), Refusal> + Send + Sync;
type Lookup = dyn Fn(&Path) -> Result<Propagation, Refusal> + Send + Sync;

/// Applies adjustments, with what the runtime adds to it.
///
/// `Adjuster::default()` filters nothing, resolves no classes and no CDI devices (an adjustment
/// that has some is refused), and asks `/proc/self/mountinfo` about propagation.
#[derive(Default)]
pub struct Adjuster {
    annotation_filter: Option<Box<Filter>>,
    sysctl_filter: Option<Box<Filter>>,
    blockio: Option<Box<Resolver<LinuxBlockIo>>>,
    rdt: Option<Box<Resolver<LinuxIntelRdt>>>,
    cdi: Option<Box<CdiInjector>>,
    resource_check: Option<Box<ResourceCheck>>,
    propagation: Option<Box<Lookup>>,
    ignore_unsupported: bool,
}

impl fmt::Debug for Adjuster {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Adjuster")
            .field("annotation_filter", &self.annotation_filter.is_some())
            .field("sysctl_filter", &self.sysctl_filter.is_some())
            .field("blockio", &self.blockio.is_some())
            .field("rdt", &self.rdt.is_some())
            .field("cdi", &self.cdi.is_some())
            .field("resource_check", &self.resource_check.is_some())
            .field("propagation", &self.propagation.is_some())
            .field("ignore_unsupported", &self.ignore_unsupported)
            .finish()
    }
}

impl Adjuster {
    /// Sees the annotations of an adjustment before they are applied, keys with a leading dash
    /// among them; may change and drop entries, or refuse.
    #[must_use]
    pub fn with_annotation_filter(
        mut self,
        filter: impl Fn(&mut BTreeMap<String, String>) -> Result<(), Refusal> + Send + Sync + 'static,
    ) -> Self {
        self.annotation_filter = Some(Box::new(filter));
        self
    }

    /// As [`Self::with_annotation_filter`], for sysctls.
    #[must_use]
    pub fn with_sysctl_filter(
        mut self,
        filter: impl Fn(&mut BTreeMap<String, String>) -> Result<(), Refusal> + Send + Sync + 'static,
    ) -> Self {
        self.sysctl_filter = Some(Box::new(filter));
        self
    }

    /// Says what a block I/O class means. It is not asked about the empty class, which clears.
    #[must_use]
    pub fn with_blockio_classes(
        mut self,
        resolve: impl Fn(&str) -> Result<LinuxBlockIo, Refusal> + Send + Sync + 'static,
    ) -> Self {
        self.blockio = Some(Box::new(resolve));
        self
    }

    /// Says what an RDT class means. It is not asked about the empty class, which clears.
    #[must_use]
    pub fn with_rdt_classes(
        mut self,
        resolve: impl Fn(&str) -> Result<LinuxIntelRdt, Refusal> + Send + Sync + 'static,
    ) -> Self {
        self.rdt = Some(Box::new(resolve));
        self
    }

    /// Injects CDI devices, given by their qualified names, into the spec.
    #[must_use]
    pub fn with_cdi(
        mut self,
        inject: impl Fn(&mut Spec, &[String]) -> Result<(), Refusal> + Send + Sync + 'static,
    ) -> Self {
        self.cdi = Some(Box::new(inject));
        self
    }

    /// Judges the resources of the spec after an adjustment changed them.
    #[must_use]
    pub fn with_resource_check(
        mut self,
        check: impl Fn(&LinuxResources) -> Result<(), Refusal> + Send + Sync + 'static,
    ) -> Self {
        self.resource_check = Some(Box::new(check));
        self
    }

    /// Says how the host's mount that holds a path propagates, in place of
    /// [`host_propagation`](crate::host_propagation).
    #[must_use]
    pub fn with_propagation(
        mut self,
        lookup: impl Fn(&Path) -> Result<Propagation, Refusal> + Send + Sync + 'static,
    ) -> Self {
        self.propagation = Some(Box::new(lookup));
        self
    }

    /// Leaves out classes and CDI devices for which there is no function, as Go does, in place
    /// of refusing the adjustment.
    #[must_use]
    pub fn ignoring_unsupported(mut self) -> Self {
        self.ignore_unsupported = true;
        self
    }

    /// Applies a merged adjustment to the spec of the container.
    ///
    /// # Errors
    /// [`ApplyError`], which names the member of the adjustment; the spec is then unchanged.
    pub fn apply(
        &self,
        spec: &mut Spec,
        adjustment: &ContainerAdjustment,
    ) -> Result<(), ApplyError> {
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
        let mut next = spec.clone();
        self.annotations(&mut next, annotations)?;
        process::env(&mut next, env)?;
        process::args(&mut next, args)?;
        process::hooks(&mut next, hooks.as_ref())?;
        self.cdi(&mut next, cdi_devices)?;
        if let Some(linux) = linux {
            self.linux(&mut next, linux)?;
        }
        mount::apply(&mut next, mounts, |path| self.propagation_of(path))?;
        process::rlimits(&mut next, rlimits)?;
        *spec = next;
        Ok(())
    }

    fn linux(
        &self,
        spec: &mut Spec,
        adjustment: &LinuxContainerAdjustment,
    ) -> Result<(), ApplyError> {
        let LinuxContainerAdjustment {
            devices,
            resources,
            cgroups_path,
            oom_score_adj,
            io_priority,
            seccomp_policy,
            namespaces,
            sysctl,
            net_devices,
            scheduler,
            rdt,
            memory_policy,
        } = adjustment;
        device::apply(spec, devices)?;
        linux::cgroups_path(spec, cgroups_path)?;
        process::oom_score_adj(spec, oom_score_adj.as_ref())?;
        process::io_priority(spec, io_priority.as_ref())?;
        process::scheduler(spec, scheduler.as_ref())?;
        if let Some(policy) = seccomp_policy {
            linux::part(spec).set_seccomp(Some(seccomp::policy(policy)?));
        }
        linux::namespaces(spec, namespaces)?;
        self.sysctl(spec, sysctl)?;
        linux::net_devices(spec, net_devices)?;
        linux::memory_policy(spec, memory_policy.as_ref())?;
        if let Some(wanted) = resources {
            resources::apply(spec, wanted)?;
            self.check_resources(spec)?;
            let blockio = wanted.blockio_class.as_ref().map(|it| it.value.as_str());
            let class = self.class("linux.resources.blockio_class", blockio, &self.blockio)?;
            if let Some(class) = class {
                linux::block_io(spec, class);
            }
            let rdt = wanted.rdt_class.as_ref().map(|it| it.value.as_str());
            if let Some(class) = self.class("linux.resources.rdt_class", rdt, &self.rdt)? {
                linux::intel_rdt(spec, class);
            }
        }
        linux::rdt(spec, rdt.as_ref())
    }

    fn annotations(
        &self,
        spec: &mut Spec,
        annotations: &BTreeMap<String, String>,
    ) -> Result<(), ApplyError> {
        const FIELD: &str = "annotations";
        let annotations = filtered(FIELD, annotations, self.annotation_filter.as_deref())?;
        let entries = annotations.iter().map(|(key, value)| (key, value.clone()));
        keyed::apply(FIELD, entries, spec.annotations_mut())
    }

    fn sysctl(&self, spec: &mut Spec, sysctl: &BTreeMap<String, String>) -> Result<(), ApplyError> {
        const FIELD: &str = "linux.sysctl";
        let sysctl = filtered(FIELD, sysctl, self.sysctl_filter.as_deref())?;
        if sysctl.is_empty() {
            return Ok(());
        }
        for value in sysctl.values() {
            keyed::text(FIELD, value)?;
        }
        let entries = sysctl.iter().map(|(key, value)| (key, value.clone()));
        keyed::apply(FIELD, entries, linux::part(spec).sysctl_mut())
    }

    fn cdi(&self, spec: &mut Spec, devices: &[CdiDevice]) -> Result<(), ApplyError> {
        const FIELD: &str = "CDI_devices";
        let Some(first) = devices.first() else {
            return Ok(());
        };
        let Some(inject) = &self.cdi else {
            return self.unsupported(FIELD, &first.name);
        };
        let names: Vec<String> = devices.iter().map(|device| device.name.clone()).collect();
        inject(spec, &names).map_err(ApplyError::refused(FIELD, &names.join(",")))
    }

    /// What a class means: nothing to do, cleared, or the class.
    #[expect(
        clippy::option_option,
        reason = "absent, cleared and set are three things"
    )]
    fn class<T>(
        &self,
        field: &'static str,
        class: Option<&str>,
        resolver: &Option<Box<Resolver<T>>>,
    ) -> Result<Option<Option<T>>, ApplyError> {
        match (class, resolver) {
            (None, _) => Ok(None),
            (Some(""), _) => Ok(Some(None)),
            (Some(class), Some(resolve)) => resolve(class)
                .map(|class| Some(Some(class)))
                .map_err(ApplyError::refused(field, class)),
            (Some(class), None) => self.unsupported(field, class).map(|()| None),
        }
    }

    fn unsupported(&self, field: &'static str, value: &str) -> Result<(), ApplyError> {
        if self.ignore_unsupported {
            return Ok(());
        }
        Err(ApplyError::Unsupported {
            field,
            value: value.to_owned(),
        })
    }

    fn check_resources(&self, spec: &Spec) -> Result<(), ApplyError> {
        let resources = spec
            .linux()
            .as_ref()
            .and_then(|linux| linux.resources().as_ref());
        match (&self.resource_check, resources) {
            (Some(check), Some(resources)) => {
                check(resources).map_err(ApplyError::refused("linux.resources", ""))
            }
            _ => Ok(()),
        }
    }

    fn propagation_of(&self, path: &Path) -> Result<Propagation, Refusal> {
        match &self.propagation {
            Some(lookup) => lookup(path),
            None => crate::host_propagation(path).map_err(Into::into),
        }
    }
}

fn filtered(
    field: &'static str,
    entries: &BTreeMap<String, String>,
    filter: Option<&Filter>,
) -> Result<BTreeMap<String, String>, ApplyError> {
    let mut entries = entries.clone();
    if let Some(filter) = filter.filter(|_| !entries.is_empty()) {
        filter(&mut entries).map_err(ApplyError::refused(field, ""))?;
    }
    Ok(entries)
}
