//! What kubelet is to be told about a plugin, or why there is nothing to tell. Pure.

use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use longshore_csi_probe::{ApiVersion, Endpoint};

/// The longest path of a socket (unix(7)), without its NUL.
const SOCKET_MAX: usize = 107;

/// The longest name of a driver that the CSI specification has.
const NAME_MAX: usize = 63;

/// What is known of a plugin that is to be registered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Offer {
    /// Its node service does not answer, or is not known yet.
    Absent {
        /// Why.
        reason: String,
    },
    /// It does.
    Answering(Answering),
}

/// A plugin whose node service answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answering {
    /// The name that it gave itself.
    pub driver: String,
    /// The endpoint of its node service, as it is handed out.
    pub uri: String,
    /// The CSI version that it speaks.
    pub version: ApiVersion,
    /// Of the endpoint: another one is another process.
    pub generation: u64,
}

/// What kubelet is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Target {
    pub(crate) driver: String,
    /// Where kubelet calls the plugin itself.
    pub(crate) endpoint: PathBuf,
    /// Where kubelet calls us.
    pub(crate) socket: PathBuf,
    pub(crate) generation: u64,
}

/// Why there is nothing to tell.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Nothing {
    Absent(String),
    Unfit(String),
}

/// Whether sockets in this directory can be had at all.
///
/// # Errors
/// What is wrong with it, in words.
pub fn check_dir(dir: &Path) -> Result<(), String> {
    if !dir.is_absolute() {
        return Err(format!("`{}` is not an absolute path", dir.display()));
    }
    let shortest = socket(dir, "x");
    check_length(&shortest)
}

pub(crate) fn judge(dir: &Path, offer: &Offer) -> Result<Target, Nothing> {
    let plugin = match offer {
        Offer::Absent { reason } => return Err(Nothing::Absent(reason.clone())),
        Offer::Answering(plugin) => plugin,
    };
    let unfit = |reason: String| Err(Nothing::Unfit(reason));
    if plugin.version != ApiVersion::V1 {
        return unfit(format!(
            "the plugin speaks CSI {}, and kubelet v1 alone",
            plugin.version
        ));
    }
    if !is_name(&plugin.driver) {
        return unfit(format!(
            "the plugin calls itself {:?}; a driver's name has 1 to {NAME_MAX} letters, digits, dashes and dots, and \
             begins and ends with a letter or digit",
            plugin.driver
        ));
    }
    let endpoint = match plugin.uri.parse() {
        Ok(Endpoint::Unix(path)) if path.is_absolute() => path,
        _ => {
            return unfit(format!(
                "kubelet calls plugins by a Unix socket, and the endpoint is {}",
                plugin.uri
            ));
        }
    };
    let socket = socket(dir, &plugin.driver);
    if let Err(reason) = check_length(&socket) {
        return unfit(reason);
    }
    Ok(Target {
        driver: plugin.driver.clone(),
        endpoint,
        socket,
        generation: plugin.generation,
    })
}

/// As `node-driver-registrar` names it.
fn socket(dir: &Path, driver: &str) -> PathBuf {
    dir.join(format!("{driver}-reg.sock"))
}

fn check_length(socket: &Path) -> Result<(), String> {
    let length = socket.as_os_str().as_bytes().len();
    if length <= SOCKET_MAX {
        return Ok(());
    }
    Err(format!(
        "the path {} of the registration socket is {length} bytes long, at most {SOCKET_MAX} fit: choose a shorter \
         kubelet.registration_dir",
        socket.display()
    ))
}

/// It becomes a part of a file's name, and comes from the plugin.
fn is_name(name: &str) -> bool {
    let bytes = name.as_bytes();
    let end = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_alphanumeric);
    let plain = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.');
    bytes.len() <= NAME_MAX && end(bytes.first()) && end(bytes.last()) && bytes.iter().all(plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answering(driver: &str, uri: &str, version: ApiVersion) -> Offer {
        Offer::Answering(Answering {
            driver: driver.to_owned(),
            uri: uri.to_owned(),
            version,
            generation: 1,
        })
    }

    #[test]
    fn what_kubelet_can_use_is_told_and_what_it_cannot_says_why() {
        let long = "x".repeat(64);
        let (v0, v1) = (ApiVersion::V0, ApiVersion::V1);
        let table = [
            (("disks.example.com", "unix:///run/x/csi.sock", v1), Ok(())),
            (("d", "unix:///run/x/csi.sock", v1), Ok(())),
            (("disks", "unix:///run/x/csi.sock", v0), Err("v1 alone")),
            (("disks", "tcp://127.0.0.1:5000", v1), Err("Unix socket")),
            (("disks", "unix:csi.sock", v1), Err("Unix socket")),
            (("", "unix:///s", v1), Err("calls itself")),
            (("../disks", "unix:///s", v1), Err("calls itself")),
            ((".disks", "unix:///s", v1), Err("calls itself")),
            (("disks.", "unix:///s", v1), Err("calls itself")),
            (("a/b", "unix:///s", v1), Err("calls itself")),
            (("a\0b", "unix:///s", v1), Err("calls itself")),
            ((long.as_str(), "unix:///s", v1), Err("calls itself")),
        ];
        for ((driver, uri, version), expected) in table {
            let judged = judge(Path::new("/reg"), &answering(driver, uri, version));
            match (judged, expected) {
                (Ok(target), Ok(())) => {
                    let socket = format!("/reg/{driver}-reg.sock");
                    assert_eq!(target.socket, Path::new(&socket));
                    assert_eq!(target.endpoint, Path::new("/run/x/csi.sock"));
                }
                (Err(Nothing::Unfit(reason)), Err(part)) if reason.contains(part) => {}
                (judged, _) => panic!("{driver} {uri} {version}: {judged:?}"),
            }
        }
        let reason = "it is being started".to_owned();
        let absent = Offer::Absent {
            reason: reason.clone(),
        };
        assert_eq!(
            judge(Path::new("/reg"), &absent),
            Err(Nothing::Absent(reason))
        );
    }

    #[test]
    fn a_path_that_no_socket_can_have_is_told_with_what_to_do() {
        // "/", the directory, "/disks-reg.sock": 107 bytes fit.
        for (length, fits) in [(91, true), (92, false)] {
            let dir = PathBuf::from(format!("/{}", "d".repeat(length)));
            let judged = judge(&dir, &answering("disks", "unix:///s", ApiVersion::V1));
            assert_eq!(judged.is_ok(), fits, "{length}");
            if let Err(Nothing::Unfit(reason)) = judged {
                assert!(reason.contains("registration_dir"), "{reason}");
            }
        }
        assert!(check_dir(Path::new("/var/lib/kubelet/plugins_registry")).is_ok());
        assert!(check_dir(Path::new("plugins_registry")).is_err());
        assert!(check_dir(&PathBuf::from(format!("/{}", "d".repeat(96)))).is_err());
    }
}
