//! Credentials for registries.

mod config;
mod helper;

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE;
use serde_json::json;

pub use config::ClientConfig;

/// Credentials for one registry. `Debug` shows the user alone.
#[derive(Clone, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum RegistryAuth {
    /// A user and a password.
    Password {
        /// The user.
        user: String,
        /// The password.
        password: String,
    },
    /// A token that an earlier login gave.
    IdentityToken(String),
}

impl RegistryAuth {
    /// The value of the header `X-Registry-Auth`.
    pub(crate) fn header(&self, registry: &str) -> String {
        let text = match self {
            Self::Password { user, password } => {
                json!({"username": user, "password": password, "serveraddress": registry})
            }
            Self::IdentityToken(token) => {
                json!({"identitytoken": token, "serveraddress": registry})
            }
        };
        URL_SAFE.encode(text.to_string())
    }
}

impl fmt::Debug for RegistryAuth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Password { user, .. } => write!(f, "password of {user:?}"),
            Self::IdentityToken(_) => f.write_str("identity token"),
        }
    }
}
