//! Probes the endpoint given as the only argument and prints what the plugin says about itself.

use std::{process::ExitCode, time::Duration};

use longshore_csi_probe::{Endpoint, ProbeError, ProbeOptions, probe};
use tokio::time::Instant;

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let Some(endpoint) = std::env::args().nth(1) else {
        say("usage: probe ENDPOINT");
        return ExitCode::from(2);
    };
    match run(&endpoint).await {
        Ok(text) => {
            say(&text);
            ExitCode::SUCCESS
        }
        Err(error) => {
            say(&error.to_string());
            ExitCode::FAILURE
        }
    }
}

async fn run(endpoint: &str) -> Result<String, ProbeError> {
    let endpoint: Endpoint = endpoint.parse()?;
    let deadline = Instant::now() + Duration::from_secs(10);
    let plugin = probe(&endpoint, &ProbeOptions::until(deadline)).await?;
    let details = plugin.describe(deadline).await?;
    Ok(format!(
        "{endpoint} speaks CSI {}\n{details:#?}",
        plugin.version
    ))
}

#[expect(clippy::print_stdout, reason = "an example that prints")]
fn say(text: &str) {
    println!("{text}");
}
