//! `cargo xtask ci`: exactly what the CI checks.
//!
//! `.ci/run` prepares the machine and calls this; `.github/workflows/` runs the same steps one
//! by one (`--only`). All steps run, also after one has failed; the time of each is printed.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use crate::{chaos, codegen, crash, engine, sh, tidy};

#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// Peers that must be there; passed on to `cargo xtask test`.
    #[arg(long, value_name = "NAMES")]
    require: Option<String>,
    /// Only these steps (comma list).
    #[arg(long, value_name = "STEPS", value_delimiter = ',')]
    only: Vec<Step>,
    /// How often the crash step kills the supervisor.
    #[arg(long, default_value_t = 200)]
    kills: u32,
}

/// In the order that compiles the least: what the tests build is what clippy and the docs read. `chaos` runs when it is asked
/// for, and every night.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Step {
    Fmt,
    Codegen,
    Tidy,
    Test,
    Alone,
    Clippy,
    Docs,
    Demo,
    Crash,
    Chaos,
    Package,
}

const ALL: &[Step] = &[
    Step::Fmt,
    Step::Codegen,
    Step::Tidy,
    Step::Test,
    Step::Alone,
    Step::Clippy,
    Step::Docs,
    Step::Demo,
    Step::Crash,
    Step::Package,
];

/// Runs the steps.
///
/// # Errors
/// When a step failed; the error names all that did.
pub(crate) fn run(root: &Path, options: &Options) -> Result<()> {
    let steps = if options.only.is_empty() {
        ALL
    } else {
        &options.only
    };
    let mut report = Vec::new();
    for &step in steps {
        println!("\n==== {}", name(step));
        let start = Instant::now();
        let outcome = perform(root, step, options);
        if let Err(error) = &outcome {
            println!("error: {}: {error:#}", name(step));
        }
        report.push((step, start.elapsed(), outcome.is_ok()));
    }
    println!("\n==== times");
    for (step, time, good) in &report {
        println!("{}", row(*step, *time, *good));
    }
    let failed: Vec<_> = report
        .iter()
        .filter(|(_, _, good)| !good)
        .map(|(step, _, _)| name(*step))
        .collect();
    if failed.is_empty() {
        return Ok(());
    }
    bail!("failed: {}", failed.join(", "))
}

fn perform(root: &Path, step: Step, options: &Options) -> Result<()> {
    match step {
        Step::Fmt => sh::run(sh::cargo(root).args(["fmt", "--all", "--check"])),
        Step::Codegen => codegen::run(root, true),
        Step::Tidy => tidy::run(root),
        Step::Test => {
            let mut command = sh::cargo(root);
            command.args(["xtask", "test"]);
            if let Some(names) = &options.require {
                command.args(["--require", names]);
            }
            sh::run(&mut command)
        }
        // A crate needs nothing but itself.
        Step::Alone => sh::run(sh::cargo(root).args(["test", "--package", "longshore-paths"])),
        Step::Clippy => sh::run(sh::cargo(root).args([
            "clippy",
            "--workspace",
            "--all-targets",
            "--",
            "-D",
            "warnings",
        ])),
        Step::Docs => sh::run(
            sh::cargo(root)
                .args(["doc", "--workspace", "--no-deps"])
                .env("RUSTDOCFLAGS", "-D warnings"),
        ),
        Step::Demo => demo(root),
        Step::Crash => crash::run(
            root,
            &crash::Options {
                kills: options.kills,
                seed: None,
            },
        ),
        Step::Chaos => chaos(root, options),
        Step::Package => crate::package::run(root),
    }
}

/// As its tests, where no engine can be had: a skip, or a failure when one is required.
fn chaos(root: &Path, options: &Options) -> Result<()> {
    let required = options.require.iter().flat_map(|names| names.split(','));
    if let Err(error) = engine::Engine::can_be_had()
        && !required.map(str::trim).any(|name| name == "docker")
    {
        println!("skipped: docker: {error:#}");
        return Ok(());
    }
    chaos::run(
        root,
        &chaos::Options {
            tasks: 200,
            minutes: 3,
            seed: None,
        },
    )
}

/// The first command of the README, with the promise that is made of it.
fn demo(root: &Path) -> Result<()> {
    const PROMISE: Duration = Duration::from_secs(20);
    sh::run(sh::cargo(root).args(["build", "--release", "--package", "longshore"]))?;
    let binary = sh::target_dir(root).join("release/longshore");
    let start = Instant::now();
    let output = Command::new(&binary)
        .arg("demo")
        .current_dir(root)
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output()
        .with_context(|| format!("starting {}", binary.display()))?;
    let took = start.elapsed();
    let text = String::from_utf8_lossy(&output.stdout);
    print!("{text}");
    if !output.status.success() {
        bail!("`longshore demo` ended with {}", output.status);
    }
    if !text.contains("unix:///") {
        bail!("`longshore demo` printed no endpoint");
    }
    if took > PROMISE {
        bail!(
            "`longshore demo` took {:.1} s, more than {} s",
            took.as_secs_f64(),
            PROMISE.as_secs()
        );
    }
    println!("the demo took {:.1} s", took.as_secs_f64());
    Ok(())
}

fn name(step: Step) -> &'static str {
    match step {
        Step::Fmt => "fmt",
        Step::Codegen => "codegen",
        Step::Tidy => "tidy",
        Step::Test => "test",
        Step::Alone => "alone",
        Step::Clippy => "clippy",
        Step::Docs => "docs",
        Step::Demo => "demo",
        Step::Crash => "crash",
        Step::Chaos => "chaos",
        Step::Package => "package",
    }
}

fn row(step: Step, time: Duration, good: bool) -> String {
    let verdict = if good { "ok" } else { "FAILED" };
    format!("{:<8} {:>7.1} s  {verdict}", name(step), time.as_secs_f64())
}
