//! A front of an agent that tells how many connections are open.

use std::path::PathBuf;

use longshore_agent_client::AgentEndpoint;
use tokio::net::UnixListener;
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::raw::Raw;

pub(crate) struct Proxy {
    socket: PathBuf,
    open: watch::Receiver<usize>,
    _server: JoinSet<()>,
}

impl Proxy {
    pub(crate) fn start(agent: Raw, socket: PathBuf) -> Self {
        let listener = UnixListener::bind(&socket).unwrap();
        let (count, open) = watch::channel(0);
        let mut server = JoinSet::new();
        server.spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((mut client, _)) = listener.accept().await {
                let (agent, count) = (agent.clone(), count.clone());
                connections.spawn(async move {
                    // An agent that is down: the client sees its connection close.
                    let Ok(mut agent) = agent.open().await else {
                        return;
                    };
                    count.send_modify(|open| *open += 1);
                    drop(tokio::io::copy_bidirectional(&mut client, &mut agent).await);
                    count.send_modify(|open| *open -= 1);
                });
            }
        });
        Self {
            socket,
            open,
            _server: server,
        }
    }

    pub(crate) fn endpoint(&self) -> AgentEndpoint {
        AgentEndpoint::unix(&self.socket)
    }

    /// Waits until as many connections reach the agent.
    pub(crate) async fn until_open(&mut self, connections: usize) {
        let reached = self.open.wait_for(|open| *open == connections);
        reached.await.expect("the proxy runs");
    }
}
