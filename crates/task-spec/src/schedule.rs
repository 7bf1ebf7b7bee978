//! The times of a task: how long it may run, and how long it gets to end.

use std::time::Duration;

use longshore_mesos_api::v1::{DurationInfo, TaskInfo};

use crate::TaskSpecError;
use crate::error::refused;

/// The times that a task names itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TaskSchedule {
    /// From the signal to the kill; `None` where the task leaves it to the executor.
    pub grace: Option<Duration>,
    /// How long it may run; `None` for ever, as with 0.
    pub max_completion: Option<Duration>,
}

/// The times of a task.
///
/// # Errors
/// A negative one, with the field and the value.
pub fn schedule(task: &TaskInfo) -> Result<TaskSchedule, TaskSpecError> {
    let policy = task.kill_policy.as_ref();
    let grace = policy.and_then(|policy| policy.grace_period.as_ref());
    let grace = duration("kill_policy.grace_period", grace)?;
    let max_completion = duration("max_completion_time", task.max_completion_time.as_ref())?;
    Ok(TaskSchedule {
        grace,
        max_completion: max_completion.filter(|limit| !limit.is_zero()),
    })
}

fn duration(field: &str, info: Option<&DurationInfo>) -> Result<Option<Duration>, TaskSpecError> {
    info.map(|info| {
        u64::try_from(info.nanoseconds)
            .map(Duration::from_nanos)
            .map_err(|_| {
                refused(
                    field,
                    format!("{} ns", info.nanoseconds),
                    "a duration cannot be negative",
                )
            })
    })
    .transpose()
}

#[cfg(test)]
mod tests {
    use super::*;
    use longshore_mesos_api::v1::KillPolicy;

    fn task(grace: Option<i64>, completion: Option<i64>) -> TaskInfo {
        let info = |nanoseconds| DurationInfo { nanoseconds };
        TaskInfo {
            kill_policy: Some(KillPolicy {
                grace_period: grace.map(info),
            }),
            max_completion_time: completion.map(info),
            ..TaskInfo::default()
        }
    }

    #[test]
    fn bad_input_negative_durations_are_refused_with_field_and_value() {
        let error = schedule(&task(Some(-1), None)).unwrap_err().to_string();
        assert!(
            error.contains("kill_policy.grace_period \"-1 ns\""),
            "{error}"
        );
        let error = schedule(&task(None, Some(i64::MIN)))
            .unwrap_err()
            .to_string();
        assert!(
            error.contains("max_completion_time \"-9223372036854775808 ns\""),
            "{error}"
        );
    }

    #[test]
    fn no_whole_second_is_lost_and_zero_is_no_limit() {
        let found = schedule(&task(Some(900_000_000), Some(0))).unwrap();
        assert_eq!(found.grace, Some(Duration::from_millis(900)));
        assert_eq!(found.max_completion, None);
        assert_eq!(
            schedule(&TaskInfo::default()).unwrap(),
            TaskSchedule::default()
        );
        let found = schedule(&task(Some(0), Some(1))).unwrap();
        assert_eq!(found.grace, Some(Duration::ZERO), "at once");
        assert_eq!(found.max_completion, Some(Duration::from_nanos(1)));
    }
}
