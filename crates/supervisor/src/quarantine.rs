//! Damaged records that were set aside: found where records are, and shown in `status` until an
//! operator removes them, whichever daemon it was that set them aside.

use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use longshore_checkpoint::{judge, set_aside_in};
use longshore_csi_manager::CsiManager;
use longshore_paths::{RuntimeDir, StateRoot};

use crate::board::Board;

/// How often all directories of records are looked through.
const LOOK: Duration = Duration::from_secs(60);

/// How often it is looked whether the files that are shown are still there.
const STILL_THERE: Duration = Duration::from_secs(2);

/// More than these are not shown; the log has named each.
const SHOWN: usize = 100;

/// A record that was set aside.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SetAside {
    pub(crate) path: PathBuf,
    /// What is wrong with it.
    pub(crate) reason: String,
    pub(crate) at: SystemTime,
    /// Which file was looked at: the name is reserved by an empty one before the record is renamed to it.
    file: FileId,
}

/// Device, inode, and when the inode changed (seconds and nanoseconds).
type FileId = (u64, u64, i64, i64);

fn file_id(path: &Path) -> Option<FileId> {
    let meta = std::fs::symlink_metadata(path).ok()?;
    Some((meta.dev(), meta.ino(), meta.ctime(), meta.ctime_nsec()))
}

impl SetAside {
    /// What an operator does about it.
    pub(crate) fn advice(&self) -> String {
        "nothing reads it any more: look at it, keep a copy where it matters, then delete it"
            .to_owned()
    }
}

/// Keeps `board` up to date: at the start, when recovery is over, when one more is set aside, and from time to
/// time.
pub(crate) async fn watch(
    state: StateRoot,
    runtime: RuntimeDir,
    manager: CsiManager,
    board: Board,
) {
    let mut status = manager.status();
    let mut recovered = false;
    loop {
        let first = !recovered;
        let set_aside = status.borrow_and_update().set_aside;
        look(&state, &runtime, &board).await;
        let next = tokio::time::Instant::now() + LOOK;
        loop {
            let shown = !board.now().quarantined.is_empty();
            let pause = if shown { STILL_THERE } else { LOOK };
            tokio::select! {
                // Recovery is over, or the manager has set another one aside just now.
                changed = status.wait_for(|status| {
                    (status.recovered && first) || status.set_aside != set_aside
                }) => {
                    match changed {
                        Ok(status) => recovered |= status.recovered,
                        Err(_) => return,
                    }
                    break;
                }
                () = tokio::time::sleep_until(next.min(tokio::time::Instant::now() + pause)) => {}
            }
            if tokio::time::Instant::now() >= next {
                break;
            }
            still_there(&board).await;
        }
    }
}

async fn look(state: &StateRoot, runtime: &RuntimeDir, board: &Board) {
    let (state, runtime) = (state.clone(), runtime.clone());
    let known = board.now().quarantined.clone();
    let found = tokio::task::spawn_blocking(move || find(&state, &runtime, &known)).await;
    match found {
        Ok(found) => board.quarantined(found),
        Err(error) => tracing::warn!(%error, "cannot look for records that were set aside"),
    }
}

async fn still_there(board: &Board) {
    let mut known = board.now().quarantined.clone();
    let left = tokio::task::spawn_blocking(move || {
        known.retain(|aside| aside.path.symlink_metadata().is_ok());
        known
    });
    if let Ok(left) = left.await {
        board.quarantined(left);
    }
}

/// What lies in the directories of records; one of `known` is not read again. Blocking.
fn find(state: &StateRoot, runtime: &RuntimeDir, known: &[SetAside]) -> Vec<SetAside> {
    let mut found = Vec::new();
    for dir in directories(state, runtime) {
        let paths = set_aside_in(&dir).unwrap_or_else(|error| {
            tracing::debug!(%error, "cannot look for records that were set aside");
            Vec::new()
        });
        for path in paths {
            if found.len() == SHOWN {
                return found;
            }
            let Some(file) = file_id(&path) else { continue };
            let mut known = known.iter();
            let old = known.find(|aside| aside.path == path && aside.file == file);
            found.extend(old.cloned().or_else(|| examine(path, file)));
        }
    }
    found
}

fn examine(path: PathBuf, file: FileId) -> Option<SetAside> {
    let reason = match judge(&path) {
        Ok(judgement) => judgement?.to_string(),
        Err(error) => error.to_string(),
    };
    // Renamed then; its content is as old as it was.
    let (_, _, changed, _) = file;
    Some(SetAside {
        path,
        reason,
        at: UNIX_EPOCH + Duration::from_secs(u64::try_from(changed).unwrap_or(0)),
        file,
    })
}

/// Every directory that holds records. No link is followed, and no mount root entered.
fn directories(state: &StateRoot, runtime: &RuntimeDir) -> Vec<PathBuf> {
    let mut dirs = vec![
        state.path().to_owned(),
        state.history_dir(),
        state.agent_dir(),
    ];
    for ty in below(state.csi().path()) {
        for name in below(&ty) {
            dirs.extend(below(&name.join("containers")));
        }
    }
    dirs.extend(below(&state.path().join(longshore_task_manager::DECLARED)));
    dirs.push(runtime.agent_dir().join(longshore_agent::SET_ASIDE));
    for container in below(&runtime.agent_containers_dir()) {
        dirs.push(container.join("run"));
        dirs.push(container);
    }
    dirs
}

fn below(dir: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(dir).into_iter().flatten().flatten();
    let dirs = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
    dirs.map(|entry| entry.path()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_lies_among_the_records_is_found_with_its_reason_and_nothing_else() {
        let dir = tempfile::tempdir().unwrap();
        let (s, r) = (dir.path().join("s"), dir.path().join("r"));
        let (state, runtime) = (StateRoot::new(&s), RuntimeDir::new(&r));
        let shown = [
            s.join("history/disks.corrupt-1"),
            s.join("csi/t/n/containers/id/container.info.corrupt-2"),
            s.join("declared/web/wanted.corrupt-1"),
            runtime
                .agent_containers_dir()
                .join("id@1/run/exit.corrupt-1"),
        ];
        let of_a_gone_one = runtime
            .agent_dir()
            .join(longshore_agent::SET_ASIDE)
            .join("id@0.exit.corrupt-1");
        let shown = [&shown[..3], &[of_a_gone_one], &shown[3..]].concat();
        let hidden = [
            s.join("csi/t/n/mounts/v/target/file.corrupt-1"),
            s.join("csi/t/n/containers/id/container.info"),
        ];
        for path in shown.iter().chain(&hidden) {
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, "garbage").unwrap();
        }
        let found = find(&state, &runtime, &[]);
        let paths: Vec<_> = found.iter().map(|aside| aside.path.clone()).collect();
        assert_eq!(paths, shown);
        for aside in &found {
            assert_eq!(aside.reason, "corrupt: it does not begin as a record does");
            assert!(aside.at > UNIX_EPOCH);
        }
        std::fs::remove_file(&shown[0]).unwrap();
        assert_eq!(find(&state, &runtime, &found), found[1..]);
    }

    #[test]
    fn a_reserved_name_is_looked_at_again_once_the_record_lies_there() {
        let dir = tempfile::tempdir().unwrap();
        let (s, r) = (dir.path().join("s"), dir.path().join("r"));
        let (state, runtime) = (StateRoot::new(&s), RuntimeDir::new(&r));
        let aside = s.join("history/disks.corrupt-1");
        std::fs::create_dir_all(s.join("history")).unwrap();
        std::fs::write(&aside, "").unwrap();
        let found = find(&state, &runtime, &[]);
        assert_eq!(found[0].reason, "empty");
        let record = s.join("history/disks");
        std::fs::write(&record, "garbage").unwrap();
        std::fs::remove_file(&aside).unwrap();
        std::fs::hard_link(&record, &aside).unwrap();
        std::fs::remove_file(&record).unwrap();
        let again = find(&state, &runtime, &found);
        assert_eq!(again.len(), 1);
        assert_eq!(
            again[0].reason,
            "corrupt: it does not begin as a record does"
        );
        assert_eq!(find(&state, &runtime, &again), again);
    }
}
