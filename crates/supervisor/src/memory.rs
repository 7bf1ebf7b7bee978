//! Staying small: memory is given back when things have become quiet, and when looks at plugins have brought in much.
//!
//! ```text
//!   changing ──nothing for QUIET──▶ give back ──▶ small ──probed or AGAIN, grown by GROWTH──▶ give back
//!       ▲                                           │
//!       └───────────────── a change ────────────────┘
//! ```

use std::time::Duration;

use longshore_csi_manager::CsiManager;
use tokio::time::{Instant, sleep, sleep_until, timeout};

/// Nothing has changed for so long: it is quiet.
const QUIET: Duration = Duration::from_secs(5);
/// Probes of several plugins come at the same moment: so long after the first all have ended.
const SETTLED: Duration = Duration::from_millis(200);
/// Giving back takes milliseconds, and what is needed again has to be brought in again: not more often than this.
const PAUSE: Duration = Duration::from_secs(5);
/// How often it is looked without any probe.
const AGAIN: Duration = Duration::from_secs(60);
/// How much growth, in KiB, is worth it.
const GROWTH: u64 = 2 << 10;

/// Until the manager ends.
pub(crate) async fn stay_small(manager: CsiManager) {
    let mut status = manager.status();
    loop {
        while let Ok(changed) = timeout(QUIET, status.changed()).await {
            if changed.is_err() {
                return;
            }
        }
        loop {
            let given = tokio::task::spawn_blocking(longshore_agent::give_back_memory).await;
            if given.is_err() {
                return;
            }
            let least = resident();
            tokio::select! {
                changed = status.changed() => match changed {
                    Ok(()) => break,
                    Err(_) => return,
                },
                () = grown(|| manager.probed(), resident, least) => {}
            }
        }
    }
}

/// Waits until more than [`GROWTH`] is there beyond `least`, and the next moment to give it back.
async fn grown<Probed: Future<Output = ()>>(
    probed: impl Fn() -> Probed,
    resident: impl Fn() -> u64,
    least: u64,
) {
    let next = Instant::now() + PAUSE;
    loop {
        // Whether a probe has ended or not, it is looked.
        if timeout(AGAIN, probed()).await.is_ok() {
            sleep(SETTLED).await;
        }
        if resident() > least + GROWTH {
            return sleep_until(next).await;
        }
    }
}

/// The resident memory of this process, in KiB; 0 where the kernel does not tell (proc(5), status).
fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib = line.and_then(|line| line.trim().strip_suffix(" kB"));
    kib.and_then(|kib| kib.parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_is_resident() {
        assert!(resident() > 100);
    }

    /// How long it takes with a probe each `interval`, when the memory is so much at these moments.
    async fn takes(interval: u64, grown_at: u64) -> u64 {
        let begun = Instant::now();
        let since = || begun.elapsed().as_secs();
        let size = || if since() >= grown_at { GROWTH + 11 } else { 10 };
        let probed = || sleep(Duration::from_secs(interval));
        grown(probed, size, 10).await;
        since()
    }

    #[tokio::test(start_paused = true)]
    async fn it_is_looked_after_each_probe_and_each_minute_and_acted_now_and_then() {
        // After the probe that brought it in.
        assert_eq!(takes(30, 25).await, 30);
        assert_eq!(takes(30, 100).await, 120);
        // Not at once after the last time.
        assert_eq!(takes(1, 0).await, 5);
        // Without probes.
        assert_eq!(takes(3600, 61).await, 120);
    }
}
