//! The dependency graph, from `cargo metadata`.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use anyhow::{Context, Result};
use serde::Deserialize;

use crate::sh;

/// Packages and who needs whom.
#[derive(Debug)]
pub(crate) struct Graph {
    pub(crate) packages: BTreeMap<String, Package>,
    /// Ids of the packages of this workspace.
    pub(crate) members: BTreeSet<String>,
    /// By id: the ids of what it needs to be built and run.
    normal: BTreeMap<String, BTreeSet<String>>,
}

/// A package, ours or not.
#[derive(Debug, Deserialize)]
pub(crate) struct Package {
    id: String,
    pub(crate) name: String,
    pub(crate) version: String,
    pub(crate) license: Option<String>,
    pub(crate) description: Option<String>,
    pub(crate) readme: Option<String>,
    pub(crate) rust_version: Option<String>,
    #[serde(default)]
    pub(crate) keywords: Vec<String>,
    /// `None`: may be published anywhere; empty: nowhere.
    pub(crate) publish: Option<Vec<String>>,
    pub(crate) manifest_path: String,
    pub(crate) dependencies: Vec<Dependency>,
}

/// What a manifest says of one dependency.
#[derive(Debug, Deserialize)]
pub(crate) struct Dependency {
    pub(crate) name: String,
    /// `None`: a normal one; else `dev` or `build`.
    pub(crate) kind: Option<String>,
    pub(crate) path: Option<String>,
    pub(crate) req: String,
}

#[derive(Deserialize)]
struct Metadata {
    packages: Vec<Package>,
    workspace_members: Vec<String>,
    resolve: Resolve,
}

#[derive(Deserialize)]
struct Resolve {
    nodes: Vec<Node>,
}

#[derive(Deserialize)]
struct Node {
    id: String,
    deps: Vec<NodeDep>,
}

#[derive(Deserialize)]
struct NodeDep {
    pkg: String,
    dep_kinds: Vec<DepKind>,
}

#[derive(Deserialize)]
struct DepKind {
    kind: Option<String>,
}

impl Graph {
    /// Asks cargo, for Linux on x86_64 (another target has other leaves, not other arrows).
    ///
    /// # Errors
    /// When cargo fails, or answers what this does not read.
    pub(crate) fn load(root: &Path) -> Result<Self> {
        let text = sh::output(sh::cargo(root).args([
            "metadata",
            "--format-version=1",
            "--locked",
            "--all-features",
            "--filter-platform=x86_64-unknown-linux-gnu",
        ]))?;
        let metadata: Metadata =
            serde_json::from_slice(&text).context("reading cargo's metadata")?;
        let normal = metadata.resolve.nodes.into_iter().map(|node| {
            let needs = node
                .deps
                .into_iter()
                .filter(|dep| dep.dep_kinds.iter().any(|kind| kind.kind.is_none()))
                .map(|dep| dep.pkg)
                .collect();
            (node.id, needs)
        });
        Ok(Self {
            normal: normal.collect(),
            members: metadata.workspace_members.into_iter().collect(),
            packages: metadata
                .packages
                .into_iter()
                .map(|package| (package.id.clone(), package))
                .collect(),
        })
    }

    /// The packages of this workspace.
    pub(crate) fn ours(&self) -> impl Iterator<Item = &Package> {
        self.packages
            .values()
            .filter(|package| self.members.contains(&package.id))
    }

    /// Everything that is linked into `package`, itself not counted; ours and others'.
    pub(crate) fn tree(&self, package: &Package) -> BTreeSet<&str> {
        let mut seen = BTreeSet::new();
        let mut open = vec![package.id.as_str()];
        while let Some(id) = open.pop() {
            for need in self.normal.get(id).into_iter().flatten() {
                if seen.insert(need.as_str()) {
                    open.push(need);
                }
            }
        }
        seen
    }
}
