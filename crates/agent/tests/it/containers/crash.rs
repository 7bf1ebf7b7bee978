//! The agent's process killed with SIGKILL at random moments under load.

use super::hosted::{Hosted, directories};
use super::*;

const NAMES: [&str; 4] = ["a", "b", "c", "d"];

/// Its own pid, once, then waits: a second life of one launch would show.
const COMMAND: &str = "echo $$ >> lives; exec sleep 1000";

/// A small generator, so that a failing seed can be run again.
struct Random(u64);

impl Random {
    fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % end
    }
}

#[tokio::test]
async fn an_agent_killed_at_random_moments_loses_doubles_and_orphans_no_container() {
    let user = nix::unistd::geteuid().as_raw();
    let seed = u64::from(std::process::id()) << 20 | 0x5eed;
    println!("seed {seed}");
    let mut random = Random(seed);
    let node = directories(user);
    for round in 0..12 {
        let mut hosted = Hosted::start(node.root.path(), user);
        let load = async {
            for name in NAMES.iter().cycle() {
                // Whatever is answered: most of these die with the agent.
                let _any = hosted.launch(name, COMMAND).await;
                let _any = hosted.kill(name).await;
            }
        };
        let life = Duration::from_micros(500 + random.below(40_000));
        let _ended = tokio::time::timeout(life, load).await;
        hosted.child.kill().unwrap();
        hosted.child.wait().unwrap();

        let hosted = Hosted::start(node.root.path(), user);
        for name in NAMES {
            let reply = hosted.launch(name, COMMAND).await;
            assert!(
                matches!(reply.status, 200 | 202),
                "round {round}: {}",
                reply.text()
            );
        }
        // A container that was dying answers 202 and is gone: then it is launched anew.
        for name in NAMES {
            let running = || inits(&node, name);
            let deadline = tokio::time::Instant::now() + Duration::from_secs(10);
            loop {
                let pids = running();
                assert!(
                    pids.len() <= 1,
                    "seed {seed} round {round}: {name} is doubled: {pids:?}"
                );
                let reply = hosted.launch(name, COMMAND).await;
                if reply.status == 202 && pids.len() == 1 && running() == pids {
                    break;
                }
                assert!(
                    tokio::time::Instant::now() < deadline,
                    "seed {seed} round {round}: {name}"
                );
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
        }
        eventually("one shim each", || {
            node.shims_of_copy().len() == NAMES.len()
        })
        .await;
    }
    let hosted = Hosted::start(node.root.path(), user);
    for name in NAMES {
        hosted.kill(name).await;
        assert_eq!(hosted.wait(name).await.status, 200);
    }
    drop(hosted);
    eventually("nothing is left", || node.processes_of_copy().is_empty()).await;
    assert!(NAMES.iter().all(|name| inits(&node, name).is_empty()));
}

/// The living processes whose working directory is the sandbox of `name`.
fn inits(node: &Node, name: &str) -> Vec<i32> {
    let sandbox = std::fs::canonicalize(node.sandbox(name)).unwrap_or_default();
    processes(|pid| std::fs::read_link(format!("/proc/{pid}/cwd")).is_ok_and(|cwd| cwd == sandbox))
}

impl Node {
    /// The shims that run the copy of the shim in the root itself and have a container.
    fn shims_of_copy(&self) -> Vec<i32> {
        let mut all = self.processes_of_copy();
        all.retain(|pid| !is_spare(*pid));
        all
    }
}
