//! Labels: those of our containers in the engine, and that of a last status.

/// Who made the container.
pub const OWNER: &str = "dev.longshore.owner";
/// The state directory of whoever made it: two supervisors on one engine never take each other's.
pub const ROOT: &str = "dev.longshore.root";
/// Our own id of the task, under which it is on record.
pub const KEY: &str = "dev.longshore.key";
/// The task's id.
pub const TASK: &str = "dev.longshore.task";
/// On a last status: the [`word`](crate::Ending::word) for how the task has ended.
pub const ENDING: &str = "dev.longshore.ending";
