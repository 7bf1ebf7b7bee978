//! Reading the configuration again: by request, by SIGHUP, and the plugin directory by itself.
//!
//! ```text
//!   SIGHUP, control ----> everything ----\
//!   inotify, rescan ----> plugins, tasks --+--> valid --> manager.apply --> in force
//!                                         \--> else  --> refused, the old one stays
//! ```
//!
//! The main file is read on request only: while it is being edited nothing may happen.

use std::sync::Arc;
use std::time::Duration;

use longshore_csi_manager::CsiManager;
use longshore_task_manager::{Declaration, DeclaredBy, DeclaredTasks};
use tokio::signal::unix::Signal;
use tokio::sync::{mpsc, oneshot};

use crate::board::Board;
use crate::watch_dir::WatchDir;
use crate::{Config, LogHandle, Sources, parse_log_filter};

/// How often the plugin directory is read without an event: inotify does not see everything.
const RESCAN: Duration = Duration::from_secs(30);

/// A burst of events in the plugin directory is one reload: so long after the first.
const SETTLE: Duration = Duration::from_millis(100);

/// What a reload did.
#[derive(Debug)]
pub(crate) struct Reloaded {
    pub(crate) changes: Vec<String>,
    pub(crate) warnings: Vec<String>,
    /// What is not in force of it: the broken files of the plugin directory.
    pub(crate) errors: Vec<String>,
}

/// Somebody who wants a reload and to know how it went.
pub(crate) type Request = oneshot::Sender<Result<Reloaded, String>>;

/// The one task that changes the configuration.
#[derive(Debug)]
pub(crate) struct Reloader {
    pub(crate) sources: Sources,
    pub(crate) board: Board,
    pub(crate) manager: CsiManager,
    /// None where no engine can be used.
    pub(crate) tasks: Option<DeclaredTasks>,
    pub(crate) requests: mpsc::Receiver<Request>,
    pub(crate) hangup: Signal,
    pub(crate) log: Option<LogHandle>,
}

impl Reloader {
    /// Serves requests until their sender is gone.
    pub(crate) async fn run(mut self) {
        let (mut watch, mut tasks) = self.watch();
        let mut rescan = tokio::time::interval(RESCAN);
        rescan.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        rescan.reset();
        loop {
            tokio::select! {
                request = self.requests.recv() => {
                    let Some(request) = request else { return };
                    let outcome = self.reload().await;
                    (watch, tasks) = self.watch();
                    // Who asked may be gone; the reload holds all the same.
                    let _gone = request.send(outcome);
                }
                Some(()) = self.hangup.recv() => {
                    match self.reload().await {
                        Ok(reloaded) => {
                            for error in &reloaded.errors {
                                tracing::error!(%error, "a file of the configuration is refused");
                            }
                        }
                        Err(error) => tracing::error!(
                            %error,
                            "the new configuration is refused, the old one stays in force"
                        ),
                    }
                    (watch, tasks) = self.watch();
                }
                () = WatchDir::changed(watch.as_mut()) => {
                    tokio::time::sleep(SETTLE).await;
                    self.rescan().await;
                    (watch, tasks) = self.watch();
                }
                () = WatchDir::changed(tasks.as_mut()) => {
                    tokio::time::sleep(SETTLE).await;
                    self.rescan().await;
                    (watch, tasks) = self.watch();
                }
                _ = rescan.tick() => {
                    self.rescan().await;
                    if watch.is_none() || tasks.is_none() {
                        (watch, tasks) = self.watch();
                    }
                }
            }
        }
    }

    /// The directories of plugins and of tasks.
    fn watch(&self) -> (Option<WatchDir>, Option<WatchDir>) {
        let config = Arc::clone(&self.board.now().config);
        let watch = |dir: &std::path::Path| match WatchDir::new(dir) {
            Ok(watch) => Some(watch),
            Err(error) => {
                tracing::debug!(dir = %dir.display(), %error, "not watched, only read again now and then");
                None
            }
        };
        let tasks = config.task_dir.as_ref().map(|(dir, _)| dir.as_path());
        (
            config.plugin_dir.as_deref().and_then(watch),
            tasks.and_then(watch),
        )
    }

    async fn reload(&self) -> Result<Reloaded, String> {
        let before = Arc::clone(&self.board.now().config);
        let (sources, previous) = (self.sources.clone(), Arc::clone(&before));
        let load = move || Config::load(&sources, Some(&previous));
        let loaded = match tokio::task::spawn_blocking(load).await {
            Ok(Ok(config)) => fixed_settings(&before, &config).map(|()| config),
            Ok(Err(error)) => Err(error.to_string()),
            Err(error) => Err(format!("reading the configuration failed: {error}")),
        };
        match loaded {
            Ok(config) => self.put_in_force(&before, config).await,
            Err(reason) => {
                self.board.refused(reason.clone());
                Err(reason)
            }
        }
    }

    /// Only the directories of plugins and tasks: the main file's part stays as it is in force.
    async fn rescan(&self) {
        let before = Arc::clone(&self.board.now().config);
        if before.plugin_dir.is_none() && before.task_dir.is_none() {
            return;
        }
        let previous = Arc::clone(&before);
        let Ok(config) = tokio::task::spawn_blocking(move || previous.rescan()).await else {
            return;
        };
        if config.plugins == before.plugins
            && config.declared == before.declared
            && config.errors == before.errors
            && config.warnings == before.warnings
        {
            return;
        }
        for error in config
            .errors
            .iter()
            .filter(|error| !before.errors.contains(error))
        {
            tracing::error!(%error, "a file of the configuration is refused");
        }
        let refused = self.board.now().refused.clone();
        if let Err(error) = self.put_in_force(&before, config).await {
            tracing::error!(%error, "the plugin directory's plugins are refused");
        } else if let Some(refused) = refused {
            self.board.still_refused(refused);
        }
    }

    async fn put_in_force(&self, before: &Config, config: Config) -> Result<Reloaded, String> {
        let plugins = config
            .plugins
            .iter()
            .map(|plugin| plugin.config.clone())
            .collect();
        if let Err(error) = self.manager.apply(plugins).await {
            let reason = chain(&error);
            self.board.refused(reason.clone());
            return Err(reason);
        }
        let mut config = config;
        if let Some(tasks) = &self.tasks {
            config
                .errors
                .extend(tasks.apply(config.declared.declared.clone()).await);
        }
        let reloaded = Reloaded {
            changes: changes(before, &config),
            warnings: config.warnings.clone(),
            errors: config.errors.clone(),
        };
        if before.log != config.log {
            self.set_log(&config.log);
        }
        for change in &reloaded.changes {
            tracing::info!(%change, "configuration");
        }
        self.board.accepted(Arc::new(config));
        Ok(reloaded)
    }

    /// It has been judged with the configuration.
    fn set_log(&self, filter: &str) {
        let (Some(log), Ok(filter)) = (&self.log, parse_log_filter(filter)) else {
            return;
        };
        if let Err(error) = log.reload(filter) {
            tracing::error!(%error, "the log filter stays as it was");
        }
    }
}

/// An error with its causes on one line.
pub(crate) fn chain(error: &(dyn std::error::Error + 'static)) -> String {
    let mut line = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let text = error.to_string();
        if !line.contains(&text) {
            line.push_str(": ");
            line.push_str(&text);
        }
        cause = error.source();
    }
    line
}

/// Whether a setting differs.
type Differs = fn(&Config, &Config) -> bool;

/// What only a new start can change.
pub(crate) const FIXED: &[(&str, Differs)] = &[
    ("state_dir", |before, after| {
        before.state_dir != after.state_dir
    }),
    ("runtime_dir", |before, after| {
        before.runtime_dir != after.runtime_dir
    }),
    ("control_group", |before, after| {
        before.control_group != after.control_group
    }),
    ("agent", |before, after| {
        before.agent != after.agent || before.agent_id != after.agent_id
    }),
    ("tasks", |before, after| before.tasks != after.tasks),
    ("nri", |before, after| before.nri != after.nri),
    ("http", |before, after| before.http != after.http),
    ("log_format", |before, after| {
        before.log_format != after.log_format
    }),
];

fn fixed_settings(before: &Config, after: &Config) -> Result<(), String> {
    match FIXED.iter().find(|(_, differs)| differs(before, after)) {
        Some((key, _)) => Err(format!(
            "`{key}` changed, which needs a restart of the daemon"
        )),
        None => Ok(()),
    }
}

/// One line a plugin that came, went or changed, and one for the log.
fn changes(before: &Config, after: &Config) -> Vec<String> {
    let find = |config: &Config, name: &str| {
        config
            .plugins
            .iter()
            .find(|plugin| plugin.name() == name)
            .map(|plugin| (plugin.config.clone(), plugin.kubelet))
    };
    let mut lines = Vec::new();
    if before.log != after.log {
        lines.push(format!("log: {} (was {})", after.log, before.log));
    }
    let (old, new) = (&before.kubelet, &after.kubelet);
    if old != new {
        lines.push(format!(
            "kubelet.registration_dir: {} (was {})",
            new.registration_dir.display(),
            old.registration_dir.display()
        ));
    }
    for plugin in &after.plugins {
        match find(before, plugin.name()) {
            None => lines.push(format!("plugin {}: added", plugin.name())),
            Some(old) if old != (plugin.config.clone(), plugin.kubelet) => {
                lines.push(format!("plugin {}: changed", plugin.name()));
            }
            Some(_) => {}
        }
    }
    for plugin in &before.plugins {
        if find(after, plugin.name()).is_none() {
            lines.push(format!("plugin {}: removed", plugin.name()));
        }
    }
    lines.extend(task_changes(before, after));
    lines
}

/// One line a declared task that came, went or changed.
fn task_changes(before: &Config, after: &Config) -> Vec<String> {
    let (before, after) = (&before.declared.declared, &after.declared.declared);
    fn find<'a>(all: &'a [Declaration], name: &str) -> Option<&'a Declaration> {
        all.iter().find(|it| it.name == name)
    }
    let mut lines = Vec::new();
    for task in &after.wanted {
        match find(&before.wanted, &task.name) {
            None => lines.push(format!("task {}: declared", task.name)),
            Some(old) if old != task => lines.push(format!("task {}: changed", task.name)),
            Some(_) => {}
        }
    }
    let gone = |task: &&Declaration| {
        let DeclaredBy::File(path) = &task.origin else {
            return false;
        };
        find(&after.wanted, &task.name).is_none() && !after.unknown && !after.broken.contains(path)
    };
    let gone = before.wanted.iter().filter(gone);
    lines.extend(gone.map(|task| format!("task {}: not declared any more", task.name)));
    lines
}
