use super::*;

fn variable(name: &str, value: &str) -> Variable {
    Variable {
        name: name.to_owned(),
        value: Some(value.to_owned()),
        ..Variable::default()
    }
}

fn info() -> CsiPluginContainerInfo {
    CsiPluginContainerInfo {
        services: vec![1, 2],
        command: Some(CommandInfo {
            value: Some("/bin/plugin".to_owned()),
            arguments: vec!["plugin".to_owned(), "--endpoint=$(CSI_ENDPOINT)".to_owned()],
            environment: Some(Environment {
                variables: vec![
                    variable("CSI_ENDPOINT", "mine"),
                    variable("A", "b"),
                    variable("CSI_ENDPOINT", "mine again"),
                ],
            }),
            ..CommandInfo::default()
        }),
        ..CsiPluginContainerInfo::default()
    }
}

fn build(info: &CsiPluginContainerInfo, agent: Option<&str>) -> (LaunchContainer, LaunchHash) {
    let roots = [
        "/var/lib/longshore/csi/t/n/mounts".to_owned(),
        "/target".to_owned(),
    ];
    let around = Surroundings {
        id: "c1",
        socket: "/run/longshore/csi/ab12/csi.sock",
        mount_roots: &roots,
        agent_id: agent,
    };
    launch_request(info, &around)
}

fn variables(request: &LaunchContainer) -> Vec<(String, String)> {
    let command = request.command.as_ref().unwrap();
    let variables = &command.environment.as_ref().unwrap().variables;
    let pair = |v: &Variable| (v.name.clone(), v.value.clone().unwrap());
    variables.iter().map(pair).collect()
}

#[test]
fn a_users_own_variables_are_replaced_once() {
    let (request, hash) = build(&info(), Some("agent-1"));
    let owned = |pair: (&str, &str)| (pair.0.to_owned(), pair.1.to_owned());
    let expected = [
        owned(("A", "b")),
        owned(("CSI_ENDPOINT", "unix:///run/longshore/csi/ab12/csi.sock")),
        owned(("MESOS_AGENT_ID", "agent-1")),
        owned((LAUNCH_HASH, &hash.to_string())),
    ];
    assert_eq!(variables(&request), expected);
    let (request, _) = build(&info(), None);
    assert!(
        variables(&request)
            .iter()
            .all(|(name, _)| name != MESOS_AGENT_ID)
    );
}

#[test]
fn the_socket_and_every_mount_root_are_volumes() {
    let (request, _) = build(&info(), None);
    let container = request.container.unwrap();
    assert_eq!(container.r#type(), container_info::Type::Mesos);
    let [socket, root, target] = container.volumes.as_slice() else {
        panic!()
    };
    assert_eq!(socket.container_path, "/run/longshore/csi/ab12");
    assert_eq!(socket.host_path.as_deref(), Some("/run/longshore/csi/ab12"));
    for (volume, path) in [
        (root, "/var/lib/longshore/csi/t/n/mounts"),
        (target, "/target"),
    ] {
        assert_eq!(
            (volume.container_path.as_str(), volume.mode()),
            (path, Mode::Rw)
        );
        let source = volume.source.as_ref().unwrap();
        let host = source.host_path.as_ref().unwrap();
        assert_eq!(host.path, path);
        assert_eq!(
            host.mount_propagation.unwrap().mode(),
            Propagation::Bidirectional
        );
    }
}

#[test]
fn the_endpoint_is_expanded_in_value_and_arguments() {
    let uri = "unix:///s";
    for (text, expected) in [
        (
            "plugin --endpoint=$(CSI_ENDPOINT) -v",
            "plugin --endpoint=unix:///s -v",
        ),
        ("$CSI_ENDPOINT", "unix:///s"),
        ("${CSI_ENDPOINT}x$CSI_ENDPOINT", "unix:///sxunix:///s"),
        (
            "$CSI_ENDPOINTS $CSI_ENDPOINT_DIR",
            "$CSI_ENDPOINTS $CSI_ENDPOINT_DIR",
        ),
        ("$$ $(date) $ é$", "$$ $(date) $ é$"),
        ("$CSI_ENDPOINT/é", "unix:///s/é"),
    ] {
        assert_eq!(expanded(text, uri), expected);
    }
    let (request, _) = build(&info(), None);
    let argument = &request.command.unwrap().arguments[1];
    assert_eq!(
        argument,
        "--endpoint=unix:///run/longshore/csi/ab12/csi.sock"
    );
}

#[test]
fn the_hash_covers_the_whole_request_and_is_stable() {
    let (_, hash) = build(&info(), Some("agent-1"));
    assert_eq!(build(&info(), Some("agent-1")).1, hash);
    // A new agent id, another command, another socket are other requests.
    assert_ne!(build(&info(), Some("agent-2")).1, hash);
    let mut other = info();
    other
        .command
        .as_mut()
        .unwrap()
        .arguments
        .push("-v".to_owned());
    assert_ne!(build(&other, Some("agent-1")).1, hash);
    // A user's own LONGSHORE_LAUNCH_HASH cannot fake it.
    let mut fake = info();
    let environment = fake.command.as_mut().unwrap().environment.as_mut().unwrap();
    environment.variables.push(variable(LAUNCH_HASH, "00"));
    assert_eq!(build(&fake, Some("agent-1")).1, hash);
    assert_eq!(hash.to_string().len(), 64);
}
