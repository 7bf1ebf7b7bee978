//! The forms that tell an engine to do one thing.

use std::time::Duration;

use longshore_engine::{
    ContainerStatus, DockerEngine, Engine as _, EngineError, ImageReference, PullPolicy,
    PullRequest, RemoveOptions,
};

use crate::{Failed, chain, complain, say};

/// How long docker waits where nobody says how long.
const GRACE: Duration = Duration::from_secs(10);
/// How long the engine may take to say its version.
const PATIENCE: Duration = Duration::from_secs(2);
/// What is said of an engine that does not answer: the oldest that is served. An agent asks before it looks whether there is one.
const OLDEST: &str = "20.10.0";

/// `--version`: the engine's, since that is what decides what can be done.
pub(crate) async fn version(engine: &DockerEngine) -> Result<u8, Failed> {
    let asked = tokio::time::timeout(PATIENCE, engine.version()).await;
    let version = match asked {
        Ok(Ok(told)) => plain(&told.version).to_owned(),
        _ => OLDEST.to_owned(),
    };
    let own = env!("CARGO_PKG_VERSION");
    say(&format!("Docker version {version}, build longshore-{own}"));
    Ok(0)
}

/// An agent takes what stands before the comma for three numbers with points: `26.1.5+dfsg1` is none.
fn plain(version: &str) -> &str {
    let end = version.find(|c: char| !c.is_ascii_digit() && c != '.');
    let numbers = end.map_or(version, |end| &version[..end]);
    if numbers.starts_with(|c: char| c.is_ascii_digit()) {
        numbers.trim_end_matches('.')
    } else {
        OLDEST
    }
}

/// `pull IMAGE`: asks the registry even when the image is there.
pub(crate) async fn pull(engine: &DockerEngine, image: String) -> Result<u8, Failed> {
    let reference = ImageReference::parse(&image)?.to_string();
    let mut request = PullRequest::new(image);
    request.policy = PullPolicy::Always;
    engine.pull(request).done().await?;
    say(&reference);
    Ok(0)
}

/// `stop [-t SECONDS] NAME...`. A paused container takes no signal: it is thawed first.
pub(crate) async fn stop(
    engine: &DockerEngine,
    grace: Option<Duration>,
    names: &[String],
) -> Result<u8, Failed> {
    each(names, async |name| {
        let info = engine.inspect(name).await?;
        if info.state.status == ContainerStatus::Paused {
            engine.unpause(&info.id).await?;
        }
        let own = info.stop_timeout.and_then(|own| u64::try_from(own).ok());
        let grace = grace.or(own.map(Duration::from_secs)).unwrap_or(GRACE);
        match engine.stop(&info.id, grace).await {
            Err(EngineError::NotModified { .. }) => Ok(()),
            other => other,
        }
    })
    .await
}

/// `kill [-s SIGNAL] NAME...`
pub(crate) async fn kill(
    engine: &DockerEngine,
    signal: &str,
    names: &[String],
) -> Result<u8, Failed> {
    each(names, async |name| engine.kill(name, signal).await).await
}

/// `rm [-f] [-v] NAME...`
pub(crate) async fn remove(
    engine: &DockerEngine,
    options: RemoveOptions,
    names: &[String],
) -> Result<u8, Failed> {
    each(names, async |name| engine.remove(name, options).await).await
}

/// Does it to each, and prints each that it was done to.
async fn each(
    names: &[String],
    order: impl AsyncFn(&str) -> Result<(), EngineError>,
) -> Result<u8, Failed> {
    let mut failed = false;
    for name in names {
        match order(name).await {
            Ok(()) => say(name),
            Err(error) => {
                failed = true;
                complain(&chain(&error));
            }
        }
    }
    Ok(u8::from(failed))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_is_three_numbers_whatever_a_distribution_adds() {
        for (told, plain_form) in [
            ("28.5.2", "28.5.2"),
            ("26.1.5+dfsg1", "26.1.5"),
            ("20.10.24-ce", "20.10.24"),
            ("5.8.0-rc1", "5.8.0"),
            ("27.", "27"),
            ("dev", OLDEST),
            ("", OLDEST),
        ] {
            assert_eq!(plain(told), plain_form, "{told}");
        }
    }
}
