use proptest::prelude::*;

use super::*;

const A: Option<SocketId> = Some(SocketId {
    device: 1,
    inode: 1,
});
const B: Option<SocketId> = Some(SocketId {
    device: 1,
    inode: 2,
});

fn policy(threshold: u32) -> LivenessPolicy {
    LivenessPolicy {
        failure_threshold: NonZeroU32::new(threshold).unwrap(),
        ..LivenessPolicy::default()
    }
}

/// Letters: `.` passes on socket A, `b` on socket B, `x` fails. The answer: H, F, U, R, S (replaced), `-` nothing.
fn run(threshold: u32, script: &str) -> String {
    let mut state = Liveness::new(&policy(threshold), A);
    script
        .chars()
        .map(|letter| {
            let events = state.step(match letter {
                '.' => LivenessResult::Passed(A),
                'b' => LivenessResult::Passed(B),
                _ => LivenessResult::Failed("why".into()),
            });
            if events.is_empty() {
                return "-".to_owned();
            }
            events
                .iter()
                .map(|event| match event {
                    LivenessEvent::Healthy => 'H',
                    LivenessEvent::Failed { .. } => 'F',
                    LivenessEvent::Unhealthy { .. } => 'U',
                    LivenessEvent::Recovered { .. } => 'R',
                    LivenessEvent::Replaced { .. } => 'S',
                })
                .collect()
        })
        .collect::<Vec<String>>()
        .join(" ")
}

#[test]
fn a_plugin_is_unhealthy_after_the_threshold_and_told_once() {
    for (threshold, script, want) in [
        (3, "...", "H - -"),
        (3, ".xx.", "H F F R"),
        (3, ".xxx", "H F F U"),
        (3, ".xxxxx.x", "H F F U - - R F"),
        (3, "xxx", "F F U"),
        (3, "x.", "F R"),
        (1, ".xx.x", "H U - R U"),
        (3, ".b.", "H S S"),
        (3, ".xb", "H F SR"),
        (3, "b", "SH"),
    ] {
        assert_eq!(
            run(threshold, script),
            want,
            "threshold {threshold}, {script}"
        );
    }
}

#[test]
fn the_reason_and_the_count_are_told() {
    let mut state = Liveness::new(&policy(2), None);
    let mut failed = |reason: &str| state.step(LivenessResult::Failed(reason.into()));
    assert_eq!(
        failed("one"),
        [LivenessEvent::Failed {
            failures: 1,
            reason: "one".into()
        }]
    );
    assert_eq!(
        failed("two"),
        [LivenessEvent::Unhealthy {
            failures: 2,
            reason: "two".into()
        }]
    );
    assert_eq!(failed("three"), []);
    assert_eq!(
        state.step(LivenessResult::Passed(None)),
        [LivenessEvent::Recovered { failures: 3 }]
    );
}

proptest! {
    /// Against a model: unhealthy exactly when the last `threshold` results all failed.
    #[test]
    fn unhealthy_is_a_run_of_failures(threshold in 1u32..5, results in proptest::collection::vec(any::<bool>(), 0..64)) {
        let mut state = Liveness::new(&policy(threshold), None);
        let mut told = false;
        for (i, passed) in results.iter().enumerate() {
            let result = if *passed { LivenessResult::Passed(None) } else { LivenessResult::Failed(String::new()) };
            for event in state.step(result) {
                match event {
                    LivenessEvent::Unhealthy { failures, .. } => {
                        prop_assert!(!told);
                        prop_assert_eq!(failures, threshold);
                        told = true;
                    }
                    LivenessEvent::Recovered { .. } => told = false,
                    _ => {}
                }
            }
            let run = results[..=i].iter().rev().take_while(|p| !**p).count();
            prop_assert_eq!(state.is_unhealthy(), run >= threshold as usize);
            prop_assert_eq!(state.is_unhealthy(), told);
        }
    }
}
