//! Lists the containers of an agent: `containers http://127.0.0.1:5051`.

use std::error::Error;

use longshore_agent_client::{AgentClient, AgentClientConfig, Show};

#[tokio::main(flavor = "current_thread")]
#[expect(clippy::print_stdout, reason = "an example prints")]
async fn main() -> Result<(), Box<dyn Error>> {
    let agent = std::env::args()
        .nth(1)
        .ok_or("usage: containers http://HOST:PORT | unix:///PATH/agent.sock")?;
    let client = AgentClient::new(AgentClientConfig::new(agent.parse()?))?;
    println!("version {}", client.get_version().await?.version);
    for container in client.get_containers(Show::ALL).await? {
        let status = container.container_status.unwrap_or_default();
        let id = container.container_id;
        let parent = id.parent.map(|p| p.value + ".").unwrap_or_default();
        println!("{parent}{} pid {:?}", id.value, status.executor_pid);
    }
    Ok(())
}
