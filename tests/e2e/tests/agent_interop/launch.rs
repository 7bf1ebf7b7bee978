use longshore_agent_client::{Launched, Waited};
use longshore_mesos_api::v1::agent::call::LaunchContainer;
use longshore_mesos_api::v1::{CommandInfo, Environment, Resource, environment, value};

use crate::target::{Target, appears, exited, run_to_end, shell, sleep};

pub(crate) async fn a_new_id_is_launched_and_a_second_launch_finds_it(t: &mut Target) {
    let (client, id) = (t.client(), t.id("dup"));
    assert_eq!(
        client.launch_container(sleep(&id)).await.unwrap(),
        Launched::New
    );
    for again in [sleep(&id), shell(&id, "true")] {
        let launched = client.launch_container(again).await.unwrap();
        assert_eq!(launched, Launched::AlreadyPresent);
    }
}

pub(crate) async fn of_three_launches_at_once_one_starts_the_container(t: &mut Target) {
    let (client, id) = (t.client(), t.id("three"));
    let (a, b, c) = tokio::join!(
        client.launch_container(sleep(&id)),
        client.launch_container(sleep(&id)),
        client.launch_container(sleep(&id)),
    );
    let launched = [a.unwrap(), b.unwrap(), c.unwrap()];
    let new = launched.iter().filter(|l| **l == Launched::New).count();
    assert_eq!(new, 1, "{launched:?}");
}

pub(crate) async fn a_finished_id_starts_anew(t: &mut Target) {
    let id = t.id("anew");
    for status in [3, 4, 5] {
        let exit = run_to_end(t, &id, &format!("exit {status}")).await;
        assert_eq!(exit.exit_status, Some(status << 8));
    }
}

pub(crate) async fn a_container_without_a_command_ends_at_once(t: &mut Target) {
    let (client, id) = (t.client(), t.id("bare"));
    let launch = LaunchContainer {
        container_id: id.clone(),
        ..LaunchContainer::default()
    };
    assert_eq!(
        client.launch_container(launch).await.unwrap(),
        Launched::New
    );
    match client.wait_container(&id).await.unwrap() {
        Waited::Exited(exit) => assert_eq!(exit.exit_status, Some(256)),
        // A real agent has forgotten it if the WAIT came too late.
        Waited::Unknown => assert!(t.is_real()),
    }
}

pub(crate) async fn a_program_that_is_not_there_shows_in_the_exit_status(t: &mut Target) {
    let id = t.id("shell-no-program");
    let exit = run_to_end(t, &id, "exec /no/such/program").await;
    assert_eq!(exit.exit_status, Some(127 << 8));

    let (client, id) = (t.client(), t.id("no-program"));
    let launch = LaunchContainer {
        container_id: id.clone(),
        command: Some(CommandInfo {
            shell: Some(false),
            value: Some("/no/such/program".to_owned()),
            ..CommandInfo::default()
        }),
        ..LaunchContainer::default()
    };
    assert_eq!(
        client.launch_container(launch).await.unwrap(),
        Launched::New
    );
    match client.wait_container(&id).await.unwrap() {
        Waited::Exited(exit) => assert_ne!(exit.exit_status, Some(0)),
        Waited::Unknown => assert!(t.is_real()),
    }
}

pub(crate) async fn an_environment_that_is_too_long_shows_in_the_exit_status(t: &mut Target) {
    let (client, id) = (t.client(), t.id("long-env"));
    let mut launch = sleep(&id);
    // The kernel takes at most 128 KiB in one string.
    launch.command.as_mut().unwrap().environment = Some(Environment {
        variables: vec![environment::Variable {
            name: "LONG".to_owned(),
            value: Some("x".repeat(140_000)),
            ..environment::Variable::default()
        }],
    });
    assert_eq!(
        client.launch_container(launch).await.unwrap(),
        Launched::New
    );
    match client.wait_container(&id).await.unwrap() {
        Waited::Exited(exit) => assert_ne!(exit.exit_status, Some(0)),
        Waited::Unknown => assert!(t.is_real()),
    }
}

pub(crate) async fn resources_are_optional_and_not_checked_against_the_agent(t: &mut Target) {
    let (client, id) = (t.client(), t.id("resources"));
    let scalar = |name: &str, amount: f64| Resource {
        name: name.to_owned(),
        r#type: value::Type::Scalar.into(),
        scalar: Some(value::Scalar { value: amount }),
        ..Resource::default()
    };
    let launch = LaunchContainer {
        resources: vec![scalar("cpus", 1000.0), scalar("mem", 64.0)],
        limits: [("mem".to_owned(), value::Scalar { value: 128.0 })].into(),
        ..sleep(&id)
    };
    assert_eq!(
        client.launch_container(launch).await.unwrap(),
        Launched::New
    );
}

pub(crate) async fn the_environment_is_what_is_given_and_the_sandbox_is_the_working_directory(
    t: &mut Target,
) {
    let (client, id, out) = (t.client(), t.id("env"), t.path("env"));
    let report = format!(
        "{{ env; echo CWD=$(pwd); echo UMASK=$(umask); }} > {0}.part && mv {0}.part {0}; exec sleep 1000",
        out.display()
    );
    let mut launch = shell(&id, &report);
    launch.command.as_mut().unwrap().environment = Some(Environment {
        variables: vec![environment::Variable {
            name: "GREETING".to_owned(),
            value: Some("hello world".to_owned()),
            ..environment::Variable::default()
        }],
    });
    client.launch_container(launch).await.unwrap();
    appears(&out).await;
    let report = std::fs::read_to_string(&out).unwrap();
    let of = |name: &str| {
        let lines = &mut report.lines();
        let found = lines.find_map(|line| line.strip_prefix(&format!("{name}=")));
        found.map(str::to_owned)
    };
    assert_eq!(of("GREETING").as_deref(), Some("hello world"));
    assert!(
        of("PATH").is_some_and(|path| path.contains("/bin")),
        "{report}"
    );
    let sandbox = of("MESOS_SANDBOX").expect("MESOS_SANDBOX is set");
    assert_eq!(of("CWD"), Some(sandbox.clone()));
    assert_eq!(std::path::Path::new(&sandbox), t.sandbox(&id));
    assert_eq!(of("UMASK").as_deref(), Some("0022"));
}

pub(crate) async fn the_agents_own_environment_is_not_inherited(t: &mut Target) {
    /// What an agent gives, and what a shell sets by itself.
    const GIVEN: [&str; 6] = ["MESOS_SANDBOX", "OLDPWD", "PATH", "PWD", "SHLVL", "_"];
    let id = t.id("own-env");
    let exit = run_to_end(t, &id, "env").await;
    assert_eq!(exit.exit_status, Some(0));
    let env = std::fs::read_to_string(t.sandbox(&id).join("stdout")).unwrap();
    assert!(env.lines().any(|line| line.starts_with("PATH=")), "{env}");
    for line in env.lines() {
        let (name, _) = line.split_once('=').unwrap();
        assert!(GIVEN.contains(&name), "{line}");
    }
}

pub(crate) async fn output_goes_to_files_in_the_sandbox(t: &mut Target) {
    let id = t.id("output");
    run_to_end(
        t,
        &id,
        "echo to stdout; echo to stderr >&2; read line || echo no input",
    )
    .await;
    let read = |name| std::fs::read_to_string(t.sandbox(&id).join(name)).unwrap();
    assert_eq!(read("stdout"), "to stdout\nno input\n");
    assert!(read("stderr").contains("to stderr\n"));
}

pub(crate) async fn an_unknown_user_is_a_500(t: &mut Target) {
    let (client, id) = (t.client(), t.id("user"));
    let mut launch = sleep(&id);
    launch.command.as_mut().unwrap().user = Some("no-such-user".to_owned());
    let error = client.launch_container(launch).await.unwrap_err();
    assert_eq!(error.status(), Some(500), "{error}");
    assert!(error.to_string().contains("no-such-user"), "{error}");
    assert_eq!(client.wait_container(&id).await.unwrap(), Waited::Unknown);
}

pub(crate) async fn aa4_a_launch_that_fails_leaves_nothing(t: &mut Target) {
    let (client, parent) = (t.client(), t.id("fetch"));
    client.launch_container(sleep(&parent)).await.unwrap();
    for id in [t.id("fetch-top"), crate::target::nested(&parent, "child")] {
        let mut launch = sleep(&id);
        let command: &mut CommandInfo = launch.command.as_mut().unwrap();
        command.uris = vec![longshore_mesos_api::v1::command_info::Uri {
            value: "file:///no/such/file/to/be/fetched".to_owned(),
            ..Default::default()
        }];
        let error = client.launch_container(launch).await.unwrap_err();
        assert_eq!(error.status(), Some(400), "{error}");
        match client.wait_container(&id).await.unwrap() {
            Waited::Unknown => {}
            // For a moment a real agent still tells how what it destroyed has ended, and a nested
            // one it tells always.
            waited @ Waited::Exited(_) => {
                assert!(t.is_real());
                assert_ne!(exited(waited).exit_status, Some(0));
            }
        }
        let again = client.launch_container(sleep(&id)).await.unwrap();
        assert_eq!(again, Launched::New);
    }
}
