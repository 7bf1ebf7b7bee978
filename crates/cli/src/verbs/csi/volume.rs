//! `longshore csi volume ..`: one RPC each; nothing is remembered between two of them.

use std::collections::BTreeMap;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, Result};
use longshore_supervisor::parse_size;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::{ServiceArg, probe};
use crate::control::DaemonArgs;
use crate::fault::{Exit, Fault};
use crate::output::{JSON_VERSION, Out, Table, Tone};
use crate::verbs::{block_on, duration};
use crate::volume::{AccessMode, Capability, Create, Use, VolumeClient};

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, clap::Subcommand)]
enum Verb {
    /// CreateVolume; prints the volume's id.
    Create {
        #[command(flatten)]
        target: TargetArgs,
        /// The name that makes the call repeatable.
        name: String,
        /// The least size, like 64MiB.
        #[arg(long, value_parser = size)]
        size: Option<i64>,
        /// The largest size.
        #[arg(long, value_parser = size)]
        limit: Option<i64>,
        /// A parameter of the driver.
        #[arg(short, long = "parameter", value_name = "KEY=VALUE", value_parser = pair)]
        parameters: Vec<(String, String)>,
        #[command(flatten)]
        capability: CapabilityArgs,
        #[command(flatten)]
        secrets: SecretsArgs,
    },
    /// ListVolumes, all pages.
    List {
        #[command(flatten)]
        target: TargetArgs,
    },
    /// NodeStageVolume.
    Stage {
        #[command(flatten)]
        target: TargetArgs,
        #[command(flatten)]
        volume: VolumeArgs,
        /// The staging directory; must exist.
        path: PathBuf,
    },
    /// NodePublishVolume.
    Publish {
        #[command(flatten)]
        target: TargetArgs,
        #[command(flatten)]
        volume: VolumeArgs,
        /// Where the volume shall appear; its parent must exist.
        path: PathBuf,
        /// Where it was staged.
        #[arg(long, value_name = "DIR")]
        staging: Option<PathBuf>,
        /// For reading alone.
        #[arg(long)]
        readonly: bool,
    },
    /// NodeUnpublishVolume.
    Unpublish {
        #[command(flatten)]
        target: TargetArgs,
        /// The volume's id.
        volume_id: String,
        /// Where it was published.
        path: PathBuf,
    },
    /// NodeUnstageVolume.
    Unstage {
        #[command(flatten)]
        target: TargetArgs,
        /// The volume's id.
        volume_id: String,
        /// Where it was staged.
        path: PathBuf,
    },
    /// DeleteVolume.
    Delete {
        #[command(flatten)]
        target: TargetArgs,
        /// The volume's id.
        volume_id: String,
        #[command(flatten)]
        secrets: SecretsArgs,
    },
    /// NodeGetVolumeStats (CSI v1).
    Stats {
        #[command(flatten)]
        target: TargetArgs,
        /// The volume's id.
        volume_id: String,
        /// Where it was published.
        path: PathBuf,
    },
}

#[derive(Debug, clap::Args)]
struct TargetArgs {
    /// A plugin of the daemon, or an endpoint: unix:///PATH, a path with a slash, tcp://HOST:PORT.
    target: String,
    /// How long all of it may take: finding the driver's version, and the call.
    #[arg(long, value_name = "TIME", value_parser = deadline, default_value = "60s")]
    deadline: Duration,
    /// For programs.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    daemon: DaemonArgs,
}

#[derive(Debug, clap::Args)]
struct CapabilityArgs {
    /// A block device instead of a mounted file system.
    #[arg(long)]
    block: bool,
    /// The file system.
    #[arg(long, default_value = "", conflicts_with = "block")]
    fs_type: String,
    /// A mount option; may be repeated.
    #[arg(long = "mount-flag", value_name = "FLAG", conflicts_with = "block")]
    mount_flags: Vec<String>,
    /// Who may use it at once.
    #[arg(long, default_value = "single-node-writer")]
    access_mode: AccessMode,
}

impl From<CapabilityArgs> for Capability {
    fn from(args: CapabilityArgs) -> Self {
        Self {
            block: args.block,
            fs_type: args.fs_type,
            mount_flags: args.mount_flags,
            access_mode: args.access_mode,
        }
    }
}

#[derive(Debug, clap::Args)]
struct SecretsArgs {
    /// A file with a KEY=VALUE a line, that nobody else may read.
    #[arg(long, value_name = "FILE")]
    secrets: Option<PathBuf>,
}

#[derive(Debug, clap::Args)]
struct VolumeArgs {
    /// The volume's id.
    volume_id: String,
    /// The volume's context, as CreateVolume answered it.
    #[arg(long = "context", value_name = "KEY=VALUE", value_parser = pair)]
    context: Vec<(String, String)>,
    /// The publish context, as ControllerPublishVolume answered it.
    #[arg(long = "publish-context", value_name = "KEY=VALUE", value_parser = pair)]
    publish_context: Vec<(String, String)>,
    #[command(flatten)]
    capability: CapabilityArgs,
    #[command(flatten)]
    secrets: SecretsArgs,
}

impl VolumeArgs {
    fn into_use(self, staging_path: String, target_path: String, readonly: bool) -> Result<Use> {
        Ok(Use {
            volume_id: self.volume_id,
            staging_path,
            target_path,
            readonly,
            capability: self.capability.into(),
            context: self.context.into_iter().collect(),
            publish_context: self.publish_context.into_iter().collect(),
            secrets: self.secrets.read()?,
        })
    }
}

pub(crate) fn run(args: Args, out: &mut Out) -> Result<Exit> {
    crate::logging::start_if_asked()?;
    block_on(Box::pin(async {
        match args.verb {
            Verb::Create {
                target,
                name,
                size,
                limit,
                parameters,
                capability,
                secrets,
            } => {
                let create = Create {
                    name,
                    required_bytes: size.unwrap_or(0),
                    limit_bytes: limit.unwrap_or(0),
                    capability: capability.into(),
                    parameters: parameters.into_iter().collect(),
                    secrets: secrets.read()?,
                };
                let volume = target
                    .client(ServiceArg::Controller)
                    .await?
                    .create(create)
                    .await?;
                let text = volume.id.clone();
                target.print(out, &json!({"volume": volume}), &text)?;
            }
            Verb::List { target } => {
                let volumes = target.client(ServiceArg::Controller).await?.list().await?;
                if target.json {
                    out.json(&json!({"version": JSON_VERSION, "volumes": volumes}))?;
                    return Ok(Exit::Success);
                }
                let mut table = Table::new(&["VOLUME", "BYTES"]);
                for volume in volumes {
                    let bytes = volume.capacity_bytes.to_string();
                    table.row([(Tone::Plain, volume.id), (Tone::Plain, bytes)]);
                }
                if table.is_empty() {
                    out.line("no volumes")?;
                } else {
                    out.table(&table)?;
                }
            }
            Verb::Stage {
                target,
                volume,
                path,
            } => {
                let stage = volume.into_use(absolute(&path)?, String::new(), false)?;
                target.client(ServiceArg::Node).await?.stage(stage).await?;
                target.done(out)?;
            }
            Verb::Publish {
                target,
                volume,
                path,
                staging,
                readonly,
            } => {
                let staging = staging
                    .as_deref()
                    .map(absolute)
                    .transpose()?
                    .unwrap_or_default();
                let publish = volume.into_use(staging, absolute(&path)?, readonly)?;
                target
                    .client(ServiceArg::Node)
                    .await?
                    .publish(publish)
                    .await?;
                target.done(out)?;
            }
            Verb::Unpublish {
                target,
                volume_id,
                path,
            } => {
                let path = absolute(&path)?;
                target
                    .client(ServiceArg::Node)
                    .await?
                    .unpublish(volume_id, path)
                    .await?;
                target.done(out)?;
            }
            Verb::Unstage {
                target,
                volume_id,
                path,
            } => {
                let path = absolute(&path)?;
                target
                    .client(ServiceArg::Node)
                    .await?
                    .unstage(volume_id, path)
                    .await?;
                target.done(out)?;
            }
            Verb::Delete {
                target,
                volume_id,
                secrets,
            } => {
                let secrets = secrets.read()?;
                target
                    .client(ServiceArg::Controller)
                    .await?
                    .delete(volume_id, secrets)
                    .await?;
                target.done(out)?;
            }
            Verb::Stats {
                target,
                volume_id,
                path,
            } => {
                let path = absolute(&path)?;
                let usage = target
                    .client(ServiceArg::Node)
                    .await?
                    .stats(volume_id, path)
                    .await?;
                if target.json {
                    out.json(&json!({"version": JSON_VERSION, "usage": usage}))?;
                    return Ok(Exit::Success);
                }
                let mut table = Table::new(&["UNIT", "TOTAL", "USED", "AVAILABLE"]);
                for line in usage {
                    table.row([
                        (Tone::Plain, line.unit.to_owned()),
                        (Tone::Plain, line.total.to_string()),
                        (Tone::Plain, line.used.to_string()),
                        (Tone::Plain, line.available.to_string()),
                    ]);
                }
                out.table(&table)?;
            }
        }
        Ok(Exit::Success)
    }))
}

impl TargetArgs {
    async fn client(&self, service: ServiceArg) -> Result<VolumeClient> {
        let ends = Instant::now() + self.deadline;
        let endpoint =
            probe::resolve(&self.target, Some(service), Duration::ZERO, &self.daemon).await?;
        // The deadline is the call's; a driver that has said nothing for so long will not answer it.
        let within = ends
            .saturating_duration_since(Instant::now())
            .min(probe::ATTEMPT);
        let probed = probe::reach(&endpoint, within, false).await?;
        Ok(VolumeClient::new(probed.channel, probed.version, ends))
    }

    fn print(&self, out: &mut Out, document: &Value, text: &str) -> Result<()> {
        if !self.json {
            return Ok(out.line(crate::output::printable(text))?);
        }
        let mut document = document.clone();
        document["version"] = json!(JSON_VERSION);
        Ok(out.json(&document)?)
    }

    /// A call without a result says nothing but in JSON.
    fn done(&self, out: &mut Out) -> Result<()> {
        if self.json {
            self.print(out, &json!({}), "")
        } else {
            Ok(())
        }
    }
}

impl SecretsArgs {
    /// The pairs of the file, which has to be its owner's alone.
    fn read(&self) -> Result<BTreeMap<String, String>> {
        let Some(path) = &self.secrets else {
            return Ok(BTreeMap::new());
        };
        let at = path.display();
        let file = std::fs::File::options()
            .read(true)
            .custom_flags(nix::libc::O_NONBLOCK | nix::libc::O_CLOEXEC)
            .open(path)
            .with_context(|| format!("cannot read {at}"))?;
        let found = file.metadata()?;
        if !found.is_file() || found.len() > 64 * 1024 {
            anyhow::bail!("{at} is not a file of at most 64 KiB");
        }
        if found.mode() & 0o077 != 0 {
            let mode = found.mode() & 0o7777;
            return Err(Fault::new(
                Exit::Failure,
                format!("{at} can be read by others (mode {mode:04o})"),
            )
            .hint(format!("chmod 600 {at}"))
            .into());
        }
        let text = std::io::read_to_string(file).with_context(|| format!("cannot read {at}"))?;
        let mut secrets = BTreeMap::new();
        for (index, line) in text.lines().enumerate() {
            if line.trim().is_empty() || line.starts_with('#') {
                continue;
            }
            // The line itself is a secret: it is counted, not quoted.
            let line =
                pair(line).map_err(|_| anyhow::anyhow!("{at}:{}: not KEY=VALUE", index + 1))?;
            secrets.insert(line.0, line.1);
        }
        Ok(secrets)
    }
}

/// CSI paths are absolute, and those of a person need not be.
fn absolute(path: &Path) -> Result<String> {
    let path = std::path::absolute(path).with_context(|| format!("{}", path.display()))?;
    path.into_os_string()
        .into_string()
        .map_err(|path| anyhow::anyhow!("{} is not UTF-8, which CSI asks for", path.display()))
}

fn pair(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((key, value)) if !key.is_empty() => Ok((key.to_owned(), value.to_owned())),
        _ => Err("not KEY=VALUE".to_owned()),
    }
}

/// In no time at all nothing can be asked.
fn deadline(text: &str) -> Result<Duration, String> {
    match duration(text)? {
        Duration::ZERO => Err("must be longer than 0s".to_owned()),
        span => Ok(span),
    }
}

fn size(text: &str) -> Result<i64, String> {
    parse_size(text).and_then(|bytes| i64::try_from(bytes).map_err(|_| "too large".to_owned()))
}
