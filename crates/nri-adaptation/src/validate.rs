//! The default validator: what an operator forbids plugins to adjust, and which plugins a container
//! must not be created without.
//!
//! A pure function of the request that every validator gets. What cannot be judged is rejected: an
//! annotation that is no list, an adjustment without an owner.
//!
//! ```
//! use longshore_nri_adaptation::validate::DefaultValidator;
//! use longshore_nri_api::ValidateContainerAdjustmentRequest;
//!
//! let validator = DefaultValidator {
//!     required_plugins: vec!["device-injector".into()],
//!     ..DefaultValidator::default()
//! };
//! let error = validator.check(&ValidateContainerAdjustmentRequest::default()).unwrap_err();
//! assert_eq!(error.to_string(), "required plugin \"device-injector\" is not there");
//! ```

use longshore_nri_api::security_profile::ProfileType;
use longshore_nri_api::{
    ContainerAdjustment, Field, LinuxContainerAdjustment, PluginInstance, PodSandbox,
    ValidateContainerAdjustmentRequest, annotation, removed_key,
};

/// The longest annotation that is read, in bytes, and the most plugins that one may name.
const ANNOTATION_MAX: usize = 16 << 10;
const REQUIRED_MAX: usize = 256;

/// What is rejected; nothing, by default.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DefaultValidator {
    /// Any OCI hook.
    pub reject_oci_hook_adjustment: bool,
    /// A seccomp policy in place of the runtime's default one.
    pub reject_runtime_default_seccomp_adjustment: bool,
    /// A seccomp policy where there was none.
    pub reject_unconfined_seccomp_adjustment: bool,
    /// A seccomp policy in place of one from a file of the node.
    pub reject_custom_seccomp_adjustment: bool,
    /// Any namespace, set or removed.
    pub reject_namespace_adjustment: bool,
    /// Any sysctl, set or removed.
    pub reject_sysctl_adjustment: bool,
    /// Plugins without which no container is created: `logger` or `10-logger`. To these come those
    /// of the pod's annotation [`annotation::REQUIRED_PLUGINS`], a YAML list.
    pub required_plugins: Vec<String>,
    /// The annotation by which a pod waives required plugins, when its value is true in Go's
    /// spelling (`1`, `t`, `T`, `TRUE`, `true`, `True`); empty for none.
    pub tolerate_missing_plugins_annotation: String,
}

/// Why a creation is rejected.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Rejection {
    /// A plugin adjusted what no plugin may.
    #[error("plugin {plugin:?} adjusted {what}, which is not allowed")]
    Forbidden {
        /// The full name of the plugin; empty when the request does not say.
        plugin: String,
        /// What it adjusted.
        what: &'static str,
    },
    /// A required plugin was not asked.
    #[error("required plugin {plugin:?} is not there")]
    Missing {
        /// The name, as it was required.
        plugin: String,
    },
    /// An annotation that cannot be read.
    #[error("annotation {key:?} is not {wanted}")]
    Annotation {
        /// Its key, without what narrows it to a container.
        key: String,
        /// What it has to be.
        wanted: &'static str,
    },
}

impl DefaultValidator {
    /// Judges an adjustment. The first failure wins: hooks, seccomp, namespaces, required plugins,
    /// sysctls.
    ///
    /// # Errors
    /// [`Rejection`], whose text is the reason of the answer.
    pub fn check(&self, request: &ValidateContainerAdjustmentRequest) -> Result<(), Rejection> {
        let case = Case::new(request);
        case.forbid(
            self.reject_oci_hook_adjustment,
            Field::OciHooks,
            "OCI hooks",
        )?;
        self.seccomp(&case)?;
        case.forbid(
            self.reject_namespace_adjustment,
            Field::Namespace,
            "namespaces",
        )?;
        self.required(&case)?;
        case.forbid(self.reject_sysctl_adjustment, Field::Sysctl, "sysctls")
    }

    fn seccomp(&self, case: &Case<'_>) -> Result<(), Rejection> {
        let profile = case
            .request
            .container
            .as_ref()
            .and_then(|container| container.linux.as_ref())
            .and_then(|linux| linux.seccomp_profile.as_ref());
        let (rejected, what) = match profile.map(|profile| profile.profile_type) {
            None => (
                self.reject_unconfined_seccomp_adjustment,
                "the seccomp policy of an unconfined container",
            ),
            Some(kind) => match ProfileType::try_from(kind) {
                Ok(ProfileType::RuntimeDefault) => (
                    self.reject_runtime_default_seccomp_adjustment,
                    "the default seccomp policy",
                ),
                Ok(ProfileType::Unconfined) => (
                    self.reject_unconfined_seccomp_adjustment,
                    "the seccomp policy of an unconfined container",
                ),
                Ok(ProfileType::Localhost) => (
                    self.reject_custom_seccomp_adjustment,
                    "a custom seccomp policy",
                ),
                // A kind that is not known yet falls under each of the rules.
                Err(_) => (
                    self.reject_runtime_default_seccomp_adjustment
                        || self.reject_unconfined_seccomp_adjustment
                        || self.reject_custom_seccomp_adjustment,
                    "a seccomp policy of an unknown kind",
                ),
            },
        };
        case.forbid(rejected, Field::SeccompPolicy, what)
    }

    fn required(&self, case: &Case<'_>) -> Result<(), Rejection> {
        let key = &self.tolerate_missing_plugins_annotation;
        if let Some(value) = case.annotation(key).filter(|_| !key.is_empty()) {
            let bad = || Rejection::Annotation {
                key: key.clone(),
                wanted: "true or false",
            };
            if go_bool(value).ok_or_else(bad)? {
                return Ok(());
            }
        }
        let annotated = match case.annotation(annotation::REQUIRED_PLUGINS) {
            None => Vec::new(),
            Some(text) => list(text).ok_or_else(|| Rejection::Annotation {
                key: annotation::REQUIRED_PLUGINS.to_owned(),
                wanted: "a YAML list of at most 256 names",
            })?,
        };
        let plugins = &case.request.plugins;
        let missing = self
            .required_plugins
            .iter()
            .chain(&annotated)
            .find(|name| !plugins.iter().any(|plugin| is_named(plugin, name)));
        match missing {
            None => Ok(()),
            Some(name) => Err(Rejection::Missing {
                plugin: name.clone(),
            }),
        }
    }
}

struct Case<'a> {
    request: &'a ValidateContainerAdjustmentRequest,
    container: (&'a str, &'a str),
}

impl<'a> Case<'a> {
    fn new(request: &'a ValidateContainerAdjustmentRequest) -> Self {
        let container = request.container.as_ref();
        Self {
            request,
            container: container.map_or(("", ""), |it| (it.id.as_str(), it.name.as_str())),
        }
    }

    /// The value that holds for the container.
    fn annotation(&self, key: &str) -> Option<&'a str> {
        let pod: &PodSandbox = self.request.pod.as_ref()?;
        annotation::effective(pod, key, self.container.1)
    }

    /// Rejects a field that has an owner, or that the adjustment has.
    fn forbid(&self, rejected: bool, field: Field, what: &'static str) -> Result<(), Rejection> {
        if !rejected {
            return Ok(());
        }
        let owners = self.request.owners.as_ref();
        let fields = owners.and_then(|owners| owners.owners.get(self.container.0));
        let owner = fields.and_then(|fields| {
            let number = &(field as i32);
            let keys = fields.compound.get(number);
            let first = keys.and_then(|keys| keys.owners.values().next());
            fields.simple.get(number).or(first)
        });
        let adjust = self.request.adjust.as_ref();
        if owner.is_none() && !adjust.is_some_and(|adjust| adjusts(adjust, field)) {
            return Ok(());
        }
        let owner = owner.map(String::as_str).unwrap_or_default();
        // The owner of what was only removed has a dash before it.
        let plugin = removed_key(owner).unwrap_or(owner).to_owned();
        Err(Rejection::Forbidden { plugin, what })
    }
}

/// Whether the adjustment itself has the field, whoever owns it.
fn adjusts(adjust: &ContainerAdjustment, field: Field) -> bool {
    let none = LinuxContainerAdjustment::default();
    let linux = adjust.linux.as_ref().unwrap_or(&none);
    match field {
        Field::OciHooks => {
            let hooks = adjust.hooks.as_ref();
            hooks.is_some_and(|hooks| *hooks != longshore_nri_api::Hooks::default())
        }
        Field::SeccompPolicy => linux.seccomp_policy.is_some(),
        Field::Namespace => !linux.namespaces.is_empty(),
        Field::Sysctl => !linux.sysctl.is_empty(),
        _ => false,
    }
}

/// Whether a required name means the plugin: its base name, or index and base name.
fn is_named(plugin: &PluginInstance, name: &str) -> bool {
    let full = name
        .strip_prefix(plugin.index.as_str())
        .and_then(|rest| rest.strip_prefix('-'));
    !name.is_empty()
        && (name == plugin.name || (!plugin.index.is_empty() && full == Some(&plugin.name)))
}

/// `strconv.ParseBool`.
fn go_bool(text: &str) -> Option<bool> {
    match text {
        "1" | "t" | "T" | "TRUE" | "true" | "True" => Some(true),
        "0" | "f" | "F" | "FALSE" | "false" | "False" => Some(false),
        _ => None,
    }
}

/// A YAML list of strings, within limits.
fn list(text: &str) -> Option<Vec<String>> {
    if text.len() > ANNOTATION_MAX {
        return None;
    }
    let options = serde_saphyr::options! {
        budget: serde_saphyr::budget! {
            max_documents: 1,
            max_depth: 4,
            max_nodes: REQUIRED_MAX + 1,
            max_anchors: 0,
            max_aliases: 0,
        },
    };
    let names: Vec<String> = serde_saphyr::from_str_with_options(text, options).ok()?;
    (names.len() <= REQUIRED_MAX).then_some(names)
}

#[cfg(test)]
mod tests;
