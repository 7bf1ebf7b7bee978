//! The bundled driver over its socket, each in its own temporary directory.

#![expect(clippy::unwrap_used, reason = "tests, helpers included")]

mod publish;
mod sanity;
mod serve;
mod v0_table;
mod v1_calls;

use std::{path::PathBuf, time::Duration};

use longshore_csi_hostpath::{HostPathError, HostPathOptions, Mode, PublishBy, serve};
use longshore_csi_probe::{Endpoint, ProbeOptions, Probed, probe};
use tempfile::TempDir;
use tokio::{
    sync::oneshot,
    task::JoinHandle,
    time::{Instant, timeout},
};

/// Long enough for a busy machine; no test that passes waits for it.
const PATIENCE: Duration = Duration::from_secs(30);

/// What ends it, and how it ended.
type Running = (oneshot::Sender<()>, JoinHandle<Result<(), HostPathError>>);

/// A driver in this process.
struct Rig {
    dir: TempDir,
    options: HostPathOptions,
    running: Option<Running>,
}

impl Rig {
    fn new(mode: Mode, by: PublishBy) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let endpoint = Endpoint::unix(dir.path().join("csi.sock")).unwrap();
        let mut options = HostPathOptions::new(endpoint, dir.path().join("state"), "node-1");
        options.mode = mode;
        options.publish_by = Some(by);
        options.capacity = Some(64 << 30);
        Self {
            dir,
            options,
            running: None,
        }
    }

    async fn start(&mut self) -> Probed {
        let (stop, stopped) = oneshot::channel();
        let shutdown = async move { drop(stopped.await) };
        let serving = tokio::spawn(serve(self.options.clone(), shutdown));
        self.running = Some((stop, serving));
        let options = ProbeOptions::until(Instant::now() + PATIENCE);
        probe(&self.options.endpoint, &options).await.unwrap()
    }

    async fn stop(&mut self) {
        let (stop, serving) = self.running.take().unwrap();
        drop(stop);
        timeout(PATIENCE, serving).await.unwrap().unwrap().unwrap();
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn text(&self, name: &str) -> String {
        self.path(name).to_str().unwrap().to_owned()
    }

    fn make_dir(&self, name: &str) -> String {
        std::fs::create_dir(self.path(name)).unwrap();
        self.text(name)
    }
}

/// How the machine lets this test publish; a test that is about mounts asks for root instead.
fn whatever_works() -> PublishBy {
    if longshore_testkit::peers::root().is_some() {
        PublishBy::BindMount
    } else {
        PublishBy::SymbolicLink
    }
}
