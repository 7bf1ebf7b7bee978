//! Durations as Mesos writes them in flags and variables: `15mins`, `2.5secs`, `250ms`.

use std::time::Duration;

/// Why a text is no duration.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DurationError {
    /// The unit is missing or unknown.
    #[error("it has no unit of ns, us, ms, secs, mins, hrs, days, weeks")]
    Unit,
    /// What stands before the unit is no number.
    #[error("it does not begin with a number")]
    Number,
    /// Time does not run backwards.
    #[error("it is negative")]
    Negative,
    /// Longer than Mesos can count, some 292 years.
    #[error("it is longer than 292 years")]
    TooLong,
}

/// Seconds in each unit.
const UNITS: &[(&str, f64)] = &[
    ("ns", 1e-9),
    ("us", 1e-6),
    ("ms", 1e-3),
    ("secs", 1.0),
    ("mins", 60.0),
    ("hrs", 3600.0),
    ("days", 86_400.0),
    ("weeks", 604_800.0),
];

/// The longest duration of Mesos: its nanoseconds are a signed 64-bit number.
const MAX_SECONDS: f64 = 9_223_372_036.0;

/// Reads a number and its unit, without a space between them.
///
/// # Errors
/// [`DurationError`]; the text is not part of it.
pub fn parse_duration(text: &str) -> Result<Duration, DurationError> {
    // Rust reads `inf`, `nan` and exponents too; Mesos writes none.
    let is_number = |c: char| c.is_ascii_digit() || ".-+".contains(c);
    let end = text.find(|c| !is_number(c)).unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    let unit = UNITS.iter().find(|(name, _)| *name == unit);
    let unit = unit.ok_or(DurationError::Unit)?.1;
    let seconds = match number.parse::<f64>() {
        Ok(number) => number * unit,
        Err(_) => return Err(DurationError::Number),
    };
    if seconds < 0.0 {
        return Err(DurationError::Negative);
    }
    if seconds > MAX_SECONDS {
        return Err(DurationError::TooLong);
    }
    let rounded = Duration::try_from_secs_f64(seconds).map_err(|_| DurationError::TooLong)?;
    Ok(rounded)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_unit_is_read() {
        for (text, expected) in [
            ("0ns", Duration::ZERO),
            ("100ns", Duration::from_nanos(100)),
            ("7us", Duration::from_micros(7)),
            ("250ms", Duration::from_millis(250)),
            ("5secs", Duration::from_secs(5)),
            ("2.5secs", Duration::from_millis(2500)),
            ("15mins", Duration::from_secs(900)),
            ("0.5mins", Duration::from_secs(30)),
            ("1hrs", Duration::from_secs(3600)),
            ("2days", Duration::from_secs(172_800)),
            ("1weeks", Duration::from_secs(604_800)),
            (".5secs", Duration::from_millis(500)),
        ] {
            assert_eq!(parse_duration(text), Ok(expected), "{text}");
        }
    }

    #[test]
    fn what_is_no_duration_is_refused() {
        for (text, expected) in [
            ("", DurationError::Unit),
            ("5", DurationError::Unit),
            ("5s", DurationError::Unit),
            ("5 secs ", DurationError::Unit),
            ("5SECS", DurationError::Unit),
            ("5 secs", DurationError::Unit),
            ("secs", DurationError::Number),
            ("ms", DurationError::Number),
            ("1.2.3secs", DurationError::Number),
            ("infsecs", DurationError::Unit),
            ("nansecs", DurationError::Unit),
            ("1e3secs", DurationError::Unit),
            ("-1secs", DurationError::Negative),
            ("16000weeks", DurationError::TooLong),
            ("99999999999999999999999secs", DurationError::TooLong),
        ] {
            assert_eq!(parse_duration(text), Err(expected), "{text}");
        }
    }

    proptest::proptest! {
        #[test]
        fn no_text_makes_it_panic(text in "[-+0-9.einfa]{0,30}(ns|us|ms|secs|mins|hrs|days|weeks|)") {
            if let Ok(duration) = parse_duration(&text) {
                proptest::prop_assert!(duration.as_secs_f64() <= MAX_SECONDS);
            }
        }
    }
}
