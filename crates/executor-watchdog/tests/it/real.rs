use std::time::Duration;

use longshore_engine::{ContainerSpec, DockerConfig, DockerEngine, Engine as _, EngineError};
use longshore_testkit::peers::{self, TEST_IMAGE};

use crate::executor::{Executor, eventually};

/// On a real Docker: one that heeds its signal, one that does not, one that was only created, one that is paused.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_dead_executor_leaves_on_docker_goes() {
    let Some(socket) = peers::docker() else {
        return;
    };
    let address = format!("unix://{}", socket.display());
    let mut config = DockerConfig::new(address.parse().unwrap());
    config.client_config = None;
    let engine = DockerEngine::new(config);
    let heeds = "trap 'exit 0' TERM; while :; do sleep 0.05; done";
    let ignores = "trap '' TERM; while :; do sleep 0.05; done";
    for (script, started, paused) in [
        (heeds, true, false),
        (ignores, true, false),
        (heeds, false, false),
        (heeds, true, true),
    ] {
        let spec = ContainerSpec {
            image: TEST_IMAGE.to_owned(),
            cmd: Some(["sh", "-c", script].map(str::to_owned).to_vec()),
            ..ContainerSpec::default()
        };
        let id = engine.create(&spec).await.unwrap().id;
        let mut executor = Executor::start(&socket);
        executor.tell(&format!("watch {id} 1500 0 0"));
        if started {
            engine.start(&id).await.unwrap();
        }
        if paused {
            engine.pause(&id).await.unwrap();
        }
        executor.kill_tree();
        let gone = tokio::time::timeout(Duration::from_secs(60), async {
            loop {
                match engine.inspect(&id).await {
                    Err(EngineError::NotFound { .. }) => return,
                    Err(error) => panic!("{error}"),
                    Ok(_) => tokio::time::sleep(Duration::from_millis(50)).await,
                }
            }
        });
        gone.await.expect("the container goes");
        eventually("the watchdog ends", || {
            (!executor.watchdog_lives()).then_some(())
        });
    }
}
