//! A scheduler on the v1 HTTP API, in JSON.

use std::collections::VecDeque;
use std::io;
use std::time::Duration;

use longshore_mesos_api::record_io::Decoder;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::sync::mpsc;
use tokio::task::JoinSet;

/// For what has to happen soon; much longer than it takes, for a busy machine.
pub(crate) const SOON: Duration = Duration::from_secs(120);
const MAX_EVENT: usize = 16 << 20;

/// A subscribed framework.
pub(crate) struct Scheduler {
    port: u16,
    pub(crate) framework: Value,
    stream_id: String,
    events: mpsc::Receiver<Value>,
    /// Events that were passed over.
    kept: VecDeque<Value>,
    _reader: JoinSet<()>,
}

impl Scheduler {
    /// Subscribes a framework with checkpoints; with the id of an earlier one it is that again.
    pub(crate) async fn subscribe(port: u16, id: Option<&Value>) -> Self {
        let mut info = json!({"user": "root", "name": "test", "checkpoint": true, "failover_timeout": 600.0,
            "roles": ["test"], "capabilities": [{"type": "TASK_KILLING_STATE"}, {"type": "MULTI_ROLE"}]});
        let mut call = json!({"type": "SUBSCRIBE"});
        if let Some(id) = id {
            info["id"] = id.clone();
            call["framework_id"] = id.clone();
        }
        call["subscribe"] = json!({"framework_info": info});
        let (stream, head) = tokio::time::timeout(SOON, async {
            // A master that has just started takes no frameworks yet.
            loop {
                if let Ok((stream, head)) = post(port, None, &call).await
                    && head.starts_with("HTTP/1.1 200")
                {
                    return (stream, head);
                }
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        })
        .await
        .expect("the master takes the framework");
        let stream_id = header(&head, "mesos-stream-id").expect("a stream id");
        let (sender, events) = mpsc::channel(1024);
        let mut reader = JoinSet::new();
        reader.spawn(async move {
            // The end of the stream is seen by whoever waits for an event.
            let _ended = read_events(stream, sender).await;
        });
        let mut scheduler = Self {
            port,
            framework: Value::Null,
            stream_id,
            events,
            kept: VecDeque::new(),
            _reader: reader,
        };
        let subscribed = scheduler.event("SUBSCRIBED").await;
        scheduler.framework = subscribed["subscribed"]["framework_id"].clone();
        scheduler
    }

    /// The next event of a type; others are kept.
    pub(crate) async fn event(&mut self, kind: &str) -> Value {
        self.find(|event| event["type"] == kind).await
    }

    async fn find(&mut self, wanted: impl Fn(&Value) -> bool) -> Value {
        if let Some(at) = self.kept.iter().position(&wanted) {
            return self.kept.remove(at).unwrap();
        }
        let found = tokio::time::timeout(SOON, async {
            loop {
                let event = self.events.recv().await.expect("the stream lives");
                if wanted(&event) {
                    return event;
                }
                self.kept.push_back(event);
            }
        });
        match found.await {
            Ok(event) => event,
            Err(_) => panic!("not within {SOON:?}; other events: {:#?}", self.kept),
        }
    }

    /// The next status of a task, acknowledged.
    pub(crate) async fn status(&mut self, task: &str) -> Value {
        let update = self
            .find(|event| {
                event["type"] == "UPDATE" && event["update"]["status"]["task_id"]["value"] == task
            })
            .await;
        let status = update["update"]["status"].clone();
        if let Some(uuid) = status.get("uuid") {
            self.call(&json!({"type": "ACKNOWLEDGE", "acknowledge":
                {"agent_id": status["agent_id"], "task_id": status["task_id"], "uuid": uuid}}))
                .await;
        }
        status
    }

    /// Statuses of a task up to one in this state.
    pub(crate) async fn until(&mut self, task: &str, state: &str) -> Vec<Value> {
        let mut all = Vec::new();
        loop {
            let status = self.status(task).await;
            let reached = status["state"] == state;
            let over = ["TASK_FINISHED", "TASK_FAILED", "TASK_KILLED", "TASK_LOST"]
                .iter()
                .any(|over| status["state"] == *over);
            all.push(status);
            if reached {
                return all;
            }
            assert!(!over, "ended before {state}: {all:#?}");
        }
    }

    /// Takes an offer, and launches a task on it; `task` needs neither an agent nor resources.
    pub(crate) async fn launch(&mut self, mut task: Value) {
        let offer = self.event("OFFERS").await["offers"]["offers"][0].clone();
        let scalar = |name: &str, value: f64| {
            json!({"name": name, "type": "SCALAR", "scalar": {"value": value},
                "allocation_info": {"role": "test"}})
        };
        task["agent_id"] = offer["agent_id"].clone();
        task["resources"] = json!([scalar("cpus", 0.5), scalar("mem", 64.0)]);
        if let Some(executor) = task.get_mut("executor") {
            executor["framework_id"] = self.framework.clone();
            executor["resources"] = json!([scalar("cpus", 0.1), scalar("mem", 32.0)]);
        }
        self.call(
            &json!({"type": "ACCEPT", "accept": {"offer_ids": [offer["id"]],
            "operations": [{"type": "LAUNCH", "launch": {"task_infos": [task]}}],
            "filters": {"refuse_seconds": 0.0}}}),
        )
        .await;
    }

    pub(crate) async fn kill(&mut self, task: &str) {
        self.call(&json!({"type": "KILL", "kill": {"task_id": {"value": task}}}))
            .await;
    }

    pub(crate) async fn reconcile(&mut self, task: &str) {
        let tasks = json!([{"task_id": {"value": task}}]);
        self.call(&json!({"type": "RECONCILE", "reconcile": {"tasks": tasks}}))
            .await;
    }

    /// Tells an executor to end.
    pub(crate) async fn shut_down(&mut self, agent: &Value, executor: &str) {
        self.call(&json!({"type": "SHUTDOWN", "shutdown":
            {"agent_id": agent, "executor_id": {"value": executor}}}))
            .await;
    }

    /// Ends the framework with all its tasks.
    pub(crate) async fn tear_down(&mut self) {
        self.call(&json!({"type": "TEARDOWN"})).await;
    }

    async fn call(&mut self, call: &Value) {
        let mut call = call.clone();
        call["framework_id"] = self.framework.clone();
        let (_, head) = post(self.port, Some(&self.stream_id), &call).await.unwrap();
        assert!(head.starts_with("HTTP/1.1 202"), "{head}\n{call:#}");
    }
}

/// Posts a call; the connection behind the head of the answer.
async fn post(port: u16, stream_id: Option<&str>, call: &Value) -> io::Result<(TcpStream, String)> {
    let body = call.to_string();
    let stream_id = stream_id.map_or_else(String::new, |id| format!("Mesos-Stream-Id: {id}\r\n"));
    let mut stream = TcpStream::connect(("127.0.0.1", port)).await?;
    let request = format!(
        "POST /master/api/v1/scheduler HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n\
         Accept: application/json\r\n{stream_id}Content-Length: {}\r\n\r\n{body}",
        body.len()
    );
    stream.write_all(request.as_bytes()).await?;
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await?);
    }
    Ok((stream, String::from_utf8_lossy(&head).into_owned()))
}

fn header(head: &str, name: &str) -> Option<String> {
    let mut pairs = head.lines().filter_map(|line| line.split_once(':'));
    let found = pairs.find(|(found, _)| found.eq_ignore_ascii_case(name))?;
    Some(found.1.trim().to_owned())
}

/// Chunks, and the records in them.
async fn read_events(mut stream: TcpStream, events: mpsc::Sender<Value>) -> io::Result<()> {
    let mut decoder = Decoder::new(MAX_EVENT);
    loop {
        let mut size = Vec::new();
        while !size.ends_with(b"\r\n") {
            size.push(stream.read_u8().await?);
        }
        let size = String::from_utf8_lossy(&size);
        let length = usize::from_str_radix(size.trim(), 16).map_err(io::Error::other)?;
        let mut chunk = vec![0; length + 2];
        stream.read_exact(&mut chunk).await?;
        for record in decoder.feed(&chunk[..length]).map_err(io::Error::other)? {
            let event = serde_json::from_slice(&record).map_err(io::Error::other)?;
            if length == 0 || events.send(event).await.is_err() {
                return Ok(());
            }
        }
        if length == 0 {
            return Ok(());
        }
    }
}
