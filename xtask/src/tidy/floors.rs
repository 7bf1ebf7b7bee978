//! The house: which crate stands on which floor. An arrow only ever points to a lower one.

use super::Findings;
use super::graph::{Graph, Package};

/// With a semver promise or without.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Tier {
    Public,
    Internal,
}

/// One crate of the house.
#[derive(Debug)]
pub(crate) struct Member {
    /// The folder in `crates/` or `tests/`, or `xtask`.
    pub(crate) folder: &'static str,
    /// A crate depends on lower floors; in its tests on its own floor too.
    pub(crate) floor: u8,
    pub(crate) tier: Tier,
    /// How many packages may be linked into it, all told.
    pub(crate) ceiling: usize,
}

impl Member {
    /// The name of the package.
    pub(crate) fn package(&self) -> String {
        match self.folder {
            "cli" => "longshore".to_owned(),
            "xtask" => "xtask".to_owned(),
            folder => format!("longshore-{folder}"),
        }
    }
}

/// Programs and tests that stand outside the house: they may use every floor.
const OUTSIDE: u8 = u8::MAX;
/// The test kit rests on floor 1 and serves every other floor, in tests alone.
const TESTKIT: &str = "longshore-testkit";

const fn public(folder: &'static str, floor: u8, ceiling: usize) -> Member {
    Member {
        folder,
        floor,
        tier: Tier::Public,
        ceiling,
    }
}

const fn internal(folder: &'static str, floor: u8, ceiling: usize) -> Member {
    Member {
        folder,
        floor,
        tier: Tier::Internal,
        ceiling,
    }
}

/// All of it, lowest floor first.
pub(crate) const HOUSE: &[Member] = &[
    internal("paths", 1, 20),
    internal("sandbox", 1, 20),
    public("checkpoint", 1, 30),
    public("backoff", 1, 10),
    public("mesos-api", 1, 42),
    public("csi-api", 1, 74),
    public("nri-api", 1, 20),
    internal("control-api", 1, 74),
    internal("doctor", 2, 40),
    public("agent-client", 2, 100),
    public("csi-probe", 2, 95),
    public("engine", 2, 75),
    public("nri-json", 2, 40),
    public("nri-oci", 2, 60),
    public("ttrpc", 2, 42),
    public("nri-stub-macros", 2, 6),
    internal("testkit", 2, 125),
    public("container-daemon", 3, 105),
    public("health", 3, 90),
    public("nri-adaptation", 3, 60),
    public("nri-stub", 3, 56),
    internal("csi-hostpath", 3, 105),
    internal("executor-watchdog", 3, 20),
    internal("task-spec", 3, 100),
    internal("docker-executor", 4, 120),
    internal("nri-bridge", 4, 115),
    internal("nri-trace", 4, 85),
    internal("docker-shim", 4, 100),
    internal("agent", 4, 120),
    internal("csi-manager", 4, 130),
    internal("kubelet-registration", 4, 105),
    internal("image-containers", 5, 150),
    internal("mesos-executor", 5, 150),
    internal("nri-simulate", 5, 110),
    internal("task-manager", 5, 125),
    internal("status-http", 5, 60),
    internal("supervisor", 6, 165),
    internal("cli", 7, 210),
    internal("bench", OUTSIDE, 180),
    internal("e2e", OUTSIDE, 180),
    internal("xtask", OUTSIDE, 80),
];

/// The member that a package is.
pub(crate) fn member(package: &str) -> Option<&'static Member> {
    HOUSE.iter().find(|member| member.package() == package)
}

pub(crate) fn check(graph: &Graph, findings: &mut Findings) {
    for package in graph.ours() {
        match member(&package.name) {
            Some(member) => check_member(graph, package, member, findings),
            None => findings.error(format!(
                "{}: not in the table of xtask/src/tidy/floors.rs; give it a floor",
                package.name
            )),
        }
    }
}

fn check_member(graph: &Graph, package: &Package, own: &Member, findings: &mut Findings) {
    for dependency in package.dependencies.iter().filter(|it| it.path.is_some()) {
        let Some(other) = member(&dependency.name) else {
            continue;
        };
        let dev = dependency.kind.as_deref() == Some("dev");
        if let Some(problem) = arrow(own, other, dev) {
            let kind = if dev { "dev-dependency" } else { "dependency" };
            findings.error(format!(
                "{}: {kind} {}: {problem}",
                package.name, dependency.name
            ));
        }
        if dev && own.tier == Tier::Public && dependency.req != "*" && other.tier != Tier::Public {
            findings.error(format!(
                "{}: dev-dependency {}: name its path alone, or it cannot be published",
                package.name, dependency.name
            ));
        }
    }
    let linked = graph.tree(package).len();
    if linked > own.ceiling {
        findings.error(format!(
            "{}: {linked} packages are linked into it, more than {}; drop one, or raise the \
             ceiling in xtask/src/tidy/floors.rs with the reason in the commit",
            package.name, own.ceiling
        ));
    }
}

/// What is wrong with an arrow from one crate to another.
fn arrow(from: &Member, to: &Member, dev: bool) -> Option<String> {
    if from.folder == "xtask" {
        return Some("xtask builds when our crates do not, so it uses none of them".to_owned());
    }
    if from.floor == OUTSIDE {
        return None;
    }
    if to.package() == TESTKIT {
        return match (dev, from.floor) {
            (true, 1) => Some("the test kit rests on floor 1: this would be a circle".to_owned()),
            (true, _) => None,
            (false, _) => Some("the test kit is for tests alone".to_owned()),
        };
    }
    if from.package() == TESTKIT && to.floor > 1 {
        return Some("the test kit rests on floor 1 alone".to_owned());
    }
    if from.tier == Tier::Public && to.tier == Tier::Internal && !dev {
        return Some("a crate with a semver promise cannot rest on one without".to_owned());
    }
    let fine = if dev {
        to.floor <= from.floor
    } else {
        to.floor < from.floor
    };
    if fine {
        return None;
    }
    Some(format!(
        "an arrow from floor {} up to floor {}",
        from.floor, to.floor
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judge(from: &str, to: &str, dev: bool) -> bool {
        let of = |folder| HOUSE.iter().find(|member| member.folder == folder).unwrap();
        arrow(of(from), of(to), dev).is_none()
    }

    #[test]
    fn arrows_point_down() {
        assert!(judge("agent", "checkpoint", false));
        assert!(!judge("checkpoint", "agent", false));
        assert!(!judge("agent", "csi-manager", false), "own floor");
        assert!(judge("csi-manager", "agent", true), "own floor, in tests");
        assert!(!judge("csi-probe", "csi-hostpath", true), "up, in tests");
    }

    #[test]
    fn the_test_kit_is_for_tests_and_rests_on_floor_one() {
        assert!(judge("csi-probe", "testkit", true));
        assert!(!judge("csi-probe", "testkit", false));
        assert!(!judge("paths", "testkit", true));
        assert!(!judge("testkit", "agent-client", false));
        assert!(judge("e2e", "testkit", false));
    }

    #[test]
    fn a_public_crate_rests_on_public_ones_and_xtask_on_none() {
        assert!(!judge("csi-probe", "paths", false));
        assert!(!judge("xtask", "paths", false));
    }
}
