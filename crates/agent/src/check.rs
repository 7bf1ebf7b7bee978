//! Whether this agent would launch something, asked before there is a container: for a configuration
//! that is read long before anything of it is launched.

use std::path::Path;

use longshore_mesos_api::v1::agent::call::LaunchContainer;
use longshore_mesos_api::v1::agent::{Call, call};

use crate::containers::{Rights, plan_by_part};
use crate::http::{Order, order};
use crate::images::is_image;
use crate::service::{LaunchError, LaunchErrorKind, LaunchRequest};

/// The part of a request that a refusal is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// The program and its arguments.
    Command,
    /// The variables.
    Environment,
    /// The user to run as.
    User,
    /// Image, network, limits and the like.
    Container,
    /// The volumes.
    Volumes,
    /// Anything else.
    Other,
}

/// Why a container would not be launched.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct WouldRefuse {
    /// What it is about.
    pub part: Part,
    /// It is not the request that is wrong but this machine that lacks something, such as a user: another day it
    /// may be launched as it is.
    pub lacking: bool,
    /// The text that LAUNCH_CONTAINER would be answered with.
    pub message: String,
}

/// Judges a request for a container of an image, as [`ImageRuntime::check`](crate::images::ImageRuntime::check) does.
pub type CheckImage = fn(&LaunchRequest) -> Result<(), LaunchError>;

/// Judges a request as an agent of the user `uid`, with `images` where it runs those, does when it is asked to launch it, by what the request
/// says and by the users that this machine knows. Does nothing, but looks users up, so it may block.
///
/// # Errors
/// [`WouldRefuse`] with the first rule that the request breaks.
pub fn check_launch(
    request: &LaunchContainer,
    uid: u32,
    images: Option<CheckImage>,
) -> Result<(), WouldRefuse> {
    let call = Call {
        r#type: Some(call::Type::LaunchContainer.into()),
        launch_container: Some(request.clone()),
        ..Call::default()
    };
    let request = match order(call::Type::LaunchContainer, call) {
        Ok(Order::Launch(request)) => request,
        Ok(_) => return Ok(()),
        Err(refusal) => {
            return Err(WouldRefuse {
                part: Part::Other,
                lacking: false,
                message: refusal.text,
            });
        }
    };
    if let Some(check) = images.filter(|_| is_image(request.container.as_ref())) {
        return check(&request).map_err(|error| WouldRefuse {
            part: Part::Container,
            lacking: false,
            message: error.message,
        });
    }
    // The sandbox is known to the launch alone, and no rule is about it.
    plan_by_part(&request, Path::new("/"), Rights { uid })
        .map(drop)
        .map_err(|(part, error)| WouldRefuse {
            part,
            lacking: error.kind == LaunchErrorKind::Internal,
            message: error.message,
        })
}

#[cfg(test)]
mod tests {
    use longshore_mesos_api::v1::{
        CommandInfo, ContainerId, ContainerInfo, Environment, Image, Secret, Volume, command_info,
        container_info, environment, secret,
    };

    use super::*;

    fn request(command: CommandInfo, container: Option<ContainerInfo>) -> LaunchContainer {
        LaunchContainer {
            container_id: ContainerId {
                value: "c".to_owned(),
                parent: None,
            },
            command: Some(command),
            container,
            ..LaunchContainer::default()
        }
    }

    fn command() -> CommandInfo {
        CommandInfo {
            shell: Some(true),
            value: Some("true".to_owned()),
            ..CommandInfo::default()
        }
    }

    #[test]
    fn what_a_launch_would_refuse_is_refused_with_its_part() {
        assert_eq!(check_launch(&request(command(), None), 0, None), Ok(()));
        let user = |name: &str| CommandInfo {
            user: Some(name.to_owned()),
            ..command()
        };
        assert_eq!(check_launch(&request(user("0"), None), 0, None), Ok(()));
        let fetched = CommandInfo {
            uris: vec![command_info::Uri {
                value: "http://x/y".to_owned(),
                ..Default::default()
            }],
            ..command()
        };
        let secret = CommandInfo {
            environment: Some(Environment {
                variables: vec![environment::Variable {
                    name: "A".to_owned(),
                    r#type: Some(environment::variable::Type::Secret.into()),
                    secret: Some(Secret {
                        r#type: Some(secret::Type::Value.into()),
                        value: Some(secret::Value::default()),
                        ..Secret::default()
                    }),
                    ..Default::default()
                }],
            }),
            ..command()
        };
        let image = ContainerInfo {
            r#type: container_info::Type::Mesos.into(),
            mesos: Some(container_info::MesosInfo {
                image: Some(Image {
                    r#type: longshore_mesos_api::v1::image::Type::Docker.into(),
                    docker: Some(longshore_mesos_api::v1::image::Docker {
                        name: "x".to_owned(),
                        ..Default::default()
                    }),
                    ..Image::default()
                }),
            }),
            ..ContainerInfo::default()
        };
        let mounted = ContainerInfo {
            r#type: container_info::Type::Mesos.into(),
            volumes: vec![Volume {
                container_path: "/a".to_owned(),
                host_path: Some("/b".to_owned()),
                mode: longshore_mesos_api::v1::volume::Mode::Rw.into(),
                ..Volume::default()
            }],
            ..ContainerInfo::default()
        };
        assert_eq!(
            check_launch(&request(command(), Some(mounted.clone())), 0, None),
            Ok(())
        );
        for (asked, uid, part, text) in [
            (
                request(user("no-such-user"), None),
                0,
                Part::User,
                "No such user",
            ),
            (request(user("0"), None), 1000, Part::User, "is not root"),
            (request(fetched, None), 0, Part::Command, "fetcher"),
            (request(secret, None), 0, Part::Environment, "secret"),
            (request(command(), Some(image)), 0, Part::Container, "image"),
            (request(command(), Some(mounted)), 1000, Part::Volumes, "/b"),
        ] {
            let refused = check_launch(&asked, uid, None).unwrap_err();
            assert_eq!(refused.part, part, "{refused}");
            assert!(refused.message.contains(text), "{refused}");
        }
        let mut nameless = request(command(), None);
        nameless.container_id.value = String::new();
        assert_eq!(
            check_launch(&nameless, 0, None).unwrap_err().part,
            Part::Other
        );
    }
}
