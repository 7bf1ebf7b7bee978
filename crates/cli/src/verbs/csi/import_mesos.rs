//! `longshore csi import-mesos WORK_DIR`: what a Mesos agent ran, as our configuration.
//!
//! Reads `<work_dir>/csi/<type>/<name>/containers/<id>/container.info`, prints TOML, changes nothing.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use longshore_checkpoint::mesos::read_message;
use longshore_mesos_api::{DecodeLimits, decode, v1 as mesos};
use longshore_paths::{CsiRoot, PluginName, PluginType};
use toml::{Table, Value};

use crate::fault::{Exit, Fault};
use crate::output::Out;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The work directory of the Mesos agent (`--work_dir`).
    work_dir: PathBuf,
}

/// The largest record that is read, in bytes.
const RECORD_MAX: u64 = 4 * 1024 * 1024;

/// What the agent put into the command and volumes itself, and we do again.
const OWN_VARIABLES: [&str; 2] = ["CSI_ENDPOINT", "MESOS_AGENT_ID"];

/// A plugin that was found, with its containers.
struct Found {
    plugin_type: PluginType,
    name: PluginName,
    containers: Vec<(PathBuf, mesos::CsiPluginContainerInfo)>,
}

pub(crate) fn run(args: &Args, out: &mut Out) -> Result<Exit> {
    let root = CsiRoot::new(args.work_dir.join("csi"));
    let mut problems = Vec::new();
    let found = find(&root, &mut problems)?;
    for problem in &problems {
        out.line(format_args!("# {problem}"))?;
    }
    if found.is_empty() {
        out.flush()?;
        let at = root.path().display();
        return Err(
            Fault::new(Exit::Failure, format!("no plugin was found below {at}"))
                .hint("name the agent's --work_dir, the directory that has `csi` in it")
                .into(),
        );
    }
    let mut names = std::collections::BTreeSet::new();
    for plugin in &found {
        let mut key = plugin.name.to_string();
        if key == "default" || !names.insert(key.clone()) {
            key = format!(
                "{}-{}",
                plugin.plugin_type.as_str().replace('.', "-"),
                plugin.name
            );
            names.insert(key.clone());
        }
        let (table, comments) = plugin_table(plugin);
        for comment in comments {
            out.line(format_args!("# {comment}"))?;
        }
        let plugins = Table::from_iter([(key, Value::Table(table))]);
        let document = Table::from_iter([("plugins".to_owned(), Value::Table(plugins))]);
        let text = toml::to_string(&document).context("cannot write the configuration")?;
        out.line(text)?;
    }
    Ok(if problems.is_empty() {
        Exit::Success
    } else {
        Exit::Failure
    })
}

fn find(root: &CsiRoot, problems: &mut Vec<String>) -> Result<Vec<Found>> {
    let mut plugins: Vec<Found> = Vec::new();
    for type_dir in subdirectories(root.path())? {
        for name_dir in subdirectories(&type_dir)? {
            for dir in subdirectories(&name_dir.join("containers")).unwrap_or_default() {
                let (plugin_type, name, id) = match root.parse_container(&dir) {
                    Ok(parsed) => parsed,
                    Err(error) => {
                        problems.push(format!("{}: {error}", dir.display()));
                        continue;
                    }
                };
                let path = root.container_info(&plugin_type, &name, &id);
                match read(&path) {
                    Ok(Some(info)) => {
                        let known = plugins
                            .iter_mut()
                            .find(|known| known.plugin_type == plugin_type && known.name == name);
                        match known {
                            Some(known) => known.containers.push((path, info)),
                            None => plugins.push(Found {
                                plugin_type,
                                name,
                                containers: vec![(path, info)],
                            }),
                        }
                    }
                    Ok(None) => problems.push(format!("{}: empty, left out", path.display())),
                    Err(error) => {
                        let text = crate::fault::chain(&error);
                        problems.push(format!("{}: {text}", path.display()));
                    }
                }
            }
        }
    }
    Ok(plugins)
}

fn read(path: &Path) -> Result<Option<mesos::CsiPluginContainerInfo>> {
    let Some(bytes) = read_message(path, RECORD_MAX)? else {
        return Ok(None);
    };
    Ok(Some(decode(&bytes, &DecodeLimits::default())?))
}

fn subdirectories(dir: &Path) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(dir).with_context(|| format!("cannot list {}", dir.display()))? {
        let entry = entry.with_context(|| format!("cannot list {}", dir.display()))?;
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            found.push(entry.path());
        }
    }
    found.sort();
    Ok(found)
}

/// The plugin's table, and what it cannot say.
fn plugin_table(plugin: &Found) -> (Table, Vec<String>) {
    let mut comments = Vec::new();
    let containers = plugin.containers.iter().map(|(path, info)| {
        comments.push(format!("from {}", path.display()));
        Value::Table(container_table(info, &mut comments))
    });
    let containers = Value::Array(containers.collect());
    let mut table = Table::new();
    table.insert(
        "type".to_owned(),
        Value::String(plugin.plugin_type.to_string()),
    );
    if plugin.name.as_str() != "default" {
        table.insert("name".to_owned(), Value::String(plugin.name.to_string()));
    }
    table.insert("containers".to_owned(), containers);
    (table, comments)
}

fn container_table(info: &mesos::CsiPluginContainerInfo, comments: &mut Vec<String>) -> Table {
    use mesos::csi_plugin_container_info::Service;
    let text = |text: &str| Value::String(text.to_owned());
    let mut table = Table::new();
    let services = info.services().filter_map(|service| match service {
        Service::ControllerService => Some(text("controller")),
        Service::NodeService => Some(text("node")),
        Service::Unknown => None,
    });
    table.insert("services".to_owned(), Value::Array(services.collect()));
    if let Some(command) = &info.command {
        command_keys(command, &mut table, comments);
    }
    let mut resources = Table::new();
    for resource in &info.resources {
        let scalar = resource.scalar.map(|scalar| scalar.value);
        match (resource.name.as_str(), scalar) {
            ("cpus", Some(cpus)) => {
                resources.insert("cpus".to_owned(), Value::Float(cpus));
            }
            ("mem", Some(mib)) => {
                resources.insert("mem".to_owned(), Value::String(format!("{mib:.0}MiB")));
            }
            (name, _) => comments.push(format!("not taken over: resource `{name}`")),
        }
    }
    if !resources.is_empty() {
        table.insert("resources".to_owned(), Value::Table(resources));
    }
    if let Some(container) = &info.container {
        container_keys(container, &mut table, comments);
    }
    table
}

fn command_keys(command: &mesos::CommandInfo, table: &mut Table, comments: &mut Vec<String>) {
    let text = |text: &str| Value::String(text.to_owned());
    if command.shell() {
        if let Some(line) = &command.value {
            table.insert("shell".to_owned(), text(line));
        }
    } else {
        let program = command.value.clone().unwrap_or_default();
        // Mesos passes the arguments as argv, whose first is the program's own name.
        let rest = command.arguments.iter().skip(1).cloned();
        let argv: Vec<_> = std::iter::once(program)
            .chain(rest)
            .map(Value::String)
            .collect();
        table.insert("command".to_owned(), Value::Array(argv));
    }
    if let Some(user) = &command.user {
        table.insert("user".to_owned(), text(user));
    }
    let mut env = Table::new();
    let variables = command
        .environment
        .iter()
        .flat_map(|environment| &environment.variables);
    for variable in variables.filter(|variable| !OWN_VARIABLES.contains(&variable.name.as_str())) {
        match &variable.value {
            Some(value) => {
                env.insert(variable.name.clone(), text(value));
            }
            None => comments.push(format!(
                "not taken over: secret variable `{}`",
                variable.name
            )),
        }
    }
    if !env.is_empty() {
        table.insert("env".to_owned(), Value::Table(env));
    }
    for uri in &command.uris {
        comments.push(format!(
            "not taken over: fetch {}; put it in place yourself",
            uri.value
        ));
    }
}

fn container_keys(container: &mesos::ContainerInfo, table: &mut Table, comments: &mut Vec<String>) {
    let docker = container.docker.as_ref().map(|docker| docker.image.clone());
    let image = docker.or_else(|| {
        let image = container.mesos.as_ref()?.image.as_ref()?;
        Some(image.docker.as_ref()?.name.clone())
    });
    if let Some(image) = image {
        table.insert("image".to_owned(), Value::String(image));
    }
    let mut volumes = Vec::new();
    for volume in &container.volumes {
        match volume_table(volume) {
            Some(volume) => volumes.push(Value::Table(volume)),
            None => comments.push(format!(
                "not taken over: volume at {}",
                volume.container_path
            )),
        }
    }
    if !volumes.is_empty() {
        table.insert("volumes".to_owned(), Value::Array(volumes));
    }
}

/// A volume from a path of the host; `None` for every other kind.
fn volume_table(volume: &mesos::Volume) -> Option<Table> {
    let source = volume
        .source
        .as_ref()
        .and_then(|source| source.host_path.as_ref());
    let host = source
        .map(|source| source.path.clone())
        .or_else(|| volume.host_path.clone())?;
    let propagation = source
        .and_then(|source| source.mount_propagation)
        .map(|propagation| propagation.mode());
    let mut table = Table::new();
    table.insert("host".to_owned(), Value::String(host));
    table.insert(
        "container".to_owned(),
        Value::String(volume.container_path.clone()),
    );
    if volume.mode() == mesos::volume::Mode::Ro {
        table.insert("mode".to_owned(), Value::String("ro".to_owned()));
    }
    match propagation {
        Some(mesos::mount_propagation::Mode::Bidirectional) => {
            table.insert(
                "propagation".to_owned(),
                Value::String("bidirectional".to_owned()),
            );
        }
        Some(mesos::mount_propagation::Mode::HostToContainer) => {
            table.insert("propagation".to_owned(), Value::String("slave".to_owned()));
        }
        Some(mesos::mount_propagation::Mode::Unknown) | None => {}
    }
    Some(table)
}
