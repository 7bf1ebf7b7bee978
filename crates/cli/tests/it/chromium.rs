//! Headless Chromium, driven over its pipe of the DevTools protocol: JSON messages, each ended by a NUL.

use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, ChildStdin, Stdio};
use std::sync::mpsc::{Receiver, sync_channel};
use std::time::{Duration, Instant};

use base64::Engine as _;
use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use serde_json::{Value, json};

use crate::support::Home;

/// Its first start on a busy machine takes a while.
const PATIENCE: Duration = Duration::from_secs(60);

/// A browser with one page.
pub(crate) struct Page {
    child: Child,
    requests: ChildStdin,
    messages: Receiver<Value>,
    session: String,
    last_id: u64,
    /// What the browser complained of: refused by the policy of the page, an exception, a failed request.
    pub(crate) complaints: Vec<String>,
}

impl Page {
    /// Opens `url`, with all that the browser writes in `home`.
    pub(crate) fn open(chromium: &Path, home: &Home, url: &str) -> Self {
        // It reads from descriptor 3 and writes to 4.
        const START: &str = r#"exec "$0" "$@" 3<&0 4>&1 </dev/null >/dev/null"#;
        let log = std::fs::File::create(home.join("chromium.log")).unwrap();
        let mut child = home
            .command_of("/bin/sh", ["-c", START])
            .arg(chromium)
            .args([
                "--headless",
                "--no-sandbox",
                "--disable-gpu",
                "--hide-scrollbars",
            ])
            .args(["--disable-dev-shm-usage", "--no-first-run"])
            .args(["--disable-background-networking", "--no-proxy-server"])
            .arg("--remote-debugging-pipe")
            .arg(format!("--user-data-dir={}", home.join("c").display()))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(log)
            .process_group(0)
            .spawn()
            .unwrap();
        let requests = child.stdin.take().unwrap();
        let answers = BufReader::new(child.stdout.take().unwrap());
        let (send, messages) = sync_channel(4096);
        std::thread::spawn(move || {
            for message in answers.split(0).map_while(Result::ok) {
                let message = serde_json::from_slice(&message).unwrap_or(Value::Null);
                if send.send(message).is_err() {
                    break;
                }
            }
        });
        let mut page = Self {
            child,
            requests,
            messages,
            session: String::new(),
            last_id: 0,
            complaints: Vec::new(),
        };
        let target = page.call("Target.createTarget", json!({"url": "about:blank"}));
        let attach = json!({"targetId": target["targetId"], "flatten": true});
        let session = page.call("Target.attachToTarget", attach);
        page.session = session["sessionId"].as_str().unwrap().to_owned();
        page.call("Log.enable", json!({}));
        page.call("Runtime.enable", json!({}));
        page.call("Page.enable", json!({}));
        let went = page.call("Page.navigate", json!({"url": url}));
        assert!(went["errorText"].is_null(), "{url}: {went}");
        page
    }

    /// The answer to a command of the protocol.
    fn call(&mut self, method: &str, params: Value) -> Value {
        self.last_id += 1;
        let mut message = json!({"id": self.last_id, "method": method, "params": params});
        if !self.session.is_empty() {
            message["sessionId"] = self.session.clone().into();
        }
        let mut bytes = message.to_string().into_bytes();
        bytes.push(0);
        self.requests.write_all(&bytes).unwrap();
        let deadline = Instant::now() + PATIENCE;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            let Ok(message) = self.messages.recv_timeout(left) else {
                panic!("{method}: chromium has not answered");
            };
            if message["id"] == self.last_id {
                assert!(message["error"].is_null(), "{method}: {message}");
                return message["result"].clone();
            }
            self.note(&message);
        }
    }

    fn note(&mut self, message: &Value) {
        let params = &message["params"];
        let is_bad = match message["method"].as_str() {
            Some("Runtime.exceptionThrown") => true,
            Some("Log.entryAdded") => params["entry"]["level"] == "error",
            _ => false,
        };
        if is_bad {
            self.complaints.push(params.to_string());
        }
    }

    /// The value of an expression in the page.
    pub(crate) fn evaluate(&mut self, script: &str) -> Value {
        let params = json!({"expression": script, "returnByValue": true});
        let done = self.call("Runtime.evaluate", params);
        assert!(done["exceptionDetails"].is_null(), "{script}: {done}");
        done["result"]["value"].clone()
    }

    /// What a reader sees of the element that this selector finds; empty when there is none.
    pub(crate) fn text(&mut self, selector: &str) -> String {
        let selector = Value::from(selector);
        let found = format!("document.querySelector({selector})");
        let text = self.evaluate(&format!("{found} ? {found}.innerText : \"\""));
        text.as_str().unwrap().to_owned()
    }

    /// Another size of the window, and `light` or `dark`.
    pub(crate) fn look(&mut self, width: u32, scheme: &str) {
        let size =
            json!({"width": width, "height": 800, "deviceScaleFactor": 1, "mobile": width < 600});
        self.call("Emulation.setDeviceMetricsOverride", size);
        let feature = json!({"name": "prefers-color-scheme", "value": scheme});
        self.call("Emulation.setEmulatedMedia", json!({"features": [feature]}));
    }

    /// The whole page as a picture, written to `path`.
    pub(crate) fn screenshot(&mut self, path: &Path) {
        let params = json!({"format": "png", "captureBeyondViewport": true});
        let done = self.call("Page.captureScreenshot", params);
        let engine = base64::engine::general_purpose::STANDARD;
        let picture = engine.decode(done["data"].as_str().unwrap()).unwrap();
        assert!(picture.starts_with(b"\x89PNG\r\n"), "no picture");
        std::fs::write(path, picture).unwrap();
    }
}

impl Drop for Page {
    fn drop(&mut self) {
        if let Ok(group) = i32::try_from(self.child.id()) {
            let _gone = killpg(Pid::from_raw(group), Signal::SIGKILL);
        }
        let _ended = self.child.wait();
    }
}
