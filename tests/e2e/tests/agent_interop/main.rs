//! The agent API, scenario by scenario, against the embedded agent and against a real Mesos agent.
//!
//! Every scenario is a function of a [`target::Target`]. Each is one test against the embedded
//! agent (`embedded::..`); all those that a real agent survives run one after the other against
//! one real agent (`real::..`), when `LONGSHORE_MESOS_AGENT_CMD` names one. Every scenario runs
//! in protobuf and in JSON, through the client; what a client would not send goes as raw bytes.
//!
//! Where the two agents differ on purpose, the scenario says so with `t.is_real()`.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod forms;
mod kill;
mod launch;
mod list;
mod nested;
mod proxy;
mod raw;
mod remove;
mod restart;
mod target;
mod wait;

use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::task::Poll;
use std::time::Duration;

use longshore_agent_client::Codec;
use target::Target;

type Scenario = for<'a> fn(&'a mut Target) -> Pin<Box<dyn Future<Output = ()> + 'a>>;

/// A scenario in one form must not take longer than this.
const DEADLINE: Duration = Duration::from_secs(60);

macro_rules! scenarios {
    ($($module:ident: $($name:ident),+;)+) => {
        /// The scenarios that a real agent survives.
        const SCENARIOS: &[(&str, Scenario)] = &[
            $($((
                concat!(stringify!($module), "::", stringify!($name)),
                |t| Box::pin($module::$name(t)),
            )),+),+
        ];

        mod embedded {
            $(mod $module {
                $(#[tokio::test]
                async fn $name() {
                    crate::on_the_embedded_agent(|t| Box::pin(crate::$module::$name(t))).await;
                })+
            })+
        }
    };
}

scenarios! {
    launch:
        a_new_id_is_launched_and_a_second_launch_finds_it,
        of_three_launches_at_once_one_starts_the_container,
        a_finished_id_starts_anew,
        a_container_without_a_command_ends_at_once,
        a_program_that_is_not_there_shows_in_the_exit_status,
        an_environment_that_is_too_long_shows_in_the_exit_status,
        resources_are_optional_and_not_checked_against_the_agent,
        the_environment_is_what_is_given_and_the_sandbox_is_the_working_directory,
        the_agents_own_environment_is_not_inherited,
        output_goes_to_files_in_the_sandbox,
        an_unknown_user_is_a_500,
        aa4_a_launch_that_fails_leaves_nothing;
    wait:
        exit_statuses_are_raw_wait_statuses,
        every_waiter_gets_the_exit,
        an_unknown_container_is_unknown,
        aa12_a_late_wait_finds_the_status_only_within_its_retention,
        nothing_is_sent_before_the_end;
    kill:
        the_default_signal_is_kill_and_does_not_wait,
        right_after_the_launch_it_works_too,
        aa11_a_handler_of_sigterm_decides_the_exit_status,
        a_process_that_ignores_sigterm_lives_on,
        a_child_in_a_session_of_its_own_ends_with_the_container,
        signal_0_does_nothing_and_an_invalid_one_is_a_500,
        an_unknown_container_is_a_404_with_that_text;
    nested:
        aa1_a_nested_container_is_waited_for_and_killed,
        aa3_a_nested_container_that_never_was_is_not_found,
        aa6_two_levels_of_nesting_each_have_their_own_status,
        the_deprecated_twins_do_the_same,
        the_parent_must_exist,
        a_nested_status_is_kept_until_it_is_removed,
        a_nested_container_can_be_launched_anew,
        the_end_of_a_parent_ends_what_is_nested_in_it;
    remove:
        a_running_nested_container_is_not_removed,
        an_ended_nested_container_is_removed_as_often_as_asked,
        an_unknown_root_is_a_500;
    list:
        aa8_containers_are_listed_as_the_flags_say,
        an_empty_list_is_no_error,
        ended_containers_are_not_listed;
    restart:
        aa2_a_nested_container_is_known_after_a_restart_of_the_agent,
        a_running_container_is_recovered,
        a_wait_survives_the_restart,
        a_nested_container_that_ended_meanwhile_has_its_status;
    forms:
        aa9_header_matrix,
        aa9_bodies_that_are_no_call,
        aa9_calls_that_are_not_valid,
        identifiers_are_validated,
        answers_are_in_the_form_that_is_accepted,
        several_requests_on_one_connection,
        http_1_0_is_answered_and_closed,
        what_is_not_http_is_not_served,
        agent_version_and_health_are_told;
}

/// What only the embedded agent survives.
mod embedded_only {
    #[tokio::test]
    async fn aa13_a_top_level_container_is_removed_with_its_sandbox() {
        crate::on_the_embedded_agent(|t| {
            Box::pin(crate::remove::aa13_a_top_level_container_is_removed_with_its_sandbox(t))
        })
        .await;
    }
}

mod real {
    /// One agent for all scenarios: a start takes a second, and a real agent is not restarted
    /// for each call either.
    #[tokio::test]
    async fn every_scenario_holds_on_a_real_mesos_agent() {
        let Some(mut target) = crate::Target::real().await else {
            return;
        };
        let mut failures = Vec::new();
        for (name, scenario) in crate::SCENARIOS {
            println!("scenario {name}");
            if let Err(failure) = crate::run(&mut target, *scenario).await {
                failures.push(format!("{name}: {failure}"));
            }
        }
        assert!(failures.is_empty(), "{}", failures.join("\n"));
    }

    /// The client does not send what would make the agent abort.
    #[tokio::test]
    async fn aa13_remove_of_a_top_level_container_is_refused_and_the_agent_lives() {
        let Some(mut target) = crate::Target::real().await else {
            return;
        };
        let outcome = crate::run(&mut target, |t| {
            Box::pin(crate::remove::a_top_level_container_is_not_removed_from_a_mesos_agent(t))
        })
        .await;
        assert_eq!(outcome, Ok(()));
    }
}

async fn on_the_embedded_agent(scenario: Scenario) {
    let mut target = Target::embedded().await;
    let outcome = run(&mut target, scenario).await;
    target.shutdown().await;
    assert_eq!(outcome, Ok(()));
}

/// Runs one scenario in both forms, and ends every container that it left, also after a failure.
async fn run(target: &mut Target, scenario: Scenario) -> Result<(), String> {
    for codec in [Codec::Protobuf, Codec::Json] {
        target.set_codec(codec);
        let outcome = {
            let mut future = scenario(target);
            let guarded = poll_fn(|context| {
                match catch_unwind(AssertUnwindSafe(|| future.as_mut().poll(context))) {
                    Ok(Poll::Ready(())) => Poll::Ready(Ok(())),
                    Ok(Poll::Pending) => Poll::Pending,
                    Err(panic) => Poll::Ready(Err(panic_text(&*panic))),
                }
            });
            let ended = tokio::time::timeout(DEADLINE, guarded).await;
            ended.unwrap_or_else(|_| Err(format!("not done within {DEADLINE:?}")))
        };
        target.end_all_containers().await;
        outcome.map_err(|failure| format!("in {codec:?}: {failure}"))?;
    }
    Ok(())
}

fn panic_text(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().cloned();
    text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()))
        .unwrap_or_else(|| "a panic without text".to_owned())
}
