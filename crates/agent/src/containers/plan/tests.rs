use super::*;
use longshore_mesos_api::v1::{self, Environment, RLimitInfo, Resource};

const SANDBOX: &str = "/state/containers/c";
const ROOT: Rights = Rights { uid: 0 };
const USER: Rights = Rights { uid: 12345 };

fn request(command: Option<CommandInfo>, container: Option<ContainerInfo>) -> LaunchRequest {
    LaunchRequest {
        id: "c".parse().unwrap(),
        command,
        container,
        resources: Vec::new(),
        limits: std::collections::BTreeMap::new(),
    }
}

fn checked(request: &LaunchRequest, rights: Rights) -> Result<Plan, LaunchError> {
    plan(request, Path::new(SANDBOX), rights)
}

fn shell(value: &str) -> CommandInfo {
    CommandInfo {
        value: Some(value.to_owned()),
        ..CommandInfo::default()
    }
}

fn process() -> ContainerInfo {
    let mut info = ContainerInfo::default();
    info.set_type(container_info::Type::Mesos);
    info
}

fn host_volume(source: &str, target: &str, shared: bool) -> Volume {
    let mut propagation = v1::MountPropagation::default();
    if shared {
        propagation.set_mode(mount_propagation::Mode::Bidirectional);
    }
    let mut from = volume::Source {
        host_path: Some(volume::source::HostPath {
            path: source.to_owned(),
            mount_propagation: Some(propagation),
        }),
        ..volume::Source::default()
    };
    from.set_type(volume::source::Type::HostPath);
    let mut volume = Volume {
        container_path: target.to_owned(),
        source: Some(from),
        ..Volume::default()
    };
    volume.set_mode(volume::Mode::Rw);
    volume
}

fn with_volumes(volumes: Vec<Volume>) -> LaunchRequest {
    request(
        None,
        Some(ContainerInfo {
            volumes,
            ..process()
        }),
    )
}

#[test]
fn the_program_is_what_a_mesos_agent_would_run() {
    let exec = |value: Option<&str>, arguments: &[&str]| CommandInfo {
        shell: Some(false),
        value: value.map(str::to_owned),
        arguments: arguments.iter().map(|text| (*text).to_owned()).collect(),
        ..CommandInfo::default()
    };
    let missing = |text: &str| Program::Missing(text.to_owned());
    let run = |file: &str, arguments: &[&str]| Program::Exec {
        file: file.to_owned(),
        arguments: arguments.iter().map(|text| (*text).to_owned()).collect(),
    };
    for (command, expected) in [
        (None, missing("Shell command is not specified")),
        (
            Some(CommandInfo::default()),
            missing("Shell command is not specified"),
        ),
        (
            Some(exec(None, &[])),
            missing("Executable is not specified"),
        ),
        (Some(shell("exit 3")), Program::Shell("exit 3".to_owned())),
        (Some(exec(Some("true"), &[])), run("true", &["true"])),
        (
            Some(exec(Some("/bin/x"), &["x", "-v"])),
            run("/bin/x", &["x", "-v"]),
        ),
    ] {
        let plan = checked(&request(command.clone(), None), USER).unwrap();
        assert_eq!(plan.program, expected, "{command:?}");
    }
}

#[test]
fn the_environment_is_the_default_and_what_the_command_gives() {
    let variable = |name: &str, value: &str| environment::Variable {
        name: name.to_owned(),
        value: Some(value.to_owned()),
        ..environment::Variable::default()
    };
    let command = CommandInfo {
        environment: Some(Environment {
            variables: vec![
                variable("A", "1"),
                variable("PATH", "/p"),
                variable("A", "2"),
            ],
        }),
        ..shell("true")
    };
    let plan = checked(&request(Some(command.clone()), None), USER).unwrap();
    let pairs: Vec<_> = plan
        .environment
        .iter()
        .map(|(name, value)| format!("{name}={value}"))
        .collect();
    let sandbox = format!("MESOS_SANDBOX={SANDBOX}");
    assert_eq!(
        pairs,
        ["PATH=/p", &sandbox, &format!("PWD={SANDBOX}"), "A=2"]
    );
    for malformed in [
        variable("", "x"),
        variable("a=b", "x"),
        variable("a", "x\0y"),
    ] {
        let mut command = command.clone();
        command.environment = Some(Environment {
            variables: vec![malformed],
        });
        let error = checked(&request(Some(command), None), USER).unwrap_err();
        assert!(error.message.contains("is malformed"), "{error:?}");
    }
}

#[test]
fn what_a_process_container_cannot_do_is_refused_by_name() {
    let mut docker = process();
    docker.set_type(container_info::Type::Docker);
    let mut image = process();
    let mut wanted = v1::Image::default();
    wanted.set_type(v1::image::Type::Docker);
    image.mesos = Some(container_info::MesosInfo {
        image: Some(wanted),
    });
    let tty = ContainerInfo {
        tty_info: Some(v1::TtyInfo::default()),
        ..process()
    };
    let host = ContainerInfo {
        hostname: Some("h".to_owned()),
        ..process()
    };
    let caps = ContainerInfo {
        linux_info: Some(v1::LinuxInfo {
            bounding_capabilities: Some(v1::CapabilityInfo::default()),
            ..v1::LinuxInfo::default()
        }),
        ..process()
    };
    for (info, expected) in [
        (
            docker,
            "The provided ContainerInfo is not supported: containers of type DOCKER",
        ),
        (image, "Unsupported container image type: DOCKER"),
        (tty, "tty_info"),
        (host, "hostname"),
        (caps, "capabilities"),
    ] {
        let error = checked(&request(None, Some(info)), ROOT).unwrap_err();
        assert_eq!(error.kind, LaunchErrorKind::BadRequest);
        assert!(error.message.contains(expected), "{error:?}");
    }
    let uris = CommandInfo {
        uris: vec![v1::command_info::Uri::default()],
        ..shell("true")
    };
    assert!(
        checked(&request(Some(uris), None), ROOT)
            .unwrap_err()
            .message
            .contains("URIs")
    );
}

#[test]
fn an_unknown_user_is_answered_as_mesos_does_and_a_foreign_one_needs_root() {
    let command = |user: &str| CommandInfo {
        user: Some(user.to_owned()),
        ..shell("true")
    };
    let ask = |user: &str, rights| checked(&request(Some(command(user)), None), rights);
    let error = ask("no-such-user", ROOT).unwrap_err();
    assert_eq!(error.kind, LaunchErrorKind::Internal);
    assert_eq!(
        error.message,
        "Failed to create sandbox: Failed to chown directory to 'no-such-user': No such user \
         'no-such-user'"
    );
    let error = ask("root", USER).unwrap_err();
    assert_eq!(error.kind, LaunchErrorKind::BadRequest);
    assert!(
        error.message.contains("not root but uid 12345"),
        "{error:?}"
    );
    assert_eq!(ask("root", ROOT).unwrap().user.unwrap().uid, 0);
    let number = ask("54321", ROOT).unwrap().user.unwrap();
    assert_eq!(
        number,
        User {
            uid: 54321,
            gid: 54321,
            groups: vec![54321]
        }
    );
    assert_eq!(
        ask("12345", USER).unwrap().user,
        None,
        "it is that user already"
    );
}

#[test]
fn rlimits_are_both_or_none_and_in_order() {
    use r_limit_info::{RLimit, r_limit::Type};
    let ask = |soft, hard| {
        let mut limit = RLimit {
            soft,
            hard,
            ..RLimit::default()
        };
        limit.set_type(Type::RlmtNofile);
        let info = RLimitInfo {
            rlimits: vec![limit],
        };
        checked(
            &request(
                None,
                Some(ContainerInfo {
                    rlimit_info: Some(info),
                    ..process()
                }),
            ),
            USER,
        )
    };
    let nofile = |soft, hard| Rlimit {
        resource: 7,
        soft,
        hard,
    };
    assert_eq!(ask(Some(10), Some(20)).unwrap().rlimits, [nofile(10, 20)]);
    assert_eq!(
        ask(None, None).unwrap().rlimits,
        [nofile(u64::MAX, u64::MAX)]
    );
    assert!(ask(Some(1), None).is_err());
    assert!(ask(Some(2), Some(1)).is_err());
}

#[test]
fn resources_become_weights_and_limits() {
    let scalar = |value| value::Scalar { value };
    let resource = |name: &str, value| Resource {
        name: name.to_owned(),
        scalar: Some(scalar(value)),
        ..Resource::default()
    };
    let mut request = request(None, None);
    request.resources = vec![
        resource("cpus", 0.5),
        resource("mem", 32.0),
        resource("disk", 9.0),
    ];
    let plan = checked(&request, USER).unwrap();
    assert_eq!(
        plan.wanted,
        Wanted {
            cpus: Some(0.5),
            cpus_limit: None,
            mem: Some(32 << 20),
            mem_limit: Some(32 << 20)
        }
    );
    assert_eq!(
        plan.unenforced,
        ["disk: this agent limits cpus and mem only"]
    );
    request.limits.insert("cpus".to_owned(), scalar(2.0));
    request
        .limits
        .insert("mem".to_owned(), scalar(f64::INFINITY));
    let plan = checked(&request, USER).unwrap();
    assert_eq!(plan.wanted.cpus_limit, Some(2.0));
    assert_eq!(plan.wanted.mem_limit, None, "infinity lifts the limit");
}

#[test]
fn the_same_path_on_both_sides_is_created_and_not_mounted() {
    let request = with_volumes(vec![host_volume("/srv/a", "/srv/./a/", true)]);
    let plan = checked(&request, USER).unwrap();
    assert_eq!(plan.mounts, Mounts::default());
    assert_eq!(plan.directories, [PathBuf::from("/srv/a")]);
}

#[test]
fn different_paths_are_mounted_by_root_and_refused_to_others() {
    let request = with_volumes(vec![
        host_volume("/srv/shared", "/srv/shared", true),
        host_volume("/srv/plain", "/srv/plain", false),
        host_volume("/srv/a", "data", false),
    ]);
    let error = checked(&request, USER).unwrap_err();
    assert_eq!(error.kind, LaunchErrorKind::BadRequest);
    assert!(
        error
            .message
            .contains("The volume /srv/a cannot be mounted at data"),
        "{error:?}"
    );
    let mounts = checked(&request, ROOT).unwrap().mounts;
    assert!(mounts.namespace);
    let list: Vec<_> = mounts
        .list
        .iter()
        .map(|spec| (spec.source.to_str().unwrap(), spec.shared))
        .collect();
    assert_eq!(list, [("/srv/shared", true), ("/srv/a", false)]);
}

#[test]
fn a_volume_that_is_no_path_is_refused_by_name() {
    for (source, target) in [
        ("/srv/../etc", "/x"),
        ("relative", "/x"),
        ("/srv/a", "../up"),
        ("/srv/a", ""),
        ("/srv/a", "/"),
        ("/srv/\0", "/x"),
    ] {
        let request = with_volumes(vec![host_volume(source, target, false)]);
        let error = checked(&request, ROOT).unwrap_err();
        assert_eq!(
            error.kind,
            LaunchErrorKind::BadRequest,
            "{source:?} {target:?}"
        );
        assert!(error.message.starts_with("The volume "), "{error:?}");
    }
    let mut secret = host_volume("/srv/a", "/x", false);
    if let Some(source) = &mut secret.source {
        source.set_type(volume::source::Type::Secret);
    }
    let error = checked(&with_volumes(vec![secret]), ROOT).unwrap_err();
    assert!(error.message.contains("its source is SECRET"), "{error:?}");
}
