//! The status page of a real daemon in a real browser: what it shows, and that it follows changes without a reload.

use longshore_nri_stub::api::PodSandbox;
use longshore_nri_stub::{Environment, Stub, plugin};
use longshore_testkit::peers::{self, TEST_IMAGE};
use nix::sys::signal::{Signal, kill};
use tokio::runtime::Runtime;

use crate::chromium::Page;
use crate::support::{Daemon, Home, eventually, eventually_is, hostpath};

/// An NRI plugin that only looks on.
struct Onlooker;

#[plugin]
impl Onlooker {
    async fn run_pod_sandbox(&self, _: PodSandbox) {}
}

/// It is connected for as long as the runtime is there.
fn onlooker(daemon: &Daemon) -> Runtime {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .unwrap();
    let stub = Stub::builder()
        .environment(Environment::default())
        .index("10")
        .name("onlooker")
        .socket(daemon.home.join("r/nri.sock"))
        .build(Onlooker)
        .unwrap();
    runtime.spawn(async move { stub.run().await });
    runtime
}

/// A port that nobody listens on.
fn free_port() -> u16 {
    let unused = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    unused.local_addr().unwrap().port()
}

/// Waits until all words are in the text of the first element that this selector finds.
#[track_caller]
fn shows(page: &mut Page, selector: &str, words: &[&str]) {
    // What is not there yet is left of the words; the rest is for the message.
    eventually_is(selector, &(Vec::new(), String::new()), || {
        let text = page.text(selector);
        let missing: Vec<_> = words.iter().filter(|it| !text.contains(**it)).collect();
        let shown = if missing.is_empty() {
            String::new()
        } else {
            text.clone()
        };
        (missing, shown)
    });
}

#[test]
fn a_browser_shows_plugins_endpoints_tasks_and_the_nri_chain_and_follows_them() {
    let Some(chromium) = peers::chromium() else {
        return;
    };
    let docker = peers::docker();
    let home = Home::new();
    let port = free_port();
    let mut config = format!("[http]\nlisten = \"127.0.0.1:{port}\"\n\n[nri]\nenabled = true\n");
    let (plugins, drop_ins) = (home.join("plugins"), home.join("conf.d"));
    std::fs::create_dir(&plugins).unwrap();
    config = config + &format!("plugin_dir = {plugins:?}\nconfig_dir = {drop_ins:?}\n\n");
    if let Some(socket) = &docker {
        config = config + &format!("[tasks]\nengine = \"unix://{}\"\n\n", socket.display());
    }
    config += &hostpath(&home, "disks", "v1");
    config += &hostpath(&home, "scratch", "v0");
    let mut daemon = Daemon::start(home, &config);
    let uri = daemon.endpoint("disks");
    daemon.endpoint("scratch");

    let url = format!("http://127.0.0.1:{port}/");
    let mut page = Page::open(&chromium, &daemon.home, &url);
    shows(&mut page, "#live", &["live"]);
    // A reload would lose this.
    page.evaluate("window.opened = true");
    eventually_is("the daemon is ready", &"ready".to_owned(), || {
        page.text("#summary .state").trim().to_owned()
    });
    shows(&mut page, "#summary", &["2 of 2"]);
    let disks = "#plugins tbody tr:nth-child(1)";
    shows(&mut page, disks, &["disks", "ready", "v1", &uri]);
    let scratch = "#plugins tbody tr:nth-child(2)";
    shows(&mut page, scratch, &["scratch", "ready", "v0"]);
    let restarts = "#plugins tbody tr:nth-child(1) td[data-column=restarts]";
    assert_eq!(page.text(restarts).trim(), "0");

    // A plugin of NRI comes behind the one that is built in.
    let (first, second) = ("#nri tbody tr:nth-child(1)", "#nri tbody tr:nth-child(2)");
    shows(&mut page, first, &["built in", "active"]);
    assert_eq!(page.text(second), "");
    let runtime = onlooker(&daemon);
    shows(&mut page, second, &["10-onlooker", "active"]);

    // A plugin dies, and comes again.
    kill(daemon.plugin_pid("disks"), Signal::SIGKILL).unwrap();
    eventually("a restart is shown", || {
        (page.text(restarts).trim() == "1").then_some(())
    });
    shows(&mut page, "#summary", &["2 of 2"]);

    if docker.is_some() {
        shows(&mut page, "#tasks", &["There are none"]);
        let task = [
            "task",
            "run",
            "-d",
            "--name",
            "page-web",
            "-e",
            "KEY=s3cret",
        ];
        let task = task.into_iter().chain([TEST_IMAGE, "sleep", "1000"]);
        daemon.run(task).exits(0);
        shows(
            &mut page,
            "#tasks tbody tr",
            &["page-web", "running", TEST_IMAGE],
        );
        pictures(&mut page, &daemon.home);
        daemon.run(["task", "kill", "page-web"]).exits(0);
        shows(&mut page, "#tasks tbody tr", &["page-web", "killed"]);
    } else {
        pictures(&mut page, &daemon.home);
    }

    daemon.run(["csi", "stop", "scratch"]).exits(0);
    // What wants a look comes first.
    shows(&mut page, disks, &["scratch", "stopped"]);
    shows(&mut page, "#summary", &["1 of 2"]);
    runtime.shutdown_background();
    eventually("the NRI plugin is gone", || {
        (!page.text(second).contains("active")).then_some(())
    });
    let all = page.evaluate("document.documentElement.outerHTML");
    assert!(!all.as_str().unwrap().contains("s3cret"), "{all}");
    assert_eq!(page.complaints, [""; 0]);

    // The daemon dies: the page says so, and goes on with the next one.
    daemon.crash();
    shows(&mut page, "#live", &["connection lost"]);
    daemon.start_again();
    shows(&mut page, "#live", &["live"]);
    daemon.run(["csi", "start", "scratch"]).exits(0);
    shows(&mut page, "#summary", &["2 of 2"]);
    assert_eq!(page.evaluate("window.opened"), true, "it was loaded again");

    drop(page);
    daemon.run(["csi", "stop", "disks"]).exits(0);
    daemon.run(["csi", "stop", "scratch"]).exits(0);
    assert_eq!(daemon.terminate(), 0, "{}", daemon.log());
}

/// Taken wide and narrow, light and dark; nothing is wider than the window.
fn pictures(page: &mut Page, home: &Home) {
    let mut grounds = Vec::new();
    for scheme in ["light", "dark"] {
        for width in [1280, 400] {
            page.look(width, scheme);
            let wide = page.evaluate("document.documentElement.scrollWidth");
            let fits = wide.as_u64().is_some_and(|wide| wide <= width.into());
            assert!(fits, "{wide} of {width}");
            page.screenshot(&home.join(&format!("page-{scheme}-{width}.png")));
        }
        grounds.push(page.evaluate("getComputedStyle(document.body).backgroundColor"));
    }
    assert_ne!(grounds[0], grounds[1], "dark is not light");
}
