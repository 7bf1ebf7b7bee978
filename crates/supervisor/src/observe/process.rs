//! What this process takes, as the kernel tells it.

use std::time::Duration;

use longshore_status_http::Process;
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeVal;

/// Now; `None` where `/proc` does not tell.
pub(super) fn look() -> Option<Process> {
    let usage = getrusage(UsageWho::RUSAGE_SELF).ok()?;
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let (resident, threads) = parse(&status)?;
    let descriptors = std::fs::read_dir("/proc/self/fd").ok()?.count();
    Some(Process {
        resident,
        threads,
        cpu: length(usage.user_time()) + length(usage.system_time()),
        // The one that the directory is read by is among them.
        descriptors: u64::try_from(descriptors).ok()?.saturating_sub(1),
    })
}

fn length(time: TimeVal) -> Duration {
    let seconds = u64::try_from(time.tv_sec()).unwrap_or(0);
    Duration::from_secs(seconds) + Duration::from_micros(u64::try_from(time.tv_usec()).unwrap_or(0))
}

/// Resident bytes and threads.
fn parse(status: &str) -> Option<(u64, u64)> {
    let field = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name))?;
        line.split_whitespace().next()?.parse::<u64>().ok()
    };
    Some((field("VmRSS:")? * 1024, field("Threads:")?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_takes_something() {
        let process = look().unwrap();
        assert!(process.resident > 100 * 1024, "{process:?}");
        assert!(
            process.descriptors >= 3 && process.threads >= 1,
            "{process:?}"
        );
    }

    #[test]
    fn what_is_no_status_tells_nothing() {
        assert_eq!(parse("VmRSS:\t  12 kB\nThreads:\t3\n"), Some((12288, 3)));
        for bad in ["", "VmRSS:\n", "VmRSS: x kB\nThreads: 1", "Threads: 1"] {
            assert_eq!(parse(bad), None, "{bad:?}");
        }
    }
}
