//! How long requests take, and what processor time they cost.

use std::path::{Path, PathBuf};
use std::process::id;
use std::time::{Duration, Instant};

use longshore_bench::nri::{plugin_index, plugin_name, subject};
use longshore_bench::{Failure, Report, Row, Samples, Unit, proc};
use longshore_nri_adaptation::{Adaptation, RequestOptions};
use longshore_testkit::lines::LinePeer;
use longshore_testkit::{interop, peers};
use tokio::task::JoinSet;

use crate::bare::Bare;
use crate::host::{self, Node, Synchronized};
use crate::number;
use crate::process::Role;

const CREATE: &str = "CreateContainer";
const START: &str = "StartContainer";
/// Go's processes, and processor time, are measured in turns of this many requests.
const TURN: usize = 100;

/// Our adaptation with its plugins.
struct Ours {
    adaptation: Adaptation,
    /// Ended with this.
    _roles: Vec<Role>,
    _go: Vec<LinePeer>,
    pids: Vec<u32>,
}

/// Go's adaptation with its plugins.
struct Theirs {
    runtime: LinePeer,
    plugins: Vec<LinePeer>,
}

/// The programs in Go.
struct Programs {
    plugin: PathBuf,
    runtime: PathBuf,
}

impl Programs {
    fn build() -> Option<Self> {
        let go = peers::go()?;
        Some(Self {
            plugin: interop::program(&go, "nri-plugin"),
            runtime: interop::program(&go, "nri-runtime"),
        })
    }

    async fn plugins(&self, socket: &Path, count: usize) -> Vec<LinePeer> {
        let mut plugins = Vec::new();
        for nth in 0..count {
            let (name, index) = (plugin_name(nth), plugin_index(nth));
            let spec = subject::go_spec(&name).to_string();
            let arguments = ["-index", &index, "-name", &name, "-spec", &spec, "-socket"];
            let arguments = arguments.map(str::to_owned).into_iter();
            let socket = socket.display().to_string();
            plugins.push(LinePeer::start(&self.plugin, arguments.chain([socket])));
        }
        for plugin in &mut plugins {
            plugin.event("started").await;
        }
        plugins
    }
}

impl Ours {
    async fn with_rust(dir: &Path, count: usize) -> Result<Self, Failure> {
        let socket = dir.join(format!("rust{count}.sock"));
        let adaptation = host::start(&socket, Node::default(), Synchronized::default()).await?;
        let mut roles = Vec::new();
        for nth in 0..count {
            roles.push(Role::plugins(&socket, nth, 1)?);
        }
        host::active(&adaptation, count).await?;
        let pids = roles.iter().map(Role::pid).collect();
        Ok(Self {
            adaptation,
            _roles: roles,
            _go: Vec::new(),
            pids,
        })
    }

    async fn with_go(dir: &Path, programs: &Programs) -> Result<Self, Failure> {
        let socket = dir.join("go1.sock");
        let adaptation = host::start(&socket, Node::default(), Synchronized::default()).await?;
        let go = programs.plugins(&socket, 1).await;
        host::active(&adaptation, 1).await?;
        let pids = go.iter().filter_map(LinePeer::pid).collect();
        Ok(Self {
            adaptation,
            _roles: Vec::new(),
            _go: go,
            pids,
        })
    }

    async fn create(&self, n: usize, samples: &mut Samples) -> Result<(), Failure> {
        let options = RequestOptions::default();
        for _ in 0..n {
            let request = subject::request(0);
            let begin = Instant::now();
            let created = self.adaptation.create_container(request, &options).await?;
            samples.push(begin.elapsed());
            drop(created);
        }
        Ok(())
    }

    async fn state(&self, samples: &mut Samples) -> Result<(), Failure> {
        let options = RequestOptions::default();
        let (pod, container) = (subject::pod(0), subject::container(0));
        for _ in 0..TURN {
            let begin = Instant::now();
            self.adaptation
                .start_container(&pod, &container, &options)
                .await?;
            samples.push(begin.elapsed());
        }
        Ok(())
    }

    /// The time that `n` requests for eight pods take.
    async fn parallel(&self, n: usize) -> Result<Duration, Failure> {
        let mut tasks = JoinSet::new();
        let begin = Instant::now();
        for worker in 0..PARALLEL {
            let adaptation = self.adaptation.clone();
            tasks.spawn(async move {
                let options = RequestOptions::default();
                for _ in 0..n / PARALLEL {
                    let request = subject::request(worker);
                    adaptation.create_container(request, &options).await?;
                }
                Ok::<_, longshore_nri_adaptation::RequestError>(())
            });
        }
        while let Some(ended) = tasks.join_next().await {
            ended??;
        }
        Ok(begin.elapsed())
    }
}

const PARALLEL: usize = 8;

impl Theirs {
    async fn with(dir: &Path, programs: &Programs, count: usize) -> Self {
        let socket = dir.join(format!("theirs{count}.sock"));
        let path = socket.display().to_string();
        let more = ["-quiet", "-request-timeout", "60s", "-socket", &path];
        let mut runtime = LinePeer::start(&programs.runtime, more);
        runtime.event("started").await;
        let plugins = programs.plugins(&socket, count).await;
        let wait = serde_json::json!({"op": "wait", "plugins": count});
        runtime.done(&wait).await;
        Self { runtime, plugins }
    }

    async fn bench(&mut self, what: &str, samples: &mut Samples) -> Result<(), Failure> {
        let measured = self.runtime.done(&subject::go_bench(what, TURN, 1)).await;
        let times = measured["ns"].as_array().ok_or("no times")?;
        for time in times {
            samples.push(Duration::from_nanos(time.as_u64().ok_or("no time")?));
        }
        Ok(())
    }

    async fn parallel(&mut self, n: usize) -> Result<Duration, Failure> {
        let command = subject::go_bench(CREATE, n, PARALLEL);
        let measured = self.runtime.done(&command).await;
        let elapsed = measured["elapsed"].as_u64().ok_or("no time")?;
        Ok(Duration::from_nanos(elapsed))
    }

    fn pids(&self) -> Vec<u32> {
        let peers = self.plugins.iter().chain([&self.runtime]);
        peers.filter_map(LinePeer::pid).collect()
    }
}

fn on_cpu(pids: &[u32]) -> Result<Duration, Failure> {
    pids.iter().map(|pid| proc::on_cpu(*pid)).sum()
}

/// Prints rows with or without their limits.
struct Rows<'a> {
    report: &'a mut Report,
    suffix: &'a str,
    judged: bool,
}

impl Rows<'_> {
    fn add(&mut self, name: &str, limit: f64, row: impl FnOnce(String) -> Row) {
        let row = row(format!("{name}{}", self.suffix));
        self.report.add(if self.judged {
            row.p50_limit(limit)
        } else {
            row
        });
    }
}

/// All figures; without limits unless `judged`.
pub(crate) async fn measure(
    report: &mut Report,
    suffix: &str,
    judged: bool,
) -> Result<(), Failure> {
    let dir = tempfile::Builder::new().prefix("ln-").tempdir_in("/tmp")?;
    let programs = tokio::task::spawn_blocking(Programs::build).await?;
    let turns = if report.options().long { 50 } else { 12 };
    let mut rows = Rows {
        report,
        suffix,
        judged,
    };
    let hop = one(&mut rows, dir.path(), programs.as_ref(), turns).await?;
    nobody(&mut rows, dir.path(), &hop, turns).await?;
    ten(&mut rows, dir.path(), programs.as_ref(), &hop, turns / 3).await?;
    parallel(&mut rows, dir.path(), programs.as_ref(), turns / 3).await
}

/// One plugin; gives the times of a hop.
async fn one(
    rows: &mut Rows<'_>,
    dir: &Path,
    programs: Option<&Programs>,
    turns: usize,
) -> Result<Samples, Failure> {
    let mut bare = Bare::start(dir).await?;
    let rust = Ours::with_rust(dir, 1).await?;
    let mut peers = match programs {
        Some(programs) => Some((
            Ours::with_go(dir, programs).await?,
            Theirs::with(dir, programs, 1).await,
        )),
        None => None,
    };
    // `paired` is compared with the bare bytes, `hop` with what is measured in turns, too.
    let [
        mut hop,
        mut paired,
        mut bytes,
        mut same,
        mut theirs,
        mut warm,
    ] = [(); 6].map(|()| Samples::default());
    let mut cpu = [Duration::ZERO; 3];
    for turn in 0..=turns {
        // The first turn is not counted.
        let counts = turn > 0;
        // Pair by pair, so that both find the processors in the same state.
        for _ in 0..TURN {
            rust.create(1, if counts { &mut paired } else { &mut warm })
                .await?;
            let begin = Instant::now();
            bare.hop().await?;
            if counts {
                bytes.push(begin.elapsed());
            }
        }
        let mut ours_pids = rust.pids.clone();
        ours_pids.push(id());
        let before = on_cpu(&ours_pids)?;
        rust.create(TURN, if counts { &mut hop } else { &mut warm })
            .await?;
        if counts {
            cpu[0] += on_cpu(&ours_pids)?.saturating_sub(before);
        }
        let bare_pids = [id(), bare.role.pid()];
        let before = on_cpu(&bare_pids)?;
        for _ in 0..TURN {
            bare.hop().await?;
        }
        if counts {
            cpu[1] += on_cpu(&bare_pids)?.saturating_sub(before);
        }
        if let Some((ours, go)) = &mut peers {
            ours.create(TURN, if counts { &mut same } else { &mut warm })
                .await?;
            let before = on_cpu(&go.pids())?;
            go.bench(CREATE, if counts { &mut theirs } else { &mut warm })
                .await?;
            if counts {
                cpu[2] += on_cpu(&go.pids())?.saturating_sub(before);
            }
        }
    }
    let each = |total: Duration| Unit::Micros.of(total) / number(turns * TURN);
    rows.add("create, one plugin", 2.0, |name| {
        Row::against(name, Unit::Micros, &paired, "the same bytes bare", &bytes)
    });
    if peers.is_some() {
        rows.add("create, one plugin, beside Go", 0.4, |name| {
            Row::against(name, Unit::Micros, &hop, "Go with a Go plugin", &theirs)
        });
        rows.add("create, one Go plugin", 0.7, |name| {
            Row::against(
                name,
                Unit::Micros,
                &same,
                "Go with the same plugin",
                &theirs,
            )
        });
        rows.add("processor time of a hop", 0.35, |name| {
            Row::value(name, Unit::Micros, each(cpu[0]), hop.len()).peer("Go", each(cpu[2]))
        });
    }
    let bare_row = Row::value(
        format!("processor time of a hop, bare{}", rows.suffix),
        Unit::Micros,
        each(cpu[1]),
        bytes.len(),
    );
    rows.report.add(bare_row);
    Ok(hop)
}

/// Nobody listens.
async fn nobody(
    rows: &mut Rows<'_>,
    dir: &Path,
    hop: &Samples,
    turns: usize,
) -> Result<(), Failure> {
    let socket = dir.join("nobody.sock");
    let adaptation = host::start(&socket, Node::default(), Synchronized::default()).await?;
    let ours = Ours {
        adaptation,
        _roles: Vec::new(),
        _go: Vec::new(),
        pids: Vec::new(),
    };
    let mut samples = Samples::default();
    for _ in 0..turns {
        ours.create(TURN, &mut samples).await?;
    }
    rows.add("create, no plugin subscribed", 0.02, |name| {
        Row::against(name, Unit::Micros, &samples, "a hop", hop)
    });
    Ok(())
}

async fn ten(
    rows: &mut Rows<'_>,
    dir: &Path,
    programs: Option<&Programs>,
    hop: &Samples,
    turns: usize,
) -> Result<(), Failure> {
    let rust = Ours::with_rust(dir, 10).await?;
    let mut go = match programs {
        Some(programs) => Some(Theirs::with(dir, programs, 10).await),
        None => None,
    };
    let [mut create, mut state, mut go_create, mut go_state] = [(); 4].map(|()| Samples::default());
    for _ in 0..turns {
        rust.create(TURN, &mut create).await?;
        rust.state(&mut state).await?;
        if let Some(go) = &mut go {
            go.bench(CREATE, &mut go_create).await?;
            go.bench(START, &mut go_state).await?;
        }
    }
    let row = |ours: &Samples, peer: &str, theirs: &Samples| {
        let (ours, peer, theirs) = (ours.clone(), peer.to_owned(), theirs.clone());
        move |name| Row::against(name, Unit::Micros, &ours, &peer, &theirs)
    };
    rows.add("create, ten plugins", 14.0, row(&create, "a hop", hop));
    rows.add("state change, ten plugins", 5.0, row(&state, "a hop", hop));
    if go.is_some() {
        rows.add(
            "create, ten plugins, beside Go",
            1.0 / 3.0,
            row(&create, "Go", &go_create),
        );
        rows.add(
            "state change, ten plugins, beside Go",
            1.0 / 6.0,
            row(&state, "Go", &go_state),
        );
    }
    Ok(())
}

async fn parallel(
    rows: &mut Rows<'_>,
    dir: &Path,
    programs: Option<&Programs>,
    turns: usize,
) -> Result<(), Failure> {
    const N: usize = 400;
    let rust = Ours::with_rust(dir, 5).await?;
    let mut go = match programs {
        Some(programs) => Some(Theirs::with(dir, programs, 5).await),
        None => None,
    };
    let (mut ours, mut theirs) = (Samples::default(), Samples::default());
    for _ in 0..turns.max(3) {
        ours.push(rust.parallel(N).await?);
        if let Some(go) = &mut go {
            theirs.push(go.parallel(N).await?);
        }
    }
    let rate = |samples: &Samples| number(N) / samples.p50().as_secs_f64();
    let value = rate(&ours);
    let row = |name| Row::value(name, Unit::Count, value, ours.len()).higher_is_better();
    let name = "creates a second, eight pods, five plugins";
    match go {
        Some(_) => {
            let theirs = rate(&theirs);
            rows.add(name, 5.0, |name| row(name).peer("Go", theirs));
        }
        None => rows.report.add(row(format!("{name}{}", rows.suffix))),
    }
    Ok(())
}
