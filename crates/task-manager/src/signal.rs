//! Signals by name or number.

use std::str::FromStr as _;

use nix::sys::signal::Signal;

use crate::TaskManagerError;

/// The highest number of a real-time signal.
const HIGHEST: i32 = 64;

/// A signal as the engine takes it: `SIGHUP`, or a number that has no name.
pub(crate) fn parse(text: &str) -> Result<String, TaskManagerError> {
    let refused = || TaskManagerError::Signal {
        signal: text.chars().take(32).collect(),
    };
    if text.is_empty() {
        return Ok("SIGKILL".to_owned());
    }
    if text.bytes().all(|byte| byte.is_ascii_digit()) {
        let number: i32 = text.parse().map_err(|_| refused())?;
        return match Signal::try_from(number) {
            Ok(signal) => Ok(signal.as_str().to_owned()),
            Err(_) if (1..=HIGHEST).contains(&number) => Ok(number.to_string()),
            Err(_) => Err(refused()),
        };
    }
    let upper = text.to_ascii_uppercase();
    let name = upper.strip_prefix("SIG").unwrap_or(&upper);
    let signal = Signal::from_str(&format!("SIG{name}")).map_err(|_| refused())?;
    Ok(signal.as_str().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signals_have_names_and_numbers() {
        for (text, signal) in [
            ("", "SIGKILL"),
            ("KILL", "SIGKILL"),
            ("9", "SIGKILL"),
            ("hup", "SIGHUP"),
            ("SIGUSR1", "SIGUSR1"),
            ("sigterm", "SIGTERM"),
            ("40", "40"),
        ] {
            assert_eq!(parse(text).unwrap(), signal, "{text}");
        }
        for text in ["0", "65", "-9", "SIGNO", "9 9", "99999999999", "é"] {
            let error = parse(text).unwrap_err().to_string();
            assert!(error.contains(text), "{error}");
        }
    }
}
