//! A daemon that does not exist, with one of everything.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use longshore_status_http::{
    Agent, DeclaredTask, Endpoint, Engine, Latency, NriPlugin, Plugin, Probes, Process, Snapshot,
    State, Task, Tasks,
};

/// Text that is markup, a label's end and a line's end at once.
pub(crate) const NASTY: &str = "<img src=x onerror=\"alert(1)\">\\ & 'x'\nlongshore_evil 1";

pub(crate) fn at(seconds: u64) -> SystemTime {
    UNIX_EPOCH + Duration::from_secs(1_767_323_045 + seconds)
}

pub(crate) fn plugin(name: &str, state: State) -> Plugin {
    let ready = state == State::Ready;
    let endpoint = |service: &str| Endpoint {
        service: service.to_owned(),
        uri: ready.then(|| format!("unix:///run/longshore/csi/{name}.sock")),
    };
    Plugin {
        name: name.to_owned(),
        plugin_type: "io.example.driver".to_owned(),
        state,
        reason: String::new(),
        since: at(60),
        next_retry: None,
        version: "v1".to_owned(),
        launches: 3,
        restarts: 2,
        endpoints: vec![endpoint("controller"), endpoint("node")],
        pids: vec![4711],
        mounts: 0,
        registered: None,
        probes: Probes::default(),
    }
}

/// All is well, and there is nothing to do.
pub(crate) fn quiet() -> Snapshot {
    Snapshot {
        version: "1.2.3".to_owned(),
        instance: "0123456789abcdef".to_owned(),
        pid: 42,
        started: at(0),
        generation: 7,
        recovered: true,
        config_error: String::new(),
        warnings: Vec::new(),
        config_loaded: at(1),
        log: "info".to_owned(),
        agent: Agent {
            address: "embedded".to_owned(),
            silent: None,
        },
        engine: None,
        plugins: Vec::new(),
        tasks: Tasks::default(),
        nri: None,
        set_aside: 0,
        strays: 0,
        process: None,
    }
}

/// Something of everything, much of it in trouble.
pub(crate) fn busy() -> Snapshot {
    let mut scratch = plugin("scratch", State::Ready);
    scratch.probes = Probes {
        terminations: 2,
        pending: 1,
        finished: 10,
        failed: 4,
        cancelled: 1,
        latency: Some(Latency {
            last: Duration::from_micros(1_500),
            max: Duration::from_millis(20),
            median: None,
            total: Some((4, Duration::from_millis(26))),
        }),
    };
    scratch.mounts = 1;
    scratch.registered = Some(true);
    let mut broken = plugin("broken", State::Backoff);
    broken.reason = format!("exit 3: {NASTY}");
    broken.next_retry = Some(at(90));
    broken.registered = Some(false);
    broken.version = String::new();
    let task = |id: &str, state: &str, healthy| Task {
        id: id.to_owned(),
        image: "example/image:1".to_owned(),
        state: state.to_owned(),
        message: if state == "TASK_FAILED" {
            NASTY.to_owned()
        } else {
            String::new()
        },
        launched: at(10),
        ended: (state == "TASK_FAILED").then(|| at(20)),
        healthy,
    };
    let declared = |name: &str, state: &str, healthy| DeclaredTask {
        name: name.to_owned(),
        state: state.to_owned(),
        waits: state == "backoff",
        reason: if state == "backoff" { NASTY } else { "" }.to_owned(),
        restart: "always".to_owned(),
        attempts: 3,
        last_reason: if state == "running" {
            String::new()
        } else {
            format!("attempt 2: {NASTY}")
        },
        next_try: (state == "backoff").then(|| at(100)),
        healthy,
    };
    let nri = |name: &str, state: &str| NriPlugin {
        name: name.to_owned(),
        state: state.to_owned(),
        kind: if state == "missing" { "" } else { "launched" }.to_owned(),
        since: Some(at(5)),
        pid: Some(99),
        requests: 12,
        failures: 1,
        queued: 2,
        latency: (state == "active").then_some(Latency {
            last: Duration::from_micros(250),
            max: Duration::from_secs(2),
            median: Some(Duration::from_micros(300)),
            total: Some((12, Duration::from_millis(2_100))),
        }),
        last_error: if state == "active" {
            String::new()
        } else {
            NASTY.to_owned()
        },
    };
    Snapshot {
        config_error: format!("longshore.toml:3: {NASTY}"),
        warnings: vec![NASTY.to_owned()],
        agent: Agent {
            address: "http://127.0.0.1:5051/api/v1".to_owned(),
            silent: Some((at(30), "connection refused".to_owned())),
        },
        engine: Some(Engine {
            address: "unix:///run/docker.sock".to_owned(),
            version: "Docker 28.5.1, API 1.51".to_owned(),
            silent: Some((at(40), "no answer".to_owned())),
            wanted: true,
        }),
        plugins: vec![broken, scratch, plugin("off", State::Stopped)],
        tasks: Tasks {
            states: [("TASK_FAILED", 1), ("TASK_RUNNING", 2), ("TASK_NEW", 3)]
                .map(|(state, count)| (state.to_owned(), count))
                .into(),
            total: 6,
            shown: vec![
                task("web", "TASK_RUNNING", Some(true)),
                task(NASTY, "TASK_FAILED", Some(false)),
                task("new", "TASK_NEW", None),
            ],
            declared: vec![
                declared("web", "running", Some(true)),
                declared(NASTY, "backoff", None),
                declared("once", "done", None),
            ],
        },
        nri: Some(vec![
            nri("10-first", "active"),
            nri("20-gone", "closed"),
            nri("wanted", "missing"),
        ]),
        set_aside: 1,
        strays: 1,
        process: Some(Process {
            resident: 12_345_678,
            cpu: Duration::from_millis(1_234),
            descriptors: 17,
            threads: 3,
        }),
        ..quiet()
    }
}
