use longshore_mesos_api::v1::container_info::MesosInfo;
use longshore_mesos_api::v1::{Resource, Volume, value, volume};

use super::*;

fn docker(name: &str) -> ContainerInfo {
    ContainerInfo {
        r#type: Type::Docker.into(),
        docker: Some(DockerInfo {
            image: name.to_owned(),
            ..DockerInfo::default()
        }),
        ..ContainerInfo::default()
    }
}

fn mesos(image: Image) -> ContainerInfo {
    ContainerInfo {
        r#type: Type::Mesos.into(),
        mesos: Some(MesosInfo { image: Some(image) }),
        ..ContainerInfo::default()
    }
}

fn docker_image(name: &str) -> Image {
    Image {
        r#type: image::Type::Docker.into(),
        docker: Some(image::Docker {
            name: name.to_owned(),
            ..image::Docker::default()
        }),
        ..Image::default()
    }
}

fn request(container: ContainerInfo) -> LaunchRequest {
    LaunchRequest {
        id: "c".parse().unwrap(),
        command: None,
        container: Some(container),
        resources: Vec::new(),
        limits: BTreeMap::new(),
    }
}

#[test]
fn an_image_of_type_mesos_becomes_a_docker_one_on_the_hosts_network() {
    let mut container = mesos(docker_image("driver:v1"));
    container.volumes.push(Volume {
        mode: volume::Mode::Rw.into(),
        container_path: "/csi".to_owned(),
        host_path: Some("/run/csi".to_owned()),
        ..Volume::default()
    });
    let request = request(container);
    assert_eq!(check(&request), Ok(()));
    let task = to_task(&request);
    let made = task.container.unwrap();
    let docker = made.docker.unwrap();
    assert_eq!(docker.image, "driver:v1");
    assert_eq!(docker.network(), Network::Host);
    assert_eq!(docker.force_pull_image, None);
    assert_eq!(made.volumes.len(), 1);
    assert_eq!(made.mesos, None);
    // The image's own program.
    assert_eq!(task.command.unwrap().shell, Some(false));
}

#[test]
fn an_image_that_may_not_be_cached_is_pulled_each_time() {
    let mut image = docker_image("x");
    image.cached = Some(false);
    let task = to_task(&request(mesos(image)));
    assert!(task.container.unwrap().docker.unwrap().force_pull_image());
}

#[test]
fn the_name_of_the_program_is_an_argument_for_type_mesos_alone() {
    let command = |arguments: &[&str], shell| CommandInfo {
        value: Some("/driver".to_owned()),
        arguments: arguments.iter().map(|text| (*text).to_owned()).collect(),
        shell: Some(shell),
        ..CommandInfo::default()
    };
    let arguments = |container: ContainerInfo, command| {
        let mut asked = request(container);
        asked.command = Some(command);
        to_task(&asked).command.unwrap().arguments
    };
    let named = ["driver", "-v"];
    let of_mesos = arguments(mesos(docker_image("x")), command(&named, false));
    assert_eq!(of_mesos, ["-v"]);
    assert_eq!(arguments(docker("x"), command(&["-v"], false)), ["-v"]);
    assert!(arguments(mesos(docker_image("x")), command(&[], false)).is_empty());
    assert_eq!(
        arguments(mesos(docker_image("x")), command(&named, true)),
        named
    );
}

#[test]
fn what_was_asked_for_is_known_again() {
    let mut asked = request(docker("busybox"));
    asked.command = Some(CommandInfo {
        value: Some("true".to_owned()),
        ..CommandInfo::default()
    });
    asked.resources = vec![Resource {
        name: "mem".to_owned(),
        r#type: value::Type::Scalar.into(),
        scalar: Some(value::Scalar { value: 64.0 }),
        ..Resource::default()
    }];
    asked
        .limits
        .insert("mem".to_owned(), value::Scalar { value: 128.0 });
    assert_eq!(of_task(&to_task(&asked)), Some(asked));
    assert_eq!(of_task(&TaskInfo::default()), None);
}

#[test]
fn what_an_engine_cannot_do_is_refused_by_name() {
    let appc = Image {
        r#type: image::Type::Appc.into(),
        ..Image::default()
    };
    let mut secret = docker_image("x");
    secret.docker.as_mut().unwrap().config = Some(Default::default());
    let nameless = docker_image("");
    let bad_name = docker_image("Upper/Case:x:y");
    for (container, named) in [
        (mesos(appc), "APPC"),
        (mesos(secret), "docker.config"),
        (mesos(nameless), "image"),
        (mesos(bad_name), "Upper/Case"),
        (docker(""), "image"),
    ] {
        let refused = check(&request(container)).unwrap_err();
        assert_eq!(refused.kind, LaunchErrorKind::BadRequest);
        assert!(refused.message.contains(named), "{refused}");
    }
}
