//! Watches a server until it has been unhealthy three times in a row: `watch 127.0.0.1|::1 PORT [PATH]`.

use std::time::Duration;

use longshore_health::{
    Family, HealthPolicy, HealthWatch, HttpProbe, NetNamespace, Probe, Prober, TcpProbe, Timing,
};

#[tokio::main(flavor = "current_thread")]
#[expect(clippy::print_stdout, reason = "an example")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let (Some(address), Some(port)) = (arguments.next(), arguments.next()) else {
        return Err("call it as: watch 127.0.0.1|::1 PORT [PATH]".into());
    };
    let family = if address.contains(':') {
        Family::V6
    } else {
        Family::V4
    };
    let port = port.parse()?;
    let probe = match arguments.next() {
        Some(path) => {
            let mut probe = HttpProbe::new(port, &path, &[])?;
            probe.family = family;
            Probe::Http(probe)
        }
        None => Probe::Tcp(TcpProbe::new(port, family)?),
    };
    let policy = HealthPolicy {
        timing: Timing {
            delay: Duration::ZERO,
            interval: Duration::from_secs(2),
            timeout: Duration::from_secs(1),
        },
        ..HealthPolicy::default()
    };
    let mut health = HealthWatch::health(probe, &policy, Prober::new(NetNamespace::own()))?;
    loop {
        let report = health.next().await;
        println!("{report:?}");
        if report.kill {
            return Ok(());
        }
    }
}
