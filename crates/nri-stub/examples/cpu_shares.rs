//! A plugin that gives containers the CPU shares that an annotation of their pod asks for.
use longshore_nri_stub::api::{Container, ContainerAdjustment, PodSandbox, annotation};
use longshore_nri_stub::{HandlerError, Stub, plugin};

const KEY: &str = "cpu-shares.example.com";

pub(crate) struct Shares;

#[plugin]
impl Shares {
    async fn create_container(
        &self,
        pod: PodSandbox,
        container: Container,
    ) -> Result<ContainerAdjustment, HandlerError> {
        let mut adjustment = ContainerAdjustment::default();
        if let Some(text) = annotation::effective(&pod, KEY, &container.name) {
            let shares: u64 = text.parse()?; // an error fails the creation, with its text
            adjustment.resources_mut().set_cpu_shares(shares);
        }
        Ok(adjustment)
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), String> {
    let stub = Stub::builder().unless_launched("10", "cpu-shares");
    let ended = stub.run(Shares).await;
    ended.map(drop).map_err(|error| error.to_string())
}
