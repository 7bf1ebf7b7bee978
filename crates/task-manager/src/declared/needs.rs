//! What has to be there before a task is started.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::str::FromStr;

/// Something that a task needs.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Need {
    /// A CSI plugin with an endpoint that answers.
    Csi(String),
    /// Another declared task that runs, and is healthy where it has a health check.
    Task(String),
}

impl fmt::Display for Need {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Csi(name) => write!(f, "csi/{name}"),
            Self::Task(name) => write!(f, "task/{name}"),
        }
    }
}

impl FromStr for Need {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let shown = text.chars().take(80).collect::<String>();
        match text.split_once('/') {
            Some((_, name)) if name.is_empty() || name.contains('/') => Err(format!(
                "{shown:?} names nothing: write csi/NAME or task/NAME"
            )),
            Some(("csi", name)) => Ok(Self::Csi(name.to_owned())),
            Some(("task", name)) => Ok(Self::Task(name.to_owned())),
            _ => Err(format!("{shown:?} is no need: write csi/NAME or task/NAME")),
        }
    }
}

/// The CSI plugins of the configuration by name: ready, or why not.
pub type CsiReadiness = BTreeMap<String, Result<(), String>>;

/// The names of tasks that need each other in a circle, or themselves, each circle once in its order: `a needs b needs a` is
/// `[a, b]`.
#[must_use]
pub fn cycles<'a>(needs: &[(&'a str, &'a [Need])]) -> Vec<Vec<&'a str>> {
    let edges: BTreeMap<&str, Vec<&str>> = needs
        .iter()
        .map(|(name, needs)| {
            let tasks = needs.iter().filter_map(|need| match need {
                Need::Task(name) => Some(name.as_str()),
                Need::Csi(_) => None,
            });
            (*name, tasks.collect())
        })
        .collect();
    let mut found = Vec::new();
    let mut in_one: BTreeSet<&str> = BTreeSet::new();
    for start in edges.keys() {
        if !in_one.contains(start)
            && let Some(circle) = circle(start, &edges)
        {
            in_one.extend(circle.iter().copied());
            found.push(circle);
        }
    }
    found
}

/// A shortest way from `start` back to itself.
fn circle<'a>(start: &'a str, edges: &BTreeMap<&'a str, Vec<&'a str>>) -> Option<Vec<&'a str>> {
    let mut came_from: BTreeMap<&str, &str> = BTreeMap::new();
    let mut queue = std::collections::VecDeque::from([start]);
    while let Some(at) = queue.pop_front() {
        for next in edges.get(at).into_iter().flatten() {
            if *next == start {
                let mut way = vec![at];
                let mut at = at;
                while at != start {
                    at = came_from.get(at)?;
                    way.push(at);
                }
                way.reverse();
                return Some(way);
            }
            if edges.contains_key(next) && !came_from.contains_key(next) {
                came_from.insert(next, at);
                queue.push_back(next);
            }
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_need_is_a_kind_and_a_name() {
        for (text, need) in [
            ("csi/nfs", Need::Csi("nfs".to_owned())),
            ("task/web", Need::Task("web".to_owned())),
        ] {
            assert_eq!(text.parse(), Ok(need.clone()));
            assert_eq!(need.to_string(), text);
        }
        for text in ["", "web", "csi/", "task/a/b", "plugin/x", "/x"] {
            let error = text.parse::<Need>().unwrap_err();
            assert!(error.contains("csi/NAME or task/NAME"), "{error}");
        }
    }

    #[test]
    fn circles_are_found_and_what_hangs_on_one_is_none() {
        let task = |name: &str| Need::Task(name.to_owned());
        let (a, b, c, d, e) = (
            [task("b"), Need::Csi("a".to_owned())],
            [task("c")],
            [task("a")],
            [task("a"), task("nobody")],
            [task("e")],
        );
        let needs: Vec<(&str, &[Need])> =
            vec![("a", &a), ("b", &b), ("c", &c), ("d", &d), ("e", &e)];
        assert_eq!(cycles(&needs), [vec!["a", "b", "c"], vec!["e"]]);
        assert!(cycles(&needs[1..4]).is_empty());
    }

    proptest! {
        #[test]
        fn without_those_that_are_told_there_is_an_order(edges in prop::collection::vec(prop::collection::vec(0_usize..8, 0..3), 8)) {
            let names: Vec<String> = (0..8).map(|number| number.to_string()).collect();
            let mut left: Vec<(String, Vec<Need>)> = names
                .iter()
                .zip(&edges)
                .map(|(name, edges)| (name.clone(), edges.iter().map(|to| Need::Task(to.to_string())).collect()))
                .collect();
            // Each look takes at least one away, until there is none.
            for _ in 0..9 {
                let needs: Vec<(&str, &[Need])> = left.iter().map(|(name, needs)| (name.as_str(), needs.as_slice())).collect();
                let gone: BTreeSet<String> = cycles(&needs).into_iter().flatten().map(str::to_owned).collect();
                if gone.is_empty() {
                    break;
                }
                left.retain(|(name, _)| !gone.contains(name));
            }
            let mut started: BTreeSet<String> = names.iter().filter(|name| left.iter().all(|(it, _)| it != *name)).cloned().collect();
            for _ in 0..8 {
                for (name, needs) in &left {
                    let there = needs.iter().all(|need| matches!(need, Need::Task(it) if started.contains(it)));
                    if there {
                        started.insert(name.clone());
                    }
                }
            }
            prop_assert!(left.iter().all(|(name, _)| started.contains(name)));
        }
    }
}
