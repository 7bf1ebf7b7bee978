//! An agent in a process of its own, with its HTTP front: as another user, or to be killed.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Command, Stdio};

use longshore_agent::Agent;

use super::*;
use crate::http::raw::{Connection, Reply};

const ROOT: &str = "LONGSHORE_TEST_AGENT_ROOT";
const USER: &str = "LONGSHORE_TEST_AGENT_USER";

/// A process that runs an agent on the directories of a [`Node`].
pub(super) struct Hosted {
    pub(super) child: Child,
    socket: PathBuf,
}

impl Hosted {
    /// Starts one and waits until it answers.
    pub(super) fn start(root: &Path, user: u32) -> Self {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args([
                "--exact",
                "containers::hosted::an_agent_in_a_process_of_its_own_answers",
            ])
            .arg("--nocapture")
            .env(ROOT, root)
            .env(USER, user.to_string())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let ready = lines
            .map_while(Result::ok)
            .any(|line| line.ends_with("the agent is ready"));
        assert!(ready, "the agent did not start");
        Self {
            child,
            socket: root.join("socket/agent.sock"),
        }
    }

    pub(super) async fn call(&self, body: &str) -> Reply {
        let mut connection = Connection::open(&self.socket).await;
        connection
            .post(&[("Content-Type", "application/json")], body.as_bytes())
            .await
    }

    pub(super) async fn launch(&self, name: &str, command: &str) -> Reply {
        self.call(&format!(
            r#"{{"type":"LAUNCH_CONTAINER","launch_container":{{"container_id":{{"value":"{name}"}},
                "command":{{"value":"{command}"}}}}}}"#
        ))
        .await
    }

    pub(super) async fn wait(&self, name: &str) -> Reply {
        self.call(&format!(
            r#"{{"type":"WAIT_CONTAINER","wait_container":{{"container_id":{{"value":"{name}"}}}}}}"#
        ))
        .await
    }

    pub(super) async fn kill(&self, name: &str) -> Reply {
        self.call(&format!(
            r#"{{"type":"KILL_CONTAINER","kill_container":{{"container_id":{{"value":"{name}"}}}}}}"#
        ))
        .await
    }
}

impl Drop for Hosted {
    fn drop(&mut self) {
        let _gone = self.child.kill();
        let _reaped = self.child.wait();
    }
}

/// The directories of a hosted agent, which belong to `user`.
pub(super) fn directories(user: u32) -> Node {
    let node = Node::new();
    let root = node.root.path();
    std::fs::copy(SHIM, root.join("shim")).unwrap();
    for dir in ["state", "run", "socket"] {
        std::fs::create_dir(root.join(dir)).unwrap();
        let private = std::fs::Permissions::from_mode(0o700);
        std::fs::set_permissions(root.join(dir), private).unwrap();
        std::os::unix::fs::chown(root.join(dir), Some(user), Some(user)).unwrap();
    }
    node
}

/// In the process of its own: serves until standard input ends or it is killed.
fn host(root: &Path, user: u32) {
    if user != nix::unistd::geteuid().as_raw() {
        let (uid, gid) = (
            nix::unistd::Uid::from_raw(user),
            nix::unistd::Gid::from_raw(user),
        );
        nix::unistd::setgroups(&[]).unwrap();
        nix::unistd::setresgid(gid, gid, gid).unwrap();
        nix::unistd::setresuid(uid, uid, uid).unwrap();
    }
    let options = AgentOptions::new(
        root.join("state"),
        root.join("run"),
        root.join("socket/agent.sock"),
        ShimCommand::new(root.join("shim"), [""; 0]),
    );
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .unwrap();
    let agent = runtime.block_on(Agent::start(options)).unwrap();
    std::io::stdout()
        .write_all(b"the agent is ready\n")
        .unwrap();
    let _ended = std::io::stdin().read_line(&mut String::new());
    runtime.block_on(agent.shutdown());
}

#[test]
fn an_agent_in_a_process_of_its_own_answers() {
    if let (Some(root), Ok(user)) = (std::env::var_os(ROOT), std::env::var(USER)) {
        return host(Path::new(&root), user.parse().unwrap());
    }
    let user = nix::unistd::geteuid().as_raw();
    let node = directories(user);
    let hosted = Hosted::start(node.root.path(), user);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        assert_eq!(hosted.launch("c", "exit 3").await.status, 200);
        let reply = hosted.wait("c").await;
        assert_eq!(
            reply.text(),
            r#"{"type":"WAIT_CONTAINER","wait_container":{"exit_status":768}}"#
        );
        assert_eq!(hosted.kill("c").await.status, 404);
    });
}

#[tokio::test]
async fn everything_that_needs_no_privilege_works_as_an_ordinary_user() {
    if !root() {
        return;
    }
    let node = directories(65534);
    let hosted = Hosted::start(node.root.path(), 65534);
    let reply = hosted
        .launch(
            "c",
            "id -u; setsid sleep 1000 & echo $! > pid; echo ready; exec sleep 1000",
        )
        .await;
    assert_eq!((reply.status, reply.text()), (200, ""));
    let orphan: i32 = line(&node.sandbox("c").join("pid")).await.parse().unwrap();
    eventually("the output", || node.output("c") == "65534\nready\n").await;
    assert!(lives(orphan));
    assert_eq!(hosted.kill("c").await.status, 200);
    let reply = hosted.wait("c").await;
    assert!(
        reply.text().contains(r#""exit_status":9"#),
        "{}",
        reply.text()
    );
    assert!(!lives(orphan));
    for (extra, status, expected) in [
        (
            r#""command":{"value":"true","user":"root"}"#,
            400,
            "not root but uid 65534",
        ),
        (
            r#""container":{"type":"MESOS","volumes":[{"mode":"RW","container_path":"data",
               "host_path":"/usr"}]}"#,
            400,
            "The volume /usr cannot be mounted at data: this agent is not root",
        ),
        (
            r#""container":{"type":"MESOS","volumes":[{"mode":"RW","container_path":"/proc/x/y",
               "host_path":"/proc/x/y"}]}"#,
            500,
            "Failed to create the volume /proc/x/y",
        ),
    ] {
        let body = format!(
            r#"{{"type":"LAUNCH_CONTAINER","launch_container":{{"container_id":{{"value":"d"}},{extra}}}}}"#
        );
        let reply = hosted.call(&body).await;
        assert_eq!(reply.status, status, "{}", reply.text());
        assert!(reply.text().contains(expected), "{}", reply.text());
    }
    assert!(!node.sandbox("d").exists());
}
