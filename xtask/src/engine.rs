//! `cargo xtask engine`: a private Docker engine for tests, beside whatever the machine has.

#[path = "../../crates/testkit/src/peers/image.rs"]
#[expect(unreachable_pub, reason = "public in the test kit")]
mod image;
mod remains;

use std::fs;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use crate::sh;

/// Names the engine to the tests, as `unix:///PATH`.
pub(crate) const VARIABLE: &str = "LONGSHORE_TEST_DOCKER";
/// Marks a folder that `up` has made, which is all that `down` removes.
const MARK: &str = "longshore-test-engine";
const START_DEADLINE: Duration = Duration::from_secs(120);
const STOP_DEADLINE: Duration = Duration::from_secs(30);

#[derive(Debug, clap::Subcommand)]
pub(crate) enum Verb {
    /// Start an engine of its own in DIR, with the test image; prints its address.
    Up {
        /// A folder that does not exist yet; its socket is DIR/docker.sock.
        dir: PathBuf,
        /// Passed on to dockerd.
        #[arg(last = true)]
        rest: Vec<String>,
    },
    /// Stop it with all its containers, and remove DIR.
    Down {
        /// The folder that was given to `up`.
        dir: PathBuf,
    },
}

/// Performs one of the two.
///
/// # Errors
/// What is missing (root, dockerd, containerd, busybox), or did not start or stop.
pub(crate) fn run(verb: &Verb) -> Result<()> {
    match verb {
        Verb::Up { dir, rest } => {
            let engine = Engine::up(dir, rest)?;
            println!("{VARIABLE}={}", engine.address());
            eprintln!("it has the image {}", image::TEST_IMAGE);
            std::mem::forget(engine);
            Ok(())
        }
        Verb::Down { dir } => down(dir),
    }
}

/// A private engine, which is taken down with this value.
#[derive(Debug)]
pub(crate) struct Engine {
    dir: PathBuf,
}

impl Engine {
    /// One for the tests of this run, or the reason why there can be none.
    pub(crate) fn for_tests() -> Result<Self> {
        let dir = std::env::temp_dir().join(format!("longshore-engine-{}", std::process::id()));
        Self::up(&dir, &[])
    }

    /// Why there can be none on this machine, if so.
    ///
    /// # Errors
    /// The reason.
    pub(crate) fn can_be_had() -> Result<()> {
        for program in ["dockerd", "containerd"] {
            if !sh::in_path(program) {
                bail!("`{program}` is not in PATH; install Debian's docker.io");
            }
        }
        if !is_root()? {
            bail!("only root can run dockerd");
        }
        Ok(())
    }

    fn up(dir: &Path, rest: &[String]) -> Result<Self> {
        Self::can_be_had()?;
        fs::create_dir(dir).with_context(|| format!("creating {}", dir.display()))?;
        let dir = fs::canonicalize(dir).with_context(|| format!("finding {}", dir.display()))?;
        write(&dir.join(MARK), &cgroup_of(&dir))?;
        // From here on it is taken down again when something fails.
        let engine = Self { dir };
        engine.start(rest)?;
        image::import_test_image(&engine.socket()).context("importing the test image")?;
        Ok(engine)
    }

    pub(crate) fn address(&self) -> String {
        format!("unix://{}", self.socket().display())
    }

    /// The folder that was given to `up`.
    pub(crate) fn dir(&self) -> &Path {
        &self.dir
    }

    fn socket(&self) -> PathBuf {
        self.dir.join("docker.sock")
    }

    /// A containerd and a dockerd of its own: dockerd by itself would use the machine's containerd.
    /// Neither reads a file below `/etc`, and no bridge or rule of the host is touched.
    fn start(&self, rest: &[String]) -> Result<()> {
        let at = |name: &str| self.dir.join(name);
        let text = |name: &str| at(name).display().to_string();
        write(
            &at("containerd.toml"),
            &format!(
                "version = 2\nroot = \"{}\"\nstate = \"{}\"\ndisabled_plugins = [\"io.containerd.grpc.v1.cri\"]\n[grpc]\naddress = \"{}\"\n",
                text("containerd-data"),
                text("containerd-run"),
                text("containerd.sock"),
            ),
        )?;
        let mut containerd = Command::new("containerd");
        containerd.arg("--config").arg(at("containerd.toml"));
        let mut child = self.spawn(&mut containerd, "containerd")?;
        self.wait_for(&mut child, "containerd", &at("containerd.sock"))?;

        write(&at("daemon.json"), "{}\n")?;
        let mut dockerd = Command::new("dockerd");
        dockerd
            .arg("--config-file")
            .arg(at("daemon.json"))
            .arg("--data-root")
            .arg(at("data"))
            .arg("--exec-root")
            .arg(at("exec"))
            .arg("--pidfile")
            .arg(at("dockerd.pid"))
            .arg("--containerd")
            .arg(at("containerd.sock"))
            .arg("--host")
            .arg(self.address())
            .args(["--bridge=none", "--iptables=false", "--ip-forward=false"])
            .args(["--exec-opt", "native.cgroupdriver=cgroupfs"])
            .arg("--cgroup-parent")
            .arg(format!("/{}", cgroup_of(&self.dir)))
            .args(rest);
        let mut child = self.spawn(&mut dockerd, "dockerd")?;
        self.wait_for(&mut child, "dockerd", &self.socket())
    }

    /// Starts a program that outlives us, its output in a file.
    fn spawn(&self, command: &mut Command, name: &str) -> Result<Child> {
        let log = self.dir.join(format!("{name}.log"));
        let out = fs::File::create(&log).with_context(|| format!("creating {}", log.display()))?;
        let again = out.try_clone().context("a second handle of the log")?;
        command
            .current_dir("/")
            .stdin(Stdio::null())
            .stdout(out)
            .stderr(again)
            .process_group(0)
            .spawn()
            .with_context(|| format!("starting {name}"))
    }

    /// Waits until `socket` takes connections.
    fn wait_for(&self, child: &mut Child, name: &str, socket: &Path) -> Result<()> {
        let deadline = Instant::now() + START_DEADLINE;
        while std::os::unix::net::UnixStream::connect(socket).is_err() {
            let ended = child
                .try_wait()
                .with_context(|| format!("waiting for {name}"))?;
            if ended.is_some() || Instant::now() > deadline {
                let path = self.dir.join(format!("{name}.log"));
                let log = fs::read_to_string(path).unwrap_or_default();
                let lines: Vec<_> = log.lines().collect();
                let end = lines[lines.len().saturating_sub(15)..].join("\n");
                match ended {
                    Some(status) => bail!("{name} ended with {status}:\n{end}"),
                    None => bail!("{name} does not listen after {START_DEADLINE:?}:\n{end}"),
                }
            }
            tick();
        }
        Ok(())
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        if let Err(error) = down(&self.dir) {
            eprintln!("error: the engine in {}: {error:#}", self.dir.display());
        }
    }
}

/// Stops the engine in `dir` and all that it started, and removes `dir`.
fn down(dir: &Path) -> Result<()> {
    let dir = fs::canonicalize(dir).with_context(|| format!("finding {}", dir.display()))?;
    let mark = dir.join(MARK);
    let cgroup = fs::read_to_string(&mark)
        .with_context(|| format!("{} is no folder of `cargo xtask engine up`", dir.display()))?;
    remains::stop(&dir, &cgroup, STOP_DEADLINE)?;
    remains::unmount(&dir)?;
    fs::remove_dir_all(&dir).with_context(|| format!("removing {}", dir.display()))
}

/// A cgroup of its own for its containers, by which they are found.
fn cgroup_of(dir: &Path) -> String {
    let name: String = dir
        .display()
        .to_string()
        .chars()
        .map(|c| if c.is_ascii_alphanumeric() { c } else { '-' })
        .collect();
    format!("longshore{name}")
}

fn is_root() -> Result<bool> {
    let status = fs::read_to_string("/proc/self/status").context("reading /proc/self/status")?;
    let ids = status.lines().find_map(|line| line.strip_prefix("Uid:"));
    Ok(ids.is_some_and(|ids| ids.split_whitespace().nth(1) == Some("0")))
}

fn write(path: &Path, text: &str) -> Result<()> {
    fs::write(path, text).with_context(|| format!("writing {}", path.display()))
}

/// A short wait between two looks at another process.
fn tick() {
    std::thread::park_timeout(Duration::from_millis(50));
}
