//! csi-probe against fake plugins on real sockets, each in its own temporary directory.

#![expect(clippy::unwrap_used, reason = "tests, helpers included")]

mod connect;
mod describe;

mod liveness;
mod peers;
mod probe;
mod socket;

use std::{path::PathBuf, time::Duration};

use longshore_csi_probe::{Endpoint, ProbeOptions};
use longshore_testkit::csi::{Behaviour, FakePlugin};
use tempfile::TempDir;
use tokio::time::Instant;

/// Long enough for a busy machine; no test that passes waits for it.
const PATIENCE: Duration = Duration::from_secs(20);

/// How long a test waits where the deadline is what it is about.
const SHORT: Duration = Duration::from_millis(300);

fn patient() -> Instant {
    Instant::now() + PATIENCE
}

struct Bed {
    dir: TempDir,
}

impl Bed {
    fn new() -> Self {
        Self {
            dir: tempfile::tempdir().unwrap(),
        }
    }

    fn socket(&self) -> PathBuf {
        self.dir.path().join("csi.sock")
    }

    fn endpoint(&self) -> Endpoint {
        Endpoint::unix(self.socket()).unwrap()
    }

    fn plugin(&self, behaviour: Behaviour) -> FakePlugin {
        FakePlugin::start(self.socket(), behaviour)
    }
}

fn within(timeout: Duration) -> ProbeOptions {
    ProbeOptions::until(Instant::now() + timeout)
}
