//! Cases that are always there.

/// The case that is played when none is given: the life of a pod with one container. Also the example
/// that `--print-example` prints.
pub const EXAMPLE: &str = include_str!("../cases/example.yaml");

/// Built-in cases by name, with what they try.
pub const BUILT_IN: &[(&str, &str, &str)] = &[
    (
        "slow",
        "twenty containers on a node that gives plugins 100 ms for each request",
        include_str!("../cases/slow.yaml"),
    ),
    (
        "big-sync",
        "1,000 containers of 8 KiB run already: Synchronize comes in parts",
        include_str!("../cases/big-sync.yaml"),
    ),
    (
        "restart",
        "the runtime restarts while a container runs",
        include_str!("../cases/restart.yaml"),
    ),
    (
        "idle-peers",
        "fifty connections that say nothing are there before the plugin",
        include_str!("../cases/idle-peers.yaml"),
    ),
    (
        "required",
        "no container is created while the plugin is away",
        include_str!("../cases/required.yaml"),
    ),
    (
        "conflict",
        "another plugin sets what this one has set",
        include_str!("../cases/conflict.yaml"),
    ),
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Case;

    #[test]
    fn every_built_in_case_is_one() {
        Case::parse(EXAMPLE, "example").unwrap();
        for (name, _, text) in BUILT_IN {
            let case = Case::parse(text, name).unwrap();
            assert!(!case.steps.is_empty(), "{name}");
        }
    }

    /// Of a case in which the bundled plugin does nothing nobody can tell that it works.
    #[test]
    fn every_built_in_case_has_something_to_do_for_the_bundled_plugin() {
        let texts = BUILT_IN.iter().map(|(name, _, text)| (*name, *text));
        for (name, text) in texts.chain([("example", EXAMPLE)]) {
            let case = Case::parse(text, name).unwrap();
            let described = case.steps.iter().filter_map(|step| step.pod.as_ref());
            for pod in case
                .pods
                .iter()
                .chain(described)
                .filter(|pod| pod.is_object())
            {
                let set = &pod["annotations"];
                assert!(set["env.longshore.dev"].is_string(), "{name}: {pod}");
                assert!(set["cpu-shares.longshore.dev"].is_string(), "{name}: {pod}");
            }
        }
    }
}
