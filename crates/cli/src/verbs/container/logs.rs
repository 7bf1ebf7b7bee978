//! `longshore container logs`: an output file, piece by piece through the agent's API.

use std::time::Duration;

use anyhow::{Result, bail};
use longshore_agent_client::{AgentClient, FileRead, Waited, is_longshore};
use longshore_mesos_api::v1::ContainerId;

use super::parse;
use crate::agent::AgentArgs;
use crate::fault::{Exit, Fault};
use crate::lines::ContainerLines;
use crate::output::Out;
use crate::signals::Interrupts;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The container; a nested one as PARENT.CHILD.
    id: String,
    /// stderr instead of stdout.
    #[arg(long)]
    stderr: bool,
    /// Go on with what is written from now on, until the container has ended.
    #[arg(short, long)]
    follow: bool,
    /// Only the last so many bytes.
    #[arg(long, default_value_t = 1 << 20)]
    tail: u64,
    /// For programs: a document a line of output.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    agent: AgentArgs,
}

/// Asked for at a time; an agent may answer with less.
const PIECE: u64 = 64 * 1024;
/// How soon a file that has not grown is looked at again, and how soon at most.
const SOONEST: Duration = Duration::from_millis(100);
const LATEST: Duration = Duration::from_secs(1);

pub(crate) async fn run(args: Args, out: &mut Out) -> Result<Exit> {
    let client = args.agent.client()?;
    let mut interrupts = Interrupts::new()?;
    let id = parse(&args.id)?;
    let log = Log {
        id: &id,
        stream: if args.stderr { "stderr" } else { "stdout" },
        client: &client,
        args: &args,
    };
    let mut lines = ContainerLines::default();
    let printed = tokio::select! {
        _ = interrupts.next() => Ok(()),
        done = log.print(&mut lines, out) => done,
    };
    for line in lines.rest() {
        out.json(&line)?;
    }
    printed.map(|()| Exit::Success)
}

struct Log<'a> {
    id: &'a ContainerId,
    stream: &'static str,
    client: &'a AgentClient,
    args: &'a Args,
}

impl Log<'_> {
    async fn print(&self, lines: &mut ContainerLines, out: &mut Out) -> Result<()> {
        let Some((size, _)) = self.read(0, 0).await? else {
            return Err(self.unknown().await?);
        };
        let offset = size.saturating_sub(self.args.tail);
        // Without -f what is there now and no more, however fast it grows.
        let limit = if self.args.follow { u64::MAX } else { size };
        let mut offset = self.catch_up(offset, limit, lines, out).await?;
        if !self.args.follow {
            return Ok(());
        }
        let ended = self.client.wait_container(self.id);
        tokio::pin!(ended);
        let mut pause = SOONEST;
        loop {
            tokio::select! {
                ended = &mut ended => {
                    let (Waited::Exited(_) | Waited::Unknown) =
                        ended.map_err(|e| self.args.agent.failed(e))?;
                    self.catch_up(offset, u64::MAX, lines, out).await?;
                    return Ok(());
                }
                () = tokio::time::sleep(pause) => {}
            }
            let before = offset;
            offset = self.catch_up(offset, u64::MAX, lines, out).await?;
            pause = if offset == before {
                (pause * 2).min(LATEST)
            } else {
                SOONEST
            };
        }
    }

    /// Prints what there is from `offset` on, up to `limit`, and says where it has stopped.
    async fn catch_up(
        &self,
        mut offset: u64,
        limit: u64,
        lines: &mut ContainerLines,
        out: &mut Out,
    ) -> Result<u64> {
        while offset < limit {
            let wanted = PIECE.min(limit - offset);
            let Some((size, data)) = self.read(offset, wanted).await? else {
                // Removed meanwhile, with its output.
                break;
            };
            if data.is_empty() {
                // Shorter than it was: a new file after a rotation.
                if size < offset && self.args.follow {
                    offset = 0;
                    continue;
                }
                break;
            }
            if self.args.json {
                for line in lines.take(&self.args.id, self.stream, &data) {
                    out.json(&line)?;
                }
            } else {
                out.bytes(&data)?;
            }
            offset += u64::try_from(data.len())?;
        }
        out.flush()?;
        Ok(offset)
    }

    async fn read(&self, offset: u64, length: u64) -> Result<Option<(u64, Vec<u8>)>> {
        let read = self
            .client
            .read_output(self.id, self.stream, offset, length)
            .await
            .map_err(|e| self.args.agent.failed(e))?;
        match read {
            FileRead::Unknown => Ok(None),
            FileRead::Read(piece) => {
                if u64::try_from(piece.data.len())? > length {
                    bail!("the agent has answered with more than was asked for");
                }
                Ok(Some((piece.size, piece.data)))
            }
        }
    }

    /// Why there is nothing to read.
    async fn unknown(&self) -> Result<anyhow::Error> {
        let version = self.client.get_version().await;
        let version = version.map_err(|e| self.args.agent.failed(e))?;
        let (id, stream) = (&self.args.id, self.stream);
        let text = if is_longshore(&version) {
            format!("no {stream} of a container {id} is known")
        } else {
            format!(
                "the agent (Mesos {}) gives no {stream} of container {id}: a Mesos agent serves no \
                 files of standalone containers; read it in the sandbox on the agent's machine",
                version.version
            )
        };
        Ok(Fault::new(Exit::Failure, text).into())
    }
}
