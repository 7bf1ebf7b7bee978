//! `longshore csi logs NAME`.

use std::collections::BTreeMap;

use anyhow::Result;
use longshore_control_api::v1::{CsiLogsRequest, CsiLogsResponse};
use serde_json::{Value, json};

use super::ServiceArg;
use crate::control::{DaemonArgs, call, refused};
use crate::fault::Exit;
use crate::output::{JSON_VERSION, Out};
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
        let mut lines = Lines::default();
        loop {
            tokio::select! {
                _ = interrupts.next() => return Ok(Exit::Success),
                chunk = chunks.message() => match chunk.map_err(|status| refused(&status))? {
                    Some(chunk) if args.json => {
                        for line in lines.take(&chunk) {
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

/// The longest line that is held back until it ends, in bytes; a longer one is cut.
const LINE_MAX: usize = 64 * 1024;

/// Output on its way from chunks to lines: of each container and stream what has no end yet.
#[derive(Debug, Default)]
struct Lines(BTreeMap<(String, String), Vec<u8>>);

impl Lines {
    /// The lines that end with this chunk.
    fn take(&mut self, chunk: &CsiLogsResponse) -> Vec<Value> {
        let key = (chunk.container.clone(), chunk.stream.clone());
        let begun = self.0.entry(key.clone()).or_default();
        let mut lines = Vec::new();
        for byte in &chunk.data {
            if *byte != b'\n' {
                begun.push(*byte);
            }
            if *byte == b'\n' || begun.len() == LINE_MAX {
                lines.push(document(&key, begun));
                begun.clear();
            }
        }
        lines
    }

    /// What has not ended when the output has.
    fn rest(&mut self) -> Vec<Value> {
        let rest = std::mem::take(&mut self.0);
        let begun = rest.iter().filter(|(_, begun)| !begun.is_empty());
        begun.map(|(key, begun)| document(key, begun)).collect()
    }
}

fn document((container, stream): &(String, String), line: &[u8]) -> Value {
    json!({
        "version": JSON_VERSION,
        "container": container,
        "stream": stream,
        "line": String::from_utf8_lossy(line),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chunk(stream: &str, data: &[u8]) -> CsiLogsResponse {
        CsiLogsResponse {
            container: "c".to_owned(),
            stream: stream.to_owned(),
            data: data.to_vec(),
        }
    }

    #[test]
    fn chunks_become_the_lines_of_each_stream() {
        let mut lines = Lines::default();
        let texts = |lines: Vec<Value>| -> Vec<(String, String)> {
            let text = |line: &Value, key: &str| line[key].as_str().unwrap().to_owned();
            let both = |line: &Value| (text(line, "stream"), text(line, "line"));
            lines.iter().map(both).collect()
        };
        let pair = |stream: &str, line: &str| (stream.to_owned(), line.to_owned());
        assert_eq!(
            texts(lines.take(&chunk("stdout", b"one\ntw"))),
            [pair("stdout", "one")]
        );
        assert_eq!(
            texts(lines.take(&chunk("stderr", b"bad\xff\n"))),
            [pair("stderr", "bad\u{fffd}")]
        );
        assert_eq!(
            texts(lines.take(&chunk("stdout", b"o\n\nend"))),
            [pair("stdout", "two"), pair("stdout", "")]
        );
        assert_eq!(texts(lines.rest()), [pair("stdout", "end")]);
        assert_eq!(lines.rest(), Vec::<Value>::new());
    }

    #[test]
    fn a_line_without_an_end_is_cut() {
        let mut lines = Lines::default();
        let long = vec![b'x'; LINE_MAX + 1];
        assert_eq!(lines.take(&chunk("stdout", &long)).len(), 1);
        assert_eq!(lines.rest()[0]["line"], "x");
    }
}
