use oci_spec::OciSpecError;

use crate::Refusal;

/// Why an adjustment was not applied. The spec is unchanged.
///
/// `field` is the member of `ContainerAdjustment`, such as `linux.resources.pids`.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ApplyError {
    /// A key, path or value that no container may have.
    #[error("{field} {key:?}: {problem}")]
    Invalid {
        /// The member of the adjustment.
        field: &'static str,
        /// Its key or value.
        key: String,
        /// What is wrong with it.
        problem: &'static str,
    },
    /// A name or number that the OCI runtime spec has no value for.
    #[error("{field}: {value:?} is not a value of the OCI runtime spec")]
    Unknown {
        /// The member of the adjustment.
        field: &'static str,
        /// The value.
        value: String,
    },
    /// A number that is too small or too large.
    #[error("{field}: {value} is not within {range}")]
    OutOfRange {
        /// The member of the adjustment.
        field: &'static str,
        /// The value.
        value: String,
        /// What is allowed.
        range: &'static str,
    },
    /// The runtime gave no function for this member.
    #[error("{field} {value:?}: this runtime does not support it; remove it from the adjustment")]
    Unsupported {
        /// The member of the adjustment.
        field: &'static str,
        /// The value.
        value: String,
    },
    /// A function of the runtime refused it.
    #[error("{field} {key:?}: refused by the runtime")]
    Refused {
        /// The member of the adjustment.
        field: &'static str,
        /// The class, device or path in question; empty when it is about all of them.
        key: String,
        /// What the function says.
        #[source]
        source: Refusal,
    },
    /// A mount asks to be shared with the host, and the host does not share what it is made of.
    #[error("mounts {destination:?}: {source_path:?} is not on a {wanted} mount of the host")]
    NotPropagated {
        /// Where the mount goes.
        destination: String,
        /// What it is made of.
        source_path: String,
        /// What the host would have to have: `shared`, or `shared or slave`.
        wanted: &'static str,
    },
    /// The OCI types refused what was made for them.
    #[error("{field}: not accepted by the OCI types")]
    Spec {
        /// The member of the adjustment.
        field: &'static str,
        /// What they say.
        #[source]
        source: OciSpecError,
    },
}

impl ApplyError {
    pub(crate) fn invalid(field: &'static str, key: &str, problem: &'static str) -> Self {
        Self::Invalid {
            field,
            key: key.to_owned(),
            problem,
        }
    }

    pub(crate) fn unknown(field: &'static str, value: impl ToString) -> Self {
        Self::Unknown {
            field,
            value: value.to_string(),
        }
    }

    pub(crate) fn out_of_range(
        field: &'static str,
        value: impl ToString,
        range: &'static str,
    ) -> Self {
        Self::OutOfRange {
            field,
            value: value.to_string(),
            range,
        }
    }

    /// For `map_err` on the builders of the OCI types.
    pub(crate) fn spec(field: &'static str) -> impl Fn(OciSpecError) -> Self {
        move |source| Self::Spec { field, source }
    }

    /// For `map_err` on the functions of the runtime.
    pub(crate) fn refused(field: &'static str, key: &str) -> impl FnOnce(Refusal) -> Self {
        let key = key.to_owned();
        move |source| Self::Refused { field, key, source }
    }
}
