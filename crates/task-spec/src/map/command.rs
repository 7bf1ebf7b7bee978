//! What runs in the container, and who runs it.

use longshore_engine::ContainerSpec;
use longshore_mesos_api::v1::CommandInfo;

use super::environment::MAX_ARGUMENT;
use crate::error::{missing, refused};
use crate::{TaskContext, TaskSpecError};

/// | `shell` | entrypoint | arguments |
/// |---|---|---|
/// | true (default) | `/bin/sh` | `-c`, value |
/// | false | the image's | value (if any), then arguments; none: the image's |
pub(super) fn map(
    command: &CommandInfo,
    context: &TaskContext,
    spec: &mut ContainerSpec,
) -> Result<(), TaskSpecError> {
    if command.shell() {
        let line = command.value.as_deref().filter(|line| !line.is_empty());
        let line = line.ok_or_else(|| {
            missing(
                "command.value",
                "command.shell is true: name the line for the shell",
            )
        })?;
        if !command.arguments.is_empty() {
            return Err(refused(
                "command.arguments",
                format!("{} of them", command.arguments.len()),
                "a shell gets none: set command.shell to false, or write them into command.value",
            ));
        }
        spec.entrypoint = Some(vec!["/bin/sh".to_owned()]);
        spec.cmd = Some(vec!["-c".to_owned(), line.to_owned()]);
    } else {
        let words: Vec<_> = command
            .value
            .iter()
            .chain(&command.arguments)
            .cloned()
            .collect();
        spec.cmd = (!words.is_empty()).then_some(words);
    }
    for (index, word) in spec.cmd.iter().flatten().enumerate() {
        let field = || format!("command, word {index}");
        if word.contains('\0') {
            return Err(refused(field(), "", "it has a NUL byte"));
        }
        if word.len() >= MAX_ARGUMENT {
            let size = format!("{} bytes", word.len());
            return Err(refused(
                field(),
                size,
                "the kernel takes no more than 131071 bytes in one word",
            ));
        }
    }
    if let Some(user) = &command.user {
        if user.is_empty() || user.contains('\0') {
            return Err(refused(
                "command.user",
                user,
                "it names nobody: leave it out for the image's own user",
            ));
        }
        spec.user = Some(user.clone());
    }
    if !command.uris.is_empty() && !context.prepared_by_agent {
        let first = command
            .uris
            .first()
            .map(|uri| uri.value.as_str())
            .unwrap_or_default();
        return Err(refused(
            "command.uris",
            first,
            "nothing fetches it without an agent: put it into the image or mount it",
        ));
    }
    Ok(())
}
