//! Ids of tasks, and names of their containers.

use crate::TaskManagerError;

/// The longest id, in bytes: it names a directory.
const MAX: usize = 255;
/// What a recovering Mesos agent takes for its own, and kills.
const AGENTS: &str = "mesos-";

/// Whether `id` can be one: Mesos' rule for ids.
///
/// # Errors
/// With the id and what is wrong with it.
pub fn check(id: &str) -> Result<(), TaskManagerError> {
    let problem = if id.is_empty() {
        "it is empty"
    } else if id.len() > MAX {
        "it has more than 255 bytes"
    } else if matches!(id, "." | "..") {
        "it is reserved"
    } else if id.contains(['/', '\\']) {
        "it has a slash"
    } else if id.chars().any(char::is_control) {
        "it has a control character"
    } else {
        return Ok(());
    };
    Err(TaskManagerError::Id {
        id: id.chars().take(80).collect(),
        problem,
    })
}

/// Whether `name` can be a container's: docker's rule, and none of an agent's.
///
/// # Errors
/// With the name and what is wrong with it.
pub fn check_container(name: &str) -> Result<(), TaskManagerError> {
    let first = name.starts_with(|c: char| c.is_ascii_alphanumeric());
    let known = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '-');
    let problem = if name.len() < 2 || name.len() > 128 {
        "it must have 2 to 128 characters"
    } else if !first || !name.chars().all(known) {
        "it may have letters, digits, `_`, `.` and `-`, and begins with a letter or digit"
    } else if name.starts_with(AGENTS) {
        "a Mesos agent kills containers whose names begin with `mesos-`"
    } else {
        return Ok(());
    };
    Err(TaskManagerError::ContainerName {
        name: name.chars().take(80).collect(),
        problem,
    })
}

/// The longest name of a declared task, in bytes: with the number of an attempt it is an id.
const DECLARED_MAX: usize = 100;

/// Whether `name` can be a declared task's: docker's rule for names, at most 100 characters.
///
/// # Errors
/// With the name and what is wrong with it.
pub fn check_declared(name: &str) -> Result<(), TaskManagerError> {
    let first = name.starts_with(|c: char| c.is_ascii_alphanumeric());
    let known = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '-');
    if first && name.chars().all(known) && name.len() <= DECLARED_MAX {
        return Ok(());
    }
    Err(TaskManagerError::DeclaredName {
        name: name.chars().take(80).collect(),
    })
}

/// An id for a task that has none.
pub(crate) fn generate() -> Result<String, TaskManagerError> {
    let mut bytes = [0_u8; 6];
    getrandom::fill(&mut bytes).map_err(|error| TaskManagerError::Random(error.to_string()))?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn ids_are_mesos_and_one_component_of_a_path() {
        for good in ["a", "web-1", "ct:1", "ä", "a b", "...", &"x".repeat(255)] {
            check(good).unwrap_or_else(|error| panic!("{good}: {error}"));
        }
        for bad in [
            "",
            ".",
            "..",
            "a/b",
            "a\\b",
            "a\nb",
            "a\0",
            &"x".repeat(256),
        ] {
            let error = check(bad).unwrap_err().to_string();
            assert!(error.contains("id"), "{bad:?}: {error}");
        }
    }

    #[test]
    fn names_of_containers_are_dockers_and_no_agents() {
        for good in ["ab", "web_1.x-y", &"x".repeat(128)] {
            check_container(good).unwrap_or_else(|error| panic!("{good}: {error}"));
        }
        for bad in [
            "",
            "a",
            "-ab",
            ".ab",
            "a b",
            "a/b",
            "mesos-1",
            &"x".repeat(129),
        ] {
            check_container(bad).unwrap_err();
        }
    }

    #[test]
    fn names_of_declared_tasks_are_one_component_of_a_path_and_plain() {
        for good in ["a", "web-1", "a.b_c", &"x".repeat(100)] {
            check_declared(good).unwrap_or_else(|error| panic!("{good}: {error}"));
        }
        for bad in [
            "",
            ".",
            "..",
            ".a",
            "-a",
            "a b",
            "a/b",
            "ä",
            &"x".repeat(101),
        ] {
            check_declared(bad).unwrap_err();
        }
    }

    #[test]
    fn a_generated_id_is_an_id_and_a_name() {
        let id = generate().unwrap();
        check(&id).unwrap();
        check_container(&id).unwrap();
        assert_ne!(id, generate().unwrap());
    }

    proptest! {
        #[test]
        fn no_id_leads_elsewhere(id in ".*") {
            if check(&id).is_ok() {
                let path = std::path::Path::new(&id);
                prop_assert_eq!(path.components().count(), 1);
                prop_assert_eq!(path.file_name(), Some(std::ffi::OsStr::new(&id)));
            }
        }
    }
}
