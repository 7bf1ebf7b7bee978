//! Checks from `mesos.v1` messages, validated by Mesos' rules; what they find as messages. Feature `mesos`.

use longshore_mesos_api::v1::network_info::Protocol;
use longshore_mesos_api::v1::{
    CheckInfo, CheckStatusInfo, CommandInfo, check_info, check_status_info, health_check,
};
use longshore_mesos_api::{v1, variables};

use crate::{
    CheckStatus, CommandProbe, Family, HealthError, HealthPolicy, HttpProbe, Probe, Scheme,
    TcpProbe, Timing, seconds,
};

/// What a `HealthCheck` asks and what it forgives.
///
/// A missing `type` is that of the one payload there is; old schedulers send none.
///
/// # Errors
/// What is missing, contradictory or out of range, with the field and the value.
pub fn health_check(check: &v1::HealthCheck) -> Result<(Probe, HealthPolicy), HealthError> {
    use health_check::Type;
    const MESSAGE: &str = "HealthCheck";
    let payloads = [
        (Type::Command, check.command.is_some()),
        (Type::Http, check.http.is_some()),
        (Type::Tcp, check.tcp.is_some()),
    ];
    let kind = match check.r#type.map(Type::try_from) {
        Some(Ok(kind)) if kind != Type::Unknown => kind,
        Some(_) => return Err(unknown_type(MESSAGE, check.r#type)),
        None => {
            only(payloads).ok_or_else(|| refuse(MESSAGE, "it must specify 'type'".to_owned()))?
        }
    };
    let probe = match (kind, &check.command, &check.http, &check.tcp) {
        (Type::Command, Some(command), ..) => Probe::Command(command_probe(MESSAGE, command)?),
        (Type::Http, _, Some(http), _) => {
            let mut probe = HttpProbe::new(http.port, http.path(), &http.statuses)?;
            probe.scheme = scheme(MESSAGE, http.scheme.as_deref())?;
            probe.family = family(MESSAGE, "http", http.protocol)?;
            Probe::Http(probe)
        }
        (Type::Tcp, .., Some(tcp)) => Probe::Tcp(TcpProbe::new(
            tcp.port,
            family(MESSAGE, "tcp", tcp.protocol)?,
        )?),
        (kind, ..) => return Err(no_payload(MESSAGE, kind.as_str_name())),
    };
    let policy = HealthPolicy {
        timing: Timing {
            delay: seconds("delay_seconds", check.delay_seconds())?,
            interval: seconds("interval_seconds", check.interval_seconds())?,
            timeout: seconds("timeout_seconds", check.timeout_seconds())?,
        },
        consecutive_failures: check.consecutive_failures(),
        grace_period: seconds("grace_period_seconds", check.grace_period_seconds())?,
    };
    Ok((probe, policy))
}

/// What a `CheckInfo` asks, and when.
///
/// # Errors
/// As [`health_check()`].
pub fn check(check: &CheckInfo) -> Result<(Probe, Timing), HealthError> {
    use check_info::Type;
    const MESSAGE: &str = "CheckInfo";
    let kind = match check.r#type.map(Type::try_from) {
        Some(Ok(kind)) if kind != Type::Unknown => kind,
        Some(_) => return Err(unknown_type(MESSAGE, check.r#type)),
        None => return Err(refuse(MESSAGE, "it must specify 'type'".to_owned())),
    };
    let probe = match (kind, &check.command, &check.http, &check.tcp) {
        (Type::Command, Some(command), ..) => {
            Probe::Command(command_probe(MESSAGE, &command.command)?)
        }
        (Type::Http, _, Some(http), _) => Probe::Http(HttpProbe::new(http.port, http.path(), &[])?),
        (Type::Tcp, .., Some(tcp)) => Probe::Tcp(TcpProbe::new(tcp.port, Family::V4)?),
        (kind, ..) => return Err(no_payload(MESSAGE, kind.as_str_name())),
    };
    let timing = Timing {
        delay: seconds("delay_seconds", check.delay_seconds())?,
        interval: seconds("interval_seconds", check.interval_seconds())?,
        timeout: seconds("timeout_seconds", check.timeout_seconds())?,
    };
    Ok((probe, timing))
}

/// What a check found, as a message.
#[must_use]
pub fn check_status(status: CheckStatus) -> CheckStatusInfo {
    let mut info = CheckStatusInfo::default();
    match status {
        CheckStatus::Command(exit_code) => {
            info.set_type(check_info::Type::Command);
            info.command = Some(check_status_info::Command { exit_code });
        }
        CheckStatus::Http(status) => {
            info.set_type(check_info::Type::Http);
            let status_code = status.map(u32::from);
            info.http = Some(check_status_info::Http { status_code });
        }
        CheckStatus::Tcp(succeeded) => {
            info.set_type(check_info::Type::Tcp);
            info.tcp = Some(check_status_info::Tcp { succeeded });
        }
    }
    info
}

/// Whether a `CheckStatusInfo` says what its type promises.
///
/// # Errors
/// What is missing or contradictory.
pub fn validate_check_status(info: &CheckStatusInfo) -> Result<(), HealthError> {
    use check_info::Type;
    const MESSAGE: &str = "CheckStatusInfo";
    let set = match info.r#type.map(Type::try_from) {
        None => return Err(refuse(MESSAGE, "it must specify 'type'".to_owned())),
        Some(Ok(Type::Command)) => info.command.is_some(),
        Some(Ok(Type::Http)) => info.http.is_some(),
        Some(Ok(Type::Tcp)) => info.tcp.is_some(),
        Some(Ok(Type::Unknown) | Err(_)) => return Err(unknown_type(MESSAGE, info.r#type)),
    };
    if set {
        Ok(())
    } else {
        Err(no_payload(MESSAGE, info.r#type().as_str_name()))
    }
}

fn command_probe(
    message: &'static str,
    command: &CommandInfo,
) -> Result<CommandProbe, HealthError> {
    let value = command.value.as_deref().filter(|value| !value.is_empty());
    let mut probe = if command.shell() {
        let line = value.ok_or_else(|| {
            refuse(
                message,
                "'command.value' must be the line for the shell, since 'command.shell' is true"
                    .to_owned(),
            )
        })?;
        CommandProbe::shell(line)?
    } else {
        let program = value.ok_or_else(|| {
            refuse(
                message,
                "'command.value' must be the program, since 'command.shell' is false".to_owned(),
            )
        })?;
        CommandProbe::exec(exec(program, &command.arguments))?
    };
    probe.environment = variables(command.environment.as_ref())
        .map_err(|error| refuse(message, format!("'command.environment': {error}")))?;
    probe.user.clone_from(&command.user);
    Ok(probe)
}

/// Mesos gives the value and then the arguments to `docker exec`, so the value is the program and no argument its name.
fn exec(program: &str, arguments: &[String]) -> Vec<String> {
    let mut argv = vec![program.to_owned()];
    argv.extend_from_slice(arguments);
    argv
}

fn scheme(message: &'static str, scheme: Option<&str>) -> Result<Scheme, HealthError> {
    match scheme {
        None | Some("http") => Ok(Scheme::Http),
        Some("https") => Ok(Scheme::Https),
        Some(other) => {
            let shown: String = other.chars().take(64).collect();
            Err(refuse(
                message,
                format!("'http.scheme' {shown:?} is neither \"http\" nor \"https\""),
            ))
        }
    }
}

fn family(
    message: &'static str,
    payload: &str,
    protocol: Option<i32>,
) -> Result<Family, HealthError> {
    match protocol.map(Protocol::try_from) {
        None | Some(Ok(Protocol::IPv4)) => Ok(Family::V4),
        Some(Ok(Protocol::IPv6)) => Ok(Family::V6),
        Some(Err(_)) => {
            let number = protocol.unwrap_or_default();
            Err(refuse(
                message,
                format!("'{payload}.protocol' {number} is neither IPv4 nor IPv6"),
            ))
        }
    }
}

fn only<T: Copy, const N: usize>(payloads: [(T, bool); N]) -> Option<T> {
    let mut set = payloads.into_iter().filter(|(_, set)| *set);
    match (set.next(), set.next()) {
        (Some((kind, _)), None) => Some(kind),
        _ => None,
    }
}

fn unknown_type(message: &'static str, given: Option<i32>) -> HealthError {
    let number = given.unwrap_or_default();
    refuse(
        message,
        format!("'type' {number} is none of COMMAND, HTTP and TCP"),
    )
}

fn no_payload(message: &'static str, kind: &str) -> HealthError {
    let field = kind.to_ascii_lowercase();
    refuse(
        message,
        format!("'{field}' must be set, since 'type' is {kind}"),
    )
}

const fn refuse(message: &'static str, problem: String) -> HealthError {
    HealthError::Message { message, problem }
}

#[cfg(test)]
mod tests;
