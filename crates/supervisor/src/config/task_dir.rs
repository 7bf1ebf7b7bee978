//! A directory of declared tasks, one a file: `NAME.toml` has the names of the flags of `task run`, `NAME.json` is a
//! `TaskInfo`. A broken file never hurts the others: what it said before stays in force.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use longshore_task_manager::{
    Declaration, Declared, DeclaredBy, LogMode, Need, Rule, check_declared_name, cycles,
};
use longshore_task_spec::run::{self, RunProblem};
use serde_json::Value as Json;
use toml::{Table, Value};

use super::error::{ConfigError, Origin};
use super::locate::Located;
use super::plugin_dir::{files, json_error_line, line_of};
use super::sources::read_bounded;

/// What a directory of tasks holds.
#[derive(Debug, Clone, Default)]
pub(crate) struct TaskDir {
    pub(crate) declared: Declared,
    /// Each one line.
    pub(crate) errors: Vec<String>,
    pub(crate) warnings: Vec<String>,
}

impl PartialEq for TaskDir {
    fn eq(&self, other: &Self) -> bool {
        let all = |dir: &Self| {
            let declared = dir.declared.clone();
            (declared.wanted, declared.broken, declared.unknown)
        };
        all(self) == all(other) && self.errors == other.errors && self.warnings == other.warnings
    }
}

/// What is wrong in a file: a key and a message.
struct Wrong {
    key: String,
    message: String,
}

fn wrong<T>(key: &str, message: impl Into<String>) -> Result<T, Wrong> {
    Err(Wrong {
        key: key.to_owned(),
        message: message.into(),
    })
}

impl From<RunProblem> for Wrong {
    fn from(problem: RunProblem) -> Self {
        // The key is told by itself.
        let flag = format!("--{} ", problem.key);
        let message = problem.message.strip_prefix(&flag);
        Self {
            message: message.unwrap_or(&problem.message).to_owned(),
            key: problem.key,
        }
    }
}

/// Reads every file of `dir`; one that is not `named` may be missing.
pub(crate) fn read(dir: &Path, named: bool) -> TaskDir {
    let mut found = TaskDir::default();
    let files = match files(dir) {
        Ok(files) => files,
        Err(error) if !named && error.kind() == std::io::ErrorKind::NotFound => return found,
        Err(source) => {
            found.declared.unknown = true;
            let path = dir.to_owned();
            found
                .errors
                .push(ConfigError::Read { path, source }.to_string());
            return found;
        }
    };
    let mut names = BTreeSet::new();
    for path in files {
        let kind = path.extension().and_then(|it| it.to_str());
        if !matches!(kind, Some("toml" | "json")) {
            let path = path.display();
            found.warnings.push(format!(
                "{path}: it ends neither in .toml nor in .json, ignored"
            ));
            continue;
        }
        match file(&path, &mut found.warnings) {
            Ok(task) if names.insert(task.name.clone()) => found.declared.wanted.push(task),
            Ok(task) => {
                let (path, name) = (path.display(), task.name);
                found.errors.push(format!(
                    "{path}: a task `{name}` is declared by another file already; rename one"
                ));
            }
            // Gone between the listing and now: removed, not broken.
            Err(ConfigError::Read { source, .. })
                if source.kind() == std::io::ErrorKind::NotFound => {}
            Err(error) => {
                found.errors.push(error.to_string());
                found.declared.broken.insert(path);
            }
        }
    }
    refuse_circles(&mut found);
    found
}

/// Tasks that need each other are none of them started by themselves: they are refused.
fn refuse_circles(found: &mut TaskDir) {
    loop {
        let wanted = &found.declared.wanted;
        let needs: Vec<_> = wanted
            .iter()
            .map(|it| (it.name.as_str(), it.needs.as_slice()))
            .collect();
        let circles: Vec<Vec<String>> = cycles(&needs)
            .into_iter()
            .map(|circle| circle.into_iter().map(str::to_owned).collect())
            .collect();
        if circles.is_empty() {
            break;
        }
        for circle in circles {
            let way = circle
                .iter()
                .chain(circle.first())
                .cloned()
                .collect::<Vec<_>>()
                .join(" needs ");
            let (out, left) = std::mem::take(&mut found.declared.wanted)
                .into_iter()
                .partition::<Vec<_>, _>(|it| circle.contains(&it.name));
            found.declared.wanted = left;
            for task in out {
                let DeclaredBy::File(path) = task.origin else {
                    continue;
                };
                let text = read_bounded(&path).unwrap_or_default();
                let origin = Origin::File {
                    line: line(&path, &text, "needs"),
                    path: path.clone(),
                };
                let message = format!("{way}: none of them can be the first; leave one need out");
                let key = "needs".to_owned();
                found.errors.push(
                    ConfigError::Invalid {
                        origin,
                        key,
                        message,
                    }
                    .to_string(),
                );
                found.declared.broken.insert(path);
            }
        }
    }
    // What nobody declares is waited for; that it is misspelt is more likely.
    let names: BTreeSet<_> = found
        .declared
        .wanted
        .iter()
        .map(|it| it.name.clone())
        .collect();
    for task in &found.declared.wanted {
        for need in &task.needs {
            if let (Need::Task(name), DeclaredBy::File(path)) = (need, &task.origin)
                && !names.contains(name)
            {
                let path = path.display();
                found.warnings.push(format!(
                    "{path}: needs: no file declares {need}; it is waited for"
                ));
            }
        }
    }
}

fn line(path: &Path, text: &str, key: &str) -> usize {
    if path.extension().is_some_and(|it| it == "toml") {
        Located::new(text).line(key).max(1)
    } else {
        line_of(text, key)
    }
}

fn file(path: &Path, warnings: &mut Vec<String>) -> Result<Declaration, ConfigError> {
    let text = read_bounded(path)?;
    let at = |line| Origin::File {
        path: path.to_owned(),
        line,
    };
    let stem = path
        .file_stem()
        .unwrap_or_default()
        .to_string_lossy()
        .into_owned();
    let read = if path.extension().is_some_and(|it| it == "toml") {
        let table: Table = toml::from_str(&text).map_err(|error| {
            let before = error.span().map_or(0, |span| span.start);
            let line = text
                .bytes()
                .take(before)
                .filter(|byte| *byte == b'\n')
                .count()
                + 1;
            ConfigError::Syntax {
                origin: at(line),
                key: String::new(),
                message: error.message().trim().replace('\n', "; "),
            }
        })?;
        of_table(table, path)
    } else {
        let value: Json = serde_json::from_str(&text).map_err(|error| ConfigError::Syntax {
            origin: at(json_error_line(&error)),
            key: String::new(),
            message: error.to_string(),
        })?;
        of_json(value, path).map(|(declaration, unknown)| {
            for field in unknown {
                let origin = at(line_of(&text, &field));
                warnings.push(format!("{origin}: {field}: unknown field, ignored"));
            }
            declaration
        })
    };
    let judged = read.and_then(|mut declaration| {
        if declaration.name.is_empty() {
            declaration.name = stem;
        }
        if let Err(error) = check_declared_name(&declaration.name) {
            return wrong("name", error.to_string());
        }
        declaration.info.task_id.value.clone_from(&declaration.name);
        declaration.info.name.clone_from(&declaration.name);
        match longshore_docker_executor::judge(&declaration.info) {
            Ok(()) => Ok(declaration),
            Err(problem) => {
                let key = problem
                    .split([' ', ':', '['])
                    .next()
                    .unwrap_or_default()
                    .to_owned();
                wrong(key.rsplit('.').next().unwrap_or_default(), problem)
            }
        }
    });
    judged.map_err(|Wrong { key, message }| ConfigError::Invalid {
        origin: at(line(path, &text, &key)),
        key: if key.is_empty() {
            "task".to_owned()
        } else {
            key
        },
        message,
    })
}

/// The keys that are not docker's.
#[derive(Default)]
struct Ours {
    restart: Option<String>,
    needs: Vec<String>,
    logs: Option<String>,
}

impl Ours {
    fn declaration(self, built: run::Built, path: &Path) -> Result<Declaration, Wrong> {
        let rule = match self.restart {
            None => Rule::Always,
            Some(word) => rule(&word).or_else(|message| wrong("restart", message))?,
        };
        let mut needs: Vec<Need> = Vec::new();
        for need in self.needs {
            needs.push(
                need.parse()
                    .or_else(|message: String| wrong("needs", message))?,
            );
        }
        let logs = match self.logs.as_deref() {
            None => None,
            Some("files") => Some(LogMode::Files),
            Some("engine") => Some(LogMode::Engine),
            Some("none") => Some(LogMode::None),
            Some(other) => {
                return wrong(
                    "logs",
                    format!("{other:?}: it must be files, engine or none"),
                );
            }
        };
        Ok(Declaration {
            name: built.task.task_id.value.clone(),
            info: built.task,
            logs,
            rule,
            needs,
            origin: DeclaredBy::File(path.to_owned()),
        })
    }
}

/// The word of a rule.
///
/// # Errors
/// It is none, and what to write instead.
pub(crate) fn rule(word: &str) -> Result<Rule, String> {
    match word {
        "no" => Ok(Rule::No),
        "on-failure" => Ok(Rule::OnFailure),
        "always" => Ok(Rule::Always),
        "unless-stopped" => Err(format!(
            "{word:?} is what \"always\" is here: what an operator has stopped stays so"
        )),
        _ if word.starts_with("on-failure:") => Err(format!(
            "{word:?}: the number of starts is limited for all tasks by `tasks.restart`; write \"on-failure\""
        )),
        _ => Err(format!("{word:?}: it must be no, on-failure or always")),
    }
}

fn of_table(table: Table, path: &Path) -> Result<Declaration, Wrong> {
    let mut ours = Ours::default();
    let mut flags = Vec::new();
    let mut words = Vec::new();
    let mut command = Vec::new();
    for (key, value) in table {
        match key.as_str() {
            "image" => words.push(text(&key, &value)?),
            "command" => command = list(&key, value)?,
            "restart" => ours.restart = Some(text(&key, &value)?),
            "needs" => ours.needs = list(&key, value)?,
            "logs" => ours.logs = Some(text(&key, &value)?),
            "detach" | "rm" | "file" | "quiet" | "json" | "config" | "runtime-dir" => {
                return wrong(
                    &key,
                    "it is about the command `task run` alone; leave it out",
                );
            }
            _ => {
                for value in list(&key, value)? {
                    if key == "env" && !value.contains('=') {
                        return wrong(&key, "a variable without a value: write NAME=VALUE");
                    }
                    flags.push((key.clone(), value));
                }
            }
        }
    }
    if words.is_empty() {
        return wrong("image", "no image is named");
    }
    words.append(&mut command);
    let here = path.parent().unwrap_or(Path::new("/"));
    let built = run::from_flags(flags.into(), &words, here, &|_| None)?;
    ours.declaration(built, path)
}

fn of_json(mut value: Json, path: &Path) -> Result<(Declaration, Vec<String>), Wrong> {
    let mut ours = Ours::default();
    if let Some(members) = value.as_object_mut() {
        let mut take = |key: &str| members.remove(key);
        let words = |key: &str, value: Option<Json>| match value {
            None => Ok(None),
            Some(Json::String(text)) => Ok(Some(text)),
            Some(_) => wrong(key, "it must be a text"),
        };
        ours.restart = words("restart", take("restart"))?;
        ours.logs = words("logs", take("logs"))?;
        match take("needs") {
            None => {}
            Some(Json::Array(all)) => {
                for need in all {
                    ours.needs.extend(words("needs", Some(need))?);
                }
            }
            Some(_) => return wrong("needs", "it must be a list of texts"),
        }
    }
    let bytes = value.to_string();
    let (built, unknown) = run::from_file(bytes.as_bytes(), path)?;
    Ok((ours.declaration(built, path)?, unknown))
}

fn text(key: &str, value: &Value) -> Result<String, Wrong> {
    match value {
        Value::String(text) => Ok(text.clone()),
        Value::Integer(number) => Ok(number.to_string()),
        Value::Float(number) => Ok(number.to_string()),
        Value::Boolean(yes) => Ok(yes.to_string()),
        Value::Datetime(_) | Value::Array(_) | Value::Table(_) => {
            wrong(key, "it must be a text, a number, true or false")
        }
    }
}

/// A value, a list of them, or a table of pairs: as a flag that is given so often.
fn list(key: &str, value: Value) -> Result<Vec<String>, Wrong> {
    match value {
        Value::Array(items) => items.iter().map(|item| text(key, item)).collect(),
        Value::Table(pairs) => pairs
            .iter()
            .map(|(name, value)| Ok(format!("{name}={}", text(key, value)?)))
            .collect(),
        one => Ok(vec![text(key, &one)?]),
    }
}

/// Where tasks are declared when nothing is said: beside the main file.
pub(super) fn default_dir(main: &Path) -> Option<PathBuf> {
    let main = std::path::absolute(main).ok()?;
    Some(main.parent()?.join("tasks.d"))
}
