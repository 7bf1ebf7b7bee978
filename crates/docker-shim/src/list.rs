//! `docker ps`: a table whose last column is the name, which is what an agent reads.

use longshore_engine::{ContainerStatus, ContainerSummary, DockerEngine, Engine as _, ListFilter};

use crate::{Failed, say};

/// `ps [-a] [-q] [--no-trunc] [--filter ..]`.
#[derive(Debug)]
pub(crate) struct List {
    pub(crate) filter: ListFilter,
    pub(crate) ids_only: bool,
    pub(crate) whole_ids: bool,
}

pub(crate) async fn list(engine: &DockerEngine, list: &List) -> Result<u8, Failed> {
    let found = engine.list(&list.filter).await?;
    if !list.ids_only {
        say("CONTAINER ID   IMAGE   STATUS   NAMES");
    }
    for container in &found {
        say(&row(container, list));
    }
    Ok(0)
}

fn row(container: &ContainerSummary, list: &List) -> String {
    let short = container.id.get(..12).filter(|_| !list.whole_ids);
    let id = short.unwrap_or(&container.id);
    if list.ids_only {
        return id.to_owned();
    }
    let names = container.names.join(",");
    let status = word(&container.status);
    format!("{id}   {}   {status}   {names}", container.image)
}

fn word(status: &ContainerStatus) -> &str {
    match status {
        ContainerStatus::Created => "Created",
        ContainerStatus::Running => "Up",
        ContainerStatus::Paused => "Up (Paused)",
        ContainerStatus::Restarting => "Restarting",
        ContainerStatus::Removing => "Removal In Progress",
        ContainerStatus::Exited => "Exited",
        ContainerStatus::Dead => "Dead",
        ContainerStatus::Other(other) => other,
        _ => "Unknown",
    }
}
