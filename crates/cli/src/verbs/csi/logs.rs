//! `longshore csi logs NAME`.

use anyhow::Result;
use longshore_control_api::v1::CsiLogsRequest;

use super::ServiceArg;
use crate::control::{DaemonArgs, call, refused};
use crate::fault::Exit;
use crate::lines::ContainerLines;
use crate::output::Out;
use crate::signals::Interrupts;
use crate::verbs::block_on;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The plugin.
    name: String,
    /// Go on with what is written from now on, until interrupted.
    #[arg(short, long)]
    follow: bool,
    /// Only the container that offers this service.
    #[arg(long)]
    service: Option<ServiceArg>,
    /// How many bytes of the end of each file.
    #[arg(long, default_value_t = 64 * 1024, value_parser = clap::value_parser!(u64).range(1..=4_194_304))]
    tail: u64,
    /// For programs: a document a line of output.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    daemon: DaemonArgs,
}

pub(crate) fn run(args: &Args, out: &mut Out) -> Result<Exit> {
    block_on(async {
        let mut control = args.daemon.connect().await?;
        let mut interrupts = Interrupts::new()?;
        let request = CsiLogsRequest {
            name: args.name.clone(),
            service: args
                .service
                .map_or_else(String::new, |service| service.to_string()),
            follow: args.follow,
            tail_bytes: args.tail,
        };
        let mut chunks = call(control.csi_logs(request)).await?;
        let mut lines = ContainerLines::default();
        loop {
            tokio::select! {
                _ = interrupts.next() => return Ok(Exit::Success),
                chunk = chunks.message() => match chunk.map_err(|status| refused(&status))? {
                    Some(chunk) if args.json => {
                        for line in lines.take(&chunk.container, &chunk.stream, &chunk.data) {
                            out.json(&line)?;
                        }
                        out.flush()?;
                    }
                    Some(chunk) => {
                        out.bytes(&chunk.data)?;
                        out.flush()?;
                    }
                    None => {
                        for line in lines.rest() {
                            out.json(&line)?;
                        }
                        return Ok(Exit::Success);
                    }
                },
            }
        }
    })
}
