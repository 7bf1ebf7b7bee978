//! What the examples share: their options, and how they end.

use std::process::ExitCode;

use longshore_nri_stub::{Plugin, Stub};

/// Runs a plugin with the options of the command line: `--name NAME`, `--idx NN`, `--socket PATH`
/// (also with one dash, as plugins written in Go have them).
pub(crate) async fn run(plugin: impl Plugin) -> ExitCode {
    let mut builder = Stub::builder();
    let mut arguments = std::env::args().skip(1);
    while let Some(option) = arguments.next() {
        let Some(value) = arguments.next() else {
            return usage(&option);
        };
        builder = match option.trim_start_matches('-') {
            "name" => builder.name(value),
            "idx" => builder.index(value),
            "socket" | "socket-path" => builder.socket(value),
            _ => return usage(&option),
        };
    }
    match builder.run(plugin).await {
        Ok(_) => ExitCode::SUCCESS,
        Err(error) => {
            say(&error);
            ExitCode::FAILURE
        }
    }
}

fn usage(option: &str) -> ExitCode {
    say(&format_args!(
        "{option:?} is not expected; options: --name NAME --idx NN --socket PATH"
    ));
    ExitCode::from(2)
}

/// Runtimes keep what plugins write to standard error.
#[expect(clippy::print_stderr, reason = "an example speaks to whoever tries it")]
pub(crate) fn say(text: &dyn std::fmt::Display) {
    eprintln!("{text}");
}
