//! `longshore nri trace`: a proxy before a runtime's socket, and the reader of what it recorded.

use std::fs::File;
use std::io::{BufReader, BufWriter, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context as _, Result};
use clap::builder::PossibleValuesParser;
use longshore_nri_adaptation::socket::{Listener, SocketOptions};
use longshore_nri_trace::{Entry, Event, Header, METHODS, Proxy, Record, line};
use nix::fcntl::OFlag;
use tokio::sync::mpsc;

use super::{absolute, note};
use crate::fault::{Exit, Fault};
use crate::output::Out;
use crate::signals::Interrupts;
use crate::verbs::{block_on, millis};

/// How many entries may wait to be written; a message may be large.
const ENTRIES: usize = 16;

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Plugins connect to --listen in place of the runtime's socket, by NRI's default or a setting of their own. \
A record holds all that plugins are told, the environment of containers included.")]
pub(crate) struct Args {
    /// A record to show.
    #[arg(required_unless_present = "listen", conflicts_with_all = ["listen", "connect", "output"])]
    file: Option<PathBuf>,
    /// Where plugins connect: a socket that is made, for root and the own user.
    #[arg(long, value_name = "SOCKET", requires = "connect")]
    listen: Option<PathBuf>,
    /// The runtime's socket.
    #[arg(long, value_name = "SOCKET", requires = "listen")]
    connect: Option<PathBuf>,
    /// Also write a record: a line of JSON for each message.
    #[arg(short, long, value_name = "FILE", requires = "listen")]
    output: Option<PathBuf>,
    /// Show this method alone, such as CreateContainer; may be repeated.
    #[arg(long, value_name = "METHOD", value_parser = PossibleValuesParser::new(METHODS), hide_possible_values = true)]
    method: Vec<String>,
    /// Show all of each message.
    #[arg(long)]
    full: bool,
    /// Show the lines of the record.
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: Args, out: &mut Out) -> Result<Exit> {
    let view = View {
        methods: args.method,
        full: args.full,
        json: args.json,
    };
    match (args.file, args.listen, args.connect) {
        (Some(file), ..) => show(&file, &view, out),
        (None, Some(listen), Some(connect)) => {
            let (listen, connect) = (absolute(&listen)?, absolute(&connect)?);
            if listen == connect {
                let text = "--listen and --connect are one socket: plugins would be connected to themselves";
                return Err(Fault::new(Exit::Usage, text).into());
            }
            block_on(record(listen, connect, args.output, &view, out))
        }
        // The parser has refused it.
        (None, ..) => Ok(Exit::Usage),
    }
}

fn show(path: &Path, view: &View, out: &mut Out) -> Result<Exit> {
    let context = || format!("cannot show {}", path.display());
    let file = File::open(path).with_context(context)?;
    let mut record = Record::read(BufReader::new(file)).with_context(context)?;
    view.header(record.header(), out)?;
    let (mut shown, mut all) = (0_u64, 0_u64);
    for entry in record.by_ref() {
        let entry = entry.with_context(context)?;
        all += 1;
        shown += u64::from(view.shows(&entry));
        view.entry(&entry, out)?;
    }
    out.flush()?;
    let path = path.display();
    if record.is_cut() {
        note(format_args!(
            "{path} ends in the middle of an entry, which is left out: it was being written"
        ));
    }
    if shown == 0 && !view.methods.is_empty() {
        let methods = view.methods.join(", ");
        note(format_args!(
            "none of the {all} entries of {path} is of {methods}"
        ));
    }
    Ok(Exit::Success)
}

async fn record(
    listen: PathBuf,
    connect: PathBuf,
    output: Option<PathBuf>,
    view: &View,
    out: &mut Out,
) -> Result<Exit> {
    let mut interrupts = Interrupts::new().context("cannot take signals")?;
    let listener = Listener::bind(&SocketOptions::new(&listen))?;
    let since = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    let header = Header::new(millis(since), listen, connect.clone());
    let mut file = output.map(|path| Output::new(path, &header)).transpose()?;
    view.header(&header, out)?;
    out.flush()?;

    let (sender, mut entries) = mpsc::channel(ENTRIES);
    let mut proxy = std::pin::pin!(Proxy::new(listener, connect, sender).run());
    loop {
        tokio::select! {
            biased;
            _ = interrupts.next() => break,
            Some(entry) = entries.recv() => {
                tell(&entry, file.as_mut(), view, out)?;
                if entries.is_empty() {
                    out.flush()?;
                    file.as_mut().map(Output::flush).transpose()?;
                }
            }
            ended = &mut proxy => {
                ended?;
                break;
            }
        }
    }
    // What is under way is cut off; what was seen is kept.
    entries.close();
    while let Ok(entry) = entries.try_recv() {
        tell(&entry, file.as_mut(), view, out)?;
    }
    file.as_mut().map(Output::flush).transpose()?;
    Ok(Exit::Success)
}

fn tell(entry: &Entry, file: Option<&mut Output>, view: &View, out: &mut Out) -> Result<()> {
    if let Some(file) = file {
        file.write(entry)?;
    }
    view.entry(entry, out)
}

/// A record that is written.
struct Output {
    path: PathBuf,
    file: BufWriter<File>,
}

impl Output {
    fn new(path: PathBuf, header: &Header) -> Result<Self> {
        let file = File::options()
            .write(true)
            .create(true)
            .truncate(true)
            .mode(0o600)
            .custom_flags(OFlag::O_NOFOLLOW.bits())
            .open(&path)
            .with_context(|| format!("cannot make the record {}", path.display()))?;
        let mut output = Self {
            path,
            file: BufWriter::new(file),
        };
        output.write(header)?;
        output.flush()?;
        Ok(output)
    }

    fn write(&mut self, value: &impl serde::Serialize) -> Result<()> {
        let mut line = serde_json::to_vec(value)?;
        line.push(b'\n');
        self.file.write_all(&line).with_context(|| self.failed())
    }

    fn flush(&mut self) -> Result<()> {
        self.file.flush().with_context(|| self.failed())
    }

    fn failed(&self) -> String {
        format!("cannot write the record {}", self.path.display())
    }
}

/// What is shown of a record, and how.
struct View {
    methods: Vec<String>,
    full: bool,
    json: bool,
}

impl View {
    fn header(&self, header: &Header, out: &mut Out) -> Result<()> {
        if self.json {
            return Ok(out.line(serde_json::to_string(header)?)?);
        }
        let (listen, connect) = (header.listen.display(), header.connect.display());
        Ok(out.line(format_args!(
            "plugins at {listen}, the runtime at {connect}"
        ))?)
    }

    fn entry(&self, entry: &Entry, out: &mut Out) -> Result<()> {
        if !self.shows(entry) {
            return Ok(());
        }
        if self.json {
            return Ok(out.line(serde_json::to_string(entry)?)?);
        }
        Ok(out.line(line(entry, self.full))?)
    }

    fn shows(&self, entry: &Entry) -> bool {
        let method = match &entry.event {
            Event::Request { method, .. } => Some(method),
            Event::Response { method, .. } | Event::Failure { method, .. } => method.as_ref(),
            Event::Opened(_) | Event::Odd { .. } | Event::Closed { .. } => None,
        };
        self.methods.is_empty() || method.is_some_and(|method| self.methods.contains(method))
    }
}
