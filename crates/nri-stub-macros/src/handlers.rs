//! The handlers that a plugin can have.

/// One handler.
pub(crate) struct Handler {
    /// Name of the method.
    pub(crate) name: &'static str,
    /// Arguments after `&self`: name, and type within `longshore_nri_stub`.
    pub(crate) arguments: &'static [(&'static str, &'static str)],
    /// What it answers, within `longshore_nri_stub`.
    pub(crate) answer: &'static str,
    /// The event it belongs to; none for those that are no events.
    pub(crate) event: Option<&'static str>,
}

const POD: (&str, &str) = ("pod", "api::PodSandbox");
const CONTAINER: (&str, &str) = ("container", "api::Container");
const RESOURCES: (&str, &str) = ("resources", "api::LinuxResources");
const UPDATES: &str = "__private::Updates";
const NOTHING: &str = "__private::Nothing";

const fn handler(
    name: &'static str,
    arguments: &'static [(&'static str, &'static str)],
    answer: &'static str,
    event: Option<&'static str>,
) -> Handler {
    Handler {
        name,
        arguments,
        answer,
        event,
    }
}

/// In the order of a container's life.
pub(crate) const HANDLERS: [Handler; 17] = [
    handler(
        "configure",
        &[("configuration", "Configuration")],
        "api::EventMask",
        None,
    ),
    handler(
        "synchronize",
        &[
            ("pods", "__private::Pods"),
            ("containers", "__private::Containers"),
        ],
        UPDATES,
        None,
    ),
    handler("shutdown", &[], NOTHING, None),
    handler("run_pod_sandbox", &[POD], NOTHING, Some("RunPodSandbox")),
    handler(
        "update_pod_sandbox",
        &[POD, ("overhead", "api::LinuxResources"), RESOURCES],
        NOTHING,
        Some("UpdatePodSandbox"),
    ),
    handler(
        "post_update_pod_sandbox",
        &[POD],
        NOTHING,
        Some("PostUpdatePodSandbox"),
    ),
    handler("stop_pod_sandbox", &[POD], NOTHING, Some("StopPodSandbox")),
    handler(
        "remove_pod_sandbox",
        &[POD],
        NOTHING,
        Some("RemovePodSandbox"),
    ),
    handler(
        "create_container",
        &[POD, CONTAINER],
        "CreateReply",
        Some("CreateContainer"),
    ),
    handler(
        "post_create_container",
        &[POD, CONTAINER],
        NOTHING,
        Some("PostCreateContainer"),
    ),
    handler(
        "start_container",
        &[POD, CONTAINER],
        NOTHING,
        Some("StartContainer"),
    ),
    handler(
        "post_start_container",
        &[POD, CONTAINER],
        NOTHING,
        Some("PostStartContainer"),
    ),
    handler(
        "update_container",
        &[POD, CONTAINER, RESOURCES],
        "UpdateReply",
        Some("UpdateContainer"),
    ),
    handler(
        "post_update_container",
        &[POD, CONTAINER],
        NOTHING,
        Some("PostUpdateContainer"),
    ),
    handler(
        "stop_container",
        &[POD, CONTAINER],
        UPDATES,
        Some("StopContainer"),
    ),
    handler(
        "remove_container",
        &[POD, CONTAINER],
        NOTHING,
        Some("RemoveContainer"),
    ),
    handler(
        "validate_container_adjustment",
        &[("request", "api::ValidateContainerAdjustmentRequest")],
        NOTHING,
        Some("ValidateContainerAdjustment"),
    ),
];

/// The handler of this name.
pub(crate) fn find(name: &str) -> Option<&'static Handler> {
    HANDLERS.iter().find(|handler| handler.name == name)
}

/// What is wrong with a name that is none.
pub(crate) fn unknown(name: &str) -> String {
    let closest = HANDLERS
        .iter()
        .map(|handler| (distance(name, handler.name), handler.name))
        .min()
        .filter(|(distance, _)| *distance <= name.len() / 3)
        .map_or(String::new(), |(_, name)| {
            format!(", did you mean `{name}`?")
        });
    let names: Vec<&str> = HANDLERS.iter().map(|handler| handler.name).collect();
    format!(
        "`{name}` is no handler of a plugin{closest}\nhandlers are: {}\n\
         other functions belong into another impl block",
        names.join(", ")
    )
}

/// How a handler is written.
pub(crate) fn signature(handler: &Handler) -> String {
    let mut text = format!("async fn {}(&self", handler.name);
    for (name, kind) in handler.arguments {
        text.push_str(", ");
        text.push_str(name);
        text.push_str(": ");
        text.push_str(written(kind));
    }
    text.push_str(") -> Result<");
    text.push_str(written(handler.answer));
    text.push_str(", HandlerError>");
    text
}

fn written(kind: &str) -> &str {
    match kind {
        "__private::Pods" => "Vec<PodSandbox>",
        "__private::Containers" => "Vec<Container>",
        UPDATES => "Vec<ContainerUpdate>",
        NOTHING => "()",
        kind => kind.strip_prefix("api::").unwrap_or(kind),
    }
}

/// The number of letters to insert, delete or replace to make one name of the other.
fn distance(a: &str, b: &str) -> usize {
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.bytes().enumerate() {
        let mut corner = std::mem::replace(&mut row[0], i + 1);
        for (j, y) in b.bytes().enumerate() {
            let replaced = corner + usize::from(x != y);
            corner = row[j + 1];
            row[j + 1] = replaced.min(corner + 1).min(row[j] + 1);
        }
    }
    row.last().copied().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distances_are_those_of_levenshtein() {
        for (a, b, expected) in [
            ("", "", 0),
            ("", "abc", 3),
            ("abc", "abc", 0),
            ("kitten", "sitting", 3),
            ("creat_container", "create_container", 1),
        ] {
            assert_eq!(distance(a, b), expected, "{a} {b}");
            assert_eq!(distance(b, a), expected, "{b} {a}");
        }
    }

    #[test]
    fn an_unknown_name_is_told_what_there_is() {
        let text = unknown("creat_container");
        assert!(text.contains("did you mean `create_container`?"), "{text}");
        assert!(text.contains("validate_container_adjustment"), "{text}");
        assert!(!unknown("helper").contains("did you mean"));
    }

    #[test]
    fn signatures_are_written_as_an_author_would() {
        let create = find("create_container").map(signature);
        let expected = "async fn create_container(&self, pod: PodSandbox, container: Container) \
                        -> Result<CreateReply, HandlerError>";
        assert_eq!(create.as_deref(), Some(expected));
        let shutdown = find("shutdown").map(signature);
        let expected = "async fn shutdown(&self) -> Result<(), HandlerError>";
        assert_eq!(shutdown.as_deref(), Some(expected));
    }
}
