//! `longshore container logs`: from the sandbox, since the agent API has no call for it.

use std::fs::File;
use std::io::{Read as _, Seek as _, SeekFrom};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::PathBuf;

use anyhow::{Context as _, Result, bail};
use longshore_control_api::v1::GetStatusRequest;
use longshore_paths::{ContainerId, StateRoot};

use crate::control::{DaemonArgs, call};
use crate::fault::Exit;
use crate::output::Out;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The container; a nested one as PARENT.CHILD.
    id: String,
    /// stderr instead of stdout.
    #[arg(long)]
    stderr: bool,
    /// Only the last so many bytes.
    #[arg(long, default_value_t = 1 << 20)]
    tail: u64,
    #[command(flatten)]
    daemon: DaemonArgs,
}

pub(crate) async fn run(args: Args, out: &mut Out) -> Result<Exit> {
    let id: ContainerId = args
        .id
        .parse()
        .with_context(|| format!("container id {:?}", args.id))?;
    // Where the sandboxes are is the daemon's to say.
    let mut control = args.daemon.connect().await?;
    let status = call(control.get_status(GetStatusRequest::default())).await?;
    if let Some(agent) = status.agent.filter(|agent| !agent.embedded) {
        bail!(
            "the output of its containers is with the agent at {}",
            agent.url
        );
    }
    let stream = if args.stderr { "stderr" } else { "stdout" };
    let path: PathBuf = StateRoot::new(status.state_dir).sandbox(&id).join(stream);
    let mut file = File::options()
        .read(true)
        .custom_flags(nix::libc::O_NOFOLLOW | nix::libc::O_NONBLOCK | nix::libc::O_CLOEXEC)
        .open(&path)
        .with_context(|| format!("cannot read {}", path.display()))?;
    let found = file.metadata()?;
    if !found.is_file() {
        bail!("{} is not a regular file", path.display());
    }
    file.seek(SeekFrom::Start(found.len().saturating_sub(args.tail)))?;
    let mut file = file.take(args.tail);
    let mut buffer = vec![0; 64 * 1024];
    loop {
        match file.read(&mut buffer)? {
            0 => return Ok(Exit::Success),
            read => out.bytes(&buffer[..read])?,
        }
    }
}
