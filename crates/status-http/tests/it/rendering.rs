//! What is rendered of a snapshot.

use std::path::Path;

use longshore_status_http::{State, csi_health, not_ready, render_metrics, render_page};

use crate::exposition;
use crate::sample::{busy, plugin, quiet};

/// Compares with a file of `tests/golden`; with `LONGSHORE_TEST_UPDATE` writes it.
fn golden(name: &str, text: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/golden")
        .join(name);
    if std::env::var_os("LONGSHORE_TEST_UPDATE").is_some() {
        std::fs::write(&path, text).unwrap();
    }
    let expected = std::fs::read_to_string(&path).unwrap();
    assert_eq!(text, expected, "{name} (LONGSHORE_TEST_UPDATE=1 writes it)");
}

#[test]
fn metrics_are_the_known_ones() {
    golden("quiet.prom", &render_metrics(&quiet()));
    golden("busy.prom", &render_metrics(&busy()));
}

#[test]
fn pages_are_the_known_ones() {
    golden("quiet.html", &render_page(&quiet()));
    golden("busy.html", &render_page(&busy()));
}

#[test]
fn metrics_are_what_prometheus_reads() {
    for snapshot in [quiet(), busy()] {
        let series = exposition::read(&render_metrics(&snapshot)).unwrap();
        assert!(series.len() > 10);
        assert!(!series.keys().any(|name| name.starts_with("longshore_evil")));
    }
    let mut twice = busy();
    let plugins = twice.nri.as_mut().unwrap();
    plugins.push(plugins[0].clone());
    exposition::read(&render_metrics(&twice)).unwrap();
    let mut snapshot = busy();
    crate::sample::NASTY.clone_into(&mut snapshot.plugins[0].name);
    let series = exposition::read(&render_metrics(&snapshot)).unwrap();
    assert!(!series.keys().any(|name| name.starts_with("longshore_evil")));
    let escaped = "<img src=x onerror=\\\"alert(1)\\\">\\\\ & 'x'\\nlongshore_evil 1";
    assert!(series.keys().any(|name| name.contains(escaped)));
}

#[test]
fn the_values_are_those_of_the_snapshot() {
    let series = exposition::read(&render_metrics(&busy())).unwrap();
    for (name, value) in [
        ("longshore_ready", 0.0),
        ("longshore_agent_up", 0.0),
        ("longshore_engine_up", 0.0),
        (
            "longshore_csi_plugin_state{plugin=\"scratch\",state=\"ready\"}",
            1.0,
        ),
        (
            "longshore_csi_plugin_state{plugin=\"broken\",state=\"ready\"}",
            0.0,
        ),
        (
            "longshore_csi_plugin_state{plugin=\"broken\",state=\"backoff\"}",
            1.0,
        ),
        (
            "longshore_csi_endpoint_ready{plugin=\"scratch\",service=\"node\"}",
            1.0,
        ),
        (
            "longshore_csi_plugin_rpcs_total{plugin=\"scratch\",outcome=\"failed\"}",
            4.0,
        ),
        (
            "longshore_csi_probe_duration_seconds_sum{plugin=\"scratch\"}",
            0.026,
        ),
        (
            "longshore_csi_probe_duration_seconds_count{plugin=\"scratch\"}",
            4.0,
        ),
        (
            "longshore_csi_probe_duration_max_seconds{plugin=\"scratch\"}",
            0.02,
        ),
        ("longshore_tasks{state=\"TASK_RUNNING\"}", 2.0),
        ("longshore_tasks{state=\"TASK_LOST\"}", 0.0),
        ("longshore_tasks{state=\"other\"}", 3.0),
        ("longshore_nri_plugins_active", 1.0),
        (
            "longshore_nri_request_duration_seconds{plugin=\"10-first\",quantile=\"0.5\"}",
            0.0003,
        ),
        ("process_cpu_seconds_total", 1.234),
    ] {
        assert_eq!(series.get(name), Some(&value), "{name}");
    }
    assert!(
        !series.keys().any(|name| name.contains("20-gone")),
        "closed ones are not counted"
    );
}

#[test]
fn series_grow_with_what_is_configured_and_not_with_tasks() {
    let mut snapshot = busy();
    let before = exposition::read(&render_metrics(&snapshot)).unwrap().len();
    for number in 0..1_000 {
        snapshot.tasks.states.insert(format!("TASK_{number}"), 1);
    }
    assert_eq!(
        exposition::read(&render_metrics(&snapshot)).unwrap().len(),
        before
    );
}

#[test]
fn a_page_holds_no_markup_from_outside() {
    let page = render_page(&busy());
    assert!(
        !page.contains("<img") && !page.contains("onerror=\""),
        "{page}"
    );
    assert!(page.contains("&lt;img src=x onerror=&quot;alert(1)&quot;&gt;"));
    // What the policy forbids is not there either.
    assert!(!page.contains("style=\"") && !page.contains("onclick"));
    for outside in ["http://", "https://", "//cdn"] {
        let own = page.replace("http://127.0.0.1:5051/api/v1", "");
        assert!(!own.contains(outside), "{outside}");
    }
}

#[test]
fn tables_are_bounded_and_show_what_is_wrong_first() {
    let mut snapshot = quiet();
    snapshot.plugins = (0..1_000)
        .map(|it| plugin(&format!("p{it:04}"), State::Ready))
        .collect();
    snapshot.plugins[999].state = State::Failing;
    let page = render_page(&snapshot);
    assert!(page.len() < 250_000, "{}", page.len());
    assert!(page.contains("800 more are not shown"));
    assert!(page.find("p0999").unwrap() < page.find("p0000").unwrap());
}

#[test]
fn readiness_tells_each_reason_in_a_line() {
    assert_eq!(not_ready(&quiet()), Vec::<String>::new());
    let reasons = not_ready(&busy());
    let begins = [
        "the newest configuration is refused: longshore.toml:3",
        "agent http://127.0.0.1:5051/api/v1 does not answer: connection refused",
        "engine unix:///run/docker.sock does not answer: no answer",
        "csi plugin broken is backoff: exit 3",
        "nri plugin wanted is required and missing",
    ];
    assert_eq!(reasons.len(), begins.len(), "{reasons:#?}");
    for (reason, begin) in reasons.iter().zip(begins) {
        assert!(
            reason.starts_with(begin) && !reason.contains('\n'),
            "{reason}"
        );
    }
    let mut starting = quiet();
    starting.recovered = false;
    assert_eq!(not_ready(&starting), ["recovery is not done yet"]);
    let mut unwanted = busy();
    unwanted.engine.as_mut().unwrap().wanted = false;
    assert!(
        !not_ready(&unwanted)
            .iter()
            .any(|it| it.starts_with("engine"))
    );
}

#[test]
fn a_plugin_is_healthy_while_it_answers() {
    let mut snapshot = quiet();
    for (state, healthy) in [
        (State::Ready, true),
        (State::Idle, false),
        (State::Kept, false),
        (State::Stopped, false),
        (State::Starting, false),
        (State::Unhealthy, false),
        (State::Backoff, false),
        (State::Failing, false),
        (State::Recovering, false),
    ] {
        snapshot.plugins = vec![plugin("one", state)];
        assert_eq!(
            csi_health(&snapshot, "one").unwrap().is_ok(),
            healthy,
            "{state:?}"
        );
    }
    // Removed from the configuration, and needed by what is mounted: it answers.
    let mut kept = plugin("one", State::Ready);
    kept.state = State::Kept;
    snapshot.plugins = vec![kept];
    assert_eq!(csi_health(&snapshot, "one"), Some(Ok(())));
    assert_eq!(csi_health(&snapshot, "two"), None);
}
