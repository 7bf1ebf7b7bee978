//! Which sockets are there, on record: what a daemon leaves behind that ends, the next one takes up or takes away.
//! Blocks.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use longshore_checkpoint::{
    CodecError, Durability, Record, Recovered, Writer, bincode_decode, bincode_encode,
};
use serde::{Deserialize, Serialize};

use crate::socket;

/// The plugin's name and its socket's path, of each socket that was made and not removed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct SocketsRecord {
    pub(crate) sockets: Vec<(String, String)>,
}

impl Record for SocketsRecord {
    const KIND: &'static str = "kubelet.sockets";
    const VERSION: u16 = 1;

    fn encode(&self) -> Result<Vec<u8>, CodecError> {
        bincode_encode(self)
    }

    fn decode(_: u16, body: &[u8]) -> Result<Self, CodecError> {
        bincode_decode(body)
    }
}

/// The record, and what is in it. Clones are handles of one.
#[derive(Clone, Debug, Default)]
pub(crate) struct Ledger(Arc<Mutex<Inner>>);

#[derive(Debug, Default)]
struct Inner {
    /// `None`: nothing is put on record.
    path: Option<PathBuf>,
    sockets: BTreeSet<(String, PathBuf)>,
}

impl Ledger {
    /// What is on record at `path`.
    pub(crate) fn open(path: Option<PathBuf>) -> Self {
        let mut inner = Inner::default();
        let Some(path) = path else {
            return Self::default();
        };
        let shown = path.display();
        match Writer::new().recover::<SocketsRecord>(&path) {
            Ok(Recovered::Record(record)) => {
                let sockets = record.sockets.into_iter();
                inner.sockets = sockets.map(|(name, path)| (name, path.into())).collect();
            }
            Ok(Recovered::Nothing) => {}
            Ok(Recovered::Newer { .. }) => {
                tracing::warn!(path = %shown, "the record of registration sockets is a newer release's and is left alone");
                return Self::default();
            }
            Ok(Recovered::Quarantined { damage, .. }) => {
                tracing::warn!(path = %shown, %damage, "the record of registration sockets is damaged and set aside");
            }
            Err(error) => {
                tracing::warn!(%error, "the record of registration sockets cannot be read");
            }
        }
        inner.path = Some(path);
        Self(Arc::new(Mutex::new(inner)))
    }

    /// This socket is about to be made. Others of the plugin are taken away: it had another name, or kubelet another
    /// directory.
    pub(crate) fn begin(&self, plugin: &str, socket: &Path) {
        self.discard(|name, path| name == plugin && path != socket);
        self.lock().change(|sockets| {
            sockets.insert((plugin.to_owned(), socket.to_owned()));
        });
    }

    /// It is not there any more, or was never made.
    pub(crate) fn end(&self, plugin: &str, socket: &Path) {
        self.lock().change(|sockets| {
            sockets.remove(&(plugin.to_owned(), socket.to_owned()));
        });
    }

    /// Takes away the sockets that `unwanted` names, where nobody listens any more.
    pub(crate) fn discard(&self, unwanted: impl Fn(&str, &Path) -> bool) {
        let all = self.lock().sockets.clone();
        for (plugin, path) in all {
            if !unwanted(&plugin, &path) {
                continue;
            }
            match socket::discard(&path) {
                Ok(()) => self.end(&plugin, &path),
                Err(error) => {
                    tracing::warn!(plugin, socket = %path.display(), %error, "a registration socket that is not wanted any more is still there");
                }
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inner {
    fn change(&mut self, change: impl FnOnce(&mut BTreeSet<(String, PathBuf)>)) {
        let before = self.sockets.clone();
        change(&mut self.sockets);
        let Some(path) = self.path.as_ref().filter(|_| self.sockets != before) else {
            return;
        };
        let sockets = self.sockets.iter();
        let sockets =
            sockets.map(|(name, path)| (name.clone(), path.to_string_lossy().into_owned()));
        let record = SocketsRecord {
            sockets: sockets.collect(),
        };
        // A registration does not wait for a disk that is full: all that is lost is who takes the socket away.
        if let Err(error) = Writer::new().write(path, &record, Durability::Process) {
            tracing::warn!(%error, "registration sockets are not put on record");
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;
    use std::os::unix::net::UnixListener;

    use longshore_checkpoint::testing::check_golden;

    use super::*;

    #[test]
    fn the_record_has_the_bytes_of_its_golden_file() {
        let dir = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("tests/golden")
            .join(SocketsRecord::KIND);
        let path = "/var/lib/kubelet/plugins_registry/disks.example.com-reg.sock";
        let sample = SocketsRecord {
            sockets: vec![("disks".to_owned(), path.to_owned())],
        };
        check_golden(dir, &sample, 1, "0.1.0").unwrap();
    }

    #[test]
    fn what_an_earlier_daemon_left_is_taken_away_where_nobody_listens() {
        let root = tempfile::tempdir().unwrap();
        let mode = std::fs::Permissions::from_mode(0o755);
        std::fs::set_permissions(root.path(), mode).unwrap();
        let record = root.path().join("kubelet-sockets");
        let [dead, alive, kept, file, never] =
            ["dead", "alive", "kept", "file", "never"].map(|name| root.path().join(name));
        let ledger = Ledger::open(Some(record.clone()));
        for (plugin, path) in [("a", &dead), ("b", &alive), ("c", &kept), ("d", &file)] {
            ledger.begin(plugin, path);
        }
        ledger.begin("e", &never);
        ledger.end("e", &never);
        drop(UnixListener::bind(&dead).unwrap());
        drop(UnixListener::bind(&kept).unwrap());
        let _listener = UnixListener::bind(&alive).unwrap();
        std::fs::write(&file, "").unwrap();

        let next = Ledger::open(Some(record.clone()));
        next.discard(|plugin, _| plugin != "c");
        assert!(!dead.exists());
        assert!(alive.exists() && kept.exists() && file.exists());
        // Whoever has the name now is left alone for good; the wanted one is still known.
        let known = Ledger::open(Some(record.clone())).lock().sockets.clone();
        assert_eq!(known, BTreeSet::from([("c".to_owned(), kept.clone())]));

        // The plugin calls itself otherwise: its old socket goes.
        let renamed = root.path().join("renamed");
        Ledger::open(Some(record)).begin("c", &renamed);
        assert!(!kept.exists());
    }
}
