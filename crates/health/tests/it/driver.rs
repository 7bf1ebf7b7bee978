//! The driver in virtual time, with commands that are scripted.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use longshore_health::fake::{FakeRunner, Scripted};
use longshore_health::{
    CheckStatus, CheckWatch, CommandExit, CommandFailure, CommandProbe, HealthError, HealthPolicy,
    HealthReport, HealthWatch, KILL_MARGIN, NetNamespace, Probe, Prober, Timing,
};
use tokio::time::{Instant, timeout};

const SECOND: Duration = Duration::from_secs(1);
const DAY: Duration = Duration::from_secs(86_400);

fn prober(runner: &FakeRunner) -> Prober {
    Prober::new(NetNamespace::own()).with_runner(Arc::new(runner.clone()))
}

fn command() -> Probe {
    Probe::Command(CommandProbe::shell("exit $STATUS").unwrap())
}

fn policy(limit: u32) -> HealthPolicy {
    HealthPolicy {
        timing: timing(),
        consecutive_failures: limit,
        grace_period: Duration::ZERO,
    }
}

fn timing() -> Timing {
    Timing {
        delay: 15 * SECOND,
        interval: 10 * SECOND,
        timeout: 5 * SECOND,
    }
}

fn health(runner: &FakeRunner, limit: u32) -> HealthWatch {
    HealthWatch::health(command(), &policy(limit), prober(runner)).unwrap()
}

async fn next(watch: &mut HealthWatch) -> HealthReport {
    timeout(DAY, watch.next()).await.unwrap()
}

/// Nothing is told for a day.
async fn quiet<T>(next: impl Future<Output = T>) -> bool {
    timeout(DAY, next).await.is_err()
}

#[tokio::test(start_paused = true)]
async fn hc2_hc3_delay_then_an_interval_after_each_end() {
    let runner = FakeRunner::new([0, 1, 0].map(Scripted::exit));
    let start = Instant::now();
    let mut watch = health(&runner, 2);
    for (second, healthy) in [(15, true), (25, false), (35, true)] {
        let report = next(&mut watch).await;
        assert_eq!(report.healthy, healthy);
        let passed = start.elapsed();
        assert!(
            passed >= second * SECOND && passed < second * SECOND + SECOND,
            "{passed:?}"
        );
        assert_eq!(
            watch.state().healthy(),
            Some(healthy),
            "what later statuses repeat"
        );
    }
    assert!(
        quiet(watch.next()).await,
        "a success after a success is no news"
    );
    assert!(runner.ran().len() > 8_000, "and yet it goes on");
}

#[tokio::test(start_paused = true)]
async fn hc5_hc19_the_command_gets_its_environment_and_its_limit() {
    let runner = FakeRunner::new([Scripted::exit(0)]);
    let mut probe = CommandProbe::shell("exit $STATUS").unwrap();
    probe.environment = vec![("STATUS".to_owned(), "0".to_owned())];
    let mut watch =
        HealthWatch::health(Probe::Command(probe.clone()), &policy(1), prober(&runner)).unwrap();
    assert!(next(&mut watch).await.healthy);
    assert_eq!(runner.ran(), [(probe, Some(5 * SECOND))]);
}

#[tokio::test(start_paused = true)]
async fn hc8_a_command_that_sleeps_is_unhealthy_and_to_be_killed() {
    let runner = FakeRunner::new([Scripted::Sleeps]);
    let start = Instant::now();
    let report = next(&mut health(&runner, 1)).await;
    assert!(!report.healthy && report.kill);
    assert_eq!(report.reason, "no answer within 5s");
    assert!(start.elapsed() >= 20 * SECOND && start.elapsed() < 21 * SECOND);
    assert_eq!(runner.dropped(), 0, "the runner itself has killed it");
}

#[tokio::test(start_paused = true)]
async fn hc8_a_runner_that_hangs_is_given_up_on() {
    let runner = FakeRunner::new([Scripted::Hangs]);
    let start = Instant::now();
    let report = next(&mut health(&runner, 1)).await;
    assert_eq!(report.reason, "no answer within 5s");
    assert!(start.elapsed() >= 20 * SECOND + KILL_MARGIN);
    assert_eq!(runner.dropped(), 1, "told to kill it by being dropped");
}

#[tokio::test(start_paused = true)]
async fn no_timeout_is_no_limit() {
    let runner = FakeRunner::new([Scripted::Hangs]);
    let mut policy = policy(1);
    policy.timing.timeout = Duration::ZERO;
    let mut watch = HealthWatch::health(command(), &policy, prober(&runner)).unwrap();
    assert!(quiet(watch.next()).await);
    assert_eq!(runner.ran()[0].1, None);
}

#[tokio::test(start_paused = true)]
async fn hc21_killed_commands_and_refused_ones_fail_and_an_engine_that_is_away_does_not() {
    let away = CommandFailure::Unavailable("the engine is away".to_owned());
    let refused = CommandFailure::Refused("the container is paused".to_owned());
    let runner = FakeRunner::new([
        Scripted::Now(Err(away)),
        Scripted::Now(Ok(CommandExit::Signaled(9))),
        Scripted::Now(Err(refused)),
    ]);
    let mut watch = health(&runner, 2);
    let first = next(&mut watch).await;
    assert_eq!((first.failures, first.kill), (1, false));
    assert_eq!(first.reason, "the command was killed by signal 9");
    let second = next(&mut watch).await;
    assert_eq!((second.failures, second.kill), (2, true));
    assert_eq!(second.reason, "the container is paused");
}

#[tokio::test(start_paused = true)]
async fn hc13_hc14_a_check_tells_changes_and_keeps_the_last_status() {
    let runner = FakeRunner::new([1, 1, 0].map(Scripted::exit));
    let mut watch = CheckWatch::check(command(), &timing(), prober(&runner)).unwrap();
    assert_eq!(watch.state().status(), CheckStatus::Command(None));
    let start = Instant::now();
    assert_eq!(watch.next().await, CheckStatus::Command(Some(1)));
    assert_eq!(watch.next().await, CheckStatus::Command(Some(0)));
    assert!(start.elapsed() >= 35 * SECOND, "the second 1 is no news");
    assert!(quiet(watch.next()).await);
    assert_eq!(watch.state().status(), CheckStatus::Command(Some(0)));
}

#[tokio::test(start_paused = true)]
async fn hc16_a_check_and_a_health_check_side_by_side_do_not_disturb_each_other() {
    let (sick, fine) = (
        FakeRunner::new([Scripted::exit(1)]),
        FakeRunner::new([Scripted::exit(0)]),
    );
    let mut health = health(&sick, 3);
    let mut check = CheckWatch::check(command(), &timing(), prober(&fine)).unwrap();
    let (mut reports, mut statuses) = (Vec::new(), Vec::new());
    // Whichever is first drops the other's wait again and again.
    while reports.len() < 4 {
        tokio::select! {
            report = health.next() => reports.push(report.failures),
            status = check.next() => statuses.push(status),
        }
    }
    assert_eq!(reports, [1, 2, 3, 4]);
    assert_eq!(statuses, [CheckStatus::Command(Some(0))]);
}

#[tokio::test(start_paused = true)]
async fn hc22_a_pause_drops_the_run_under_way_and_a_resume_runs_at_once() {
    let runner = FakeRunner::new([Scripted::Sleeps, Scripted::exit(0)]);
    let mut watch = health(&runner, 1);
    assert!(timeout(16 * SECOND, watch.next()).await.is_err());
    assert_eq!(runner.ran().len(), 1, "under way");
    watch.pause();
    assert_eq!(runner.dropped(), 1, "and killed");
    assert!(quiet(watch.next()).await);
    assert_eq!(runner.ran().len(), 1, "nothing while it is paused");
    let resumed = Instant::now();
    watch.resume();
    assert!(next(&mut watch).await.healthy);
    assert!(resumed.elapsed() < SECOND);
}

#[tokio::test(start_paused = true)]
async fn a_run_goes_on_while_nobody_waits_and_ends_with_its_watch() {
    let runner = FakeRunner::new([Scripted::Sleeps]);
    let mut watch = health(&runner, 1);
    for _ in 0..200 {
        if timeout(SECOND / 10, watch.next()).await.is_ok() {
            break;
        }
    }
    assert_eq!(runner.ran().len(), 1, "not begun anew each time");
    drop(watch);
    let mut watch = health(&runner, 1);
    assert!(timeout(16 * SECOND, watch.next()).await.is_err());
    drop(watch);
    assert_eq!(runner.dropped(), 1);
}

#[tokio::test(start_paused = true)]
async fn times_that_never_come_wait_for_ever() {
    let runner = FakeRunner::new([Scripted::exit(0)]);
    let mut policy = policy(1);
    policy.timing.delay = Duration::MAX;
    let mut watch = HealthWatch::health(command(), &policy, prober(&runner)).unwrap();
    assert!(quiet(watch.next()).await);
    assert_eq!(runner.ran(), []);
}

#[tokio::test]
async fn a_command_without_a_runner_is_refused_before_it_begins() {
    let prober = Prober::new(NetNamespace::own());
    let error = HealthWatch::health(command(), &policy(1), prober).unwrap_err();
    assert!(matches!(error, HealthError::NoRunner), "{error}");
}
