//! Registration with kubelet: `[kubelet]`.

use std::path::PathBuf;

use super::problems::Problems;
use super::raw::RawKubelet;

/// Where plugins are registered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KubeletSettings {
    /// Kubelet's directory of registrations.
    pub registration_dir: PathBuf,
}

/// The settings; what is not acceptable is noted.
pub(super) fn settings(raw: &RawKubelet, problems: &mut Problems<'_>) -> KubeletSettings {
    if let Err(message) = longshore_kubelet_registration::check_dir(&raw.registration_dir) {
        problems.note("kubelet.registration_dir", message);
    }
    KubeletSettings {
        registration_dir: raw.registration_dir.clone(),
    }
}
