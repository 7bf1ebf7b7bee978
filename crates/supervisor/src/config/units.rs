//! Lengths of time (`5s`, `500ms`) and sizes (`64MiB`) as the configuration writes them.

use std::fmt;
use std::time::Duration;

use serde::de::{Error as _, Visitor};
use serde::{Deserialize, Deserializer};

/// A length of time: a whole number with one of the units `ms`, `s`, `m`, `h`, `d`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Span(pub(crate) Duration);

/// A size in bytes: a number alone, or with `KiB`, `MiB`, `GiB` (or `B`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Size(pub(crate) u64);

/// The longest length of time a configuration may name: ten years.
const SPAN_MAX: Duration = Duration::from_secs(10 * 365 * 86_400);

/// Reads a length of time such as `500ms`, `5s`, `2m`, `1h` or `7d`.
///
/// # Errors
/// A sentence fragment that says what is wrong and what the form is.
pub fn parse_duration(text: &str) -> Result<Duration, String> {
    let (number, unit) = split(text);
    let millis = match unit {
        "ms" => 1,
        "s" => 1_000,
        "m" => 60_000,
        "h" => 3_600_000,
        "d" => 86_400_000,
        "" => return Err(format!("`{text}` has no unit, write it like `{text}s`")),
        _ => {
            return Err(format!(
                "`{text}` is no length of time, write it like `5s`, `500ms` or `2m`"
            ));
        }
    };
    number
        .parse::<u64>()
        .ok()
        .and_then(|number| number.checked_mul(millis))
        .map(Duration::from_millis)
        .filter(|span| *span <= SPAN_MAX)
        .ok_or_else(|| {
            format!("`{text}` is no length of time, write it like `5s`, `500ms` or `2m`")
        })
}

/// Reads a size such as `4096`, `64KiB`, `8MiB` or `1GiB`.
///
/// # Errors
/// A sentence fragment that says what is wrong and what the form is.
pub fn parse_size(text: &str) -> Result<u64, String> {
    let (number, unit) = split(text);
    let factor = match unit {
        "" | "B" => Some(1u64),
        "KiB" => Some(1 << 10),
        "MiB" => Some(1 << 20),
        "GiB" => Some(1 << 30),
        _ => None,
    };
    factor
        .zip(number.parse::<u64>().ok())
        .and_then(|(factor, number)| number.checked_mul(factor))
        .ok_or_else(|| format!("`{text}` is no size, write it like `4096`, `64MiB` or `1GiB`"))
}

fn split(text: &str) -> (&str, &str) {
    let text = text.trim();
    let end = text
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(text.len());
    (&text[..end], text[end..].trim_start())
}

/// A length of time in the largest unit that divides it.
#[must_use]
pub fn format_duration(span: Duration) -> String {
    let millis = span.as_millis();
    let units = [
        (86_400_000, "d"),
        (3_600_000, "h"),
        (60_000, "m"),
        (1_000, "s"),
    ];
    if millis == 0 {
        return "0s".to_owned();
    }
    units
        .iter()
        .find(|(factor, _)| millis.is_multiple_of(*factor))
        .map_or_else(
            || format!("{millis}ms"),
            |(factor, unit)| format!("{}{unit}", millis / factor),
        )
}

impl<'de> Deserialize<'de> for Span {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct V;
        impl Visitor<'_> for V {
            type Value = Span;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a length of time like \"5s\"")
            }
            fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Span, E> {
                parse_duration(text).map(Span).map_err(E::custom)
            }
        }
        deserializer.deserialize_str(V)
    }
}

impl<'de> Deserialize<'de> for Size {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct V;
        impl Visitor<'_> for V {
            type Value = Size;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a size like 4096 or \"64MiB\"")
            }
            fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Size, E> {
                parse_size(text).map(Size).map_err(E::custom)
            }
            fn visit_i64<E: serde::de::Error>(self, number: i64) -> Result<Size, E> {
                u64::try_from(number)
                    .map(Size)
                    .map_err(|_| E::custom("a size cannot be negative"))
            }
            fn visit_u64<E: serde::de::Error>(self, number: u64) -> Result<Size, E> {
                Ok(Size(number))
            }
        }
        deserializer.deserialize_any(V).map_err(D::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_of_time_are_read_and_written() {
        for (text, millis, written) in [
            ("500ms", 500, "500ms"),
            ("5s", 5_000, "5s"),
            ("90s", 90_000, "90s"),
            ("120s", 120_000, "2m"),
            ("1h", 3_600_000, "1h"),
            ("7d", 604_800_000, "7d"),
            (" 3 s ", 3_000, "3s"),
            ("0s", 0, "0s"),
        ] {
            let span = parse_duration(text).unwrap();
            assert_eq!(span, Duration::from_millis(millis), "{text}");
            assert_eq!(format_duration(span), written, "{text}");
        }
    }

    #[test]
    fn what_is_no_length_of_time_is_refused_with_the_form() {
        for text in [
            "",
            "5",
            "s",
            "-5s",
            "5 years",
            "1.5s",
            "99999999999999999999s",
            "4000000d",
        ] {
            let error = parse_duration(text).unwrap_err();
            assert!(error.contains("write it like"), "{text}: {error}");
        }
    }

    #[test]
    fn sizes_are_read() {
        for (text, bytes) in [
            ("0", 0),
            ("4096", 4096),
            ("64KiB", 65_536),
            ("1 GiB", 1 << 30),
            ("7B", 7),
        ] {
            assert_eq!(parse_size(text), Ok(bytes), "{text}");
        }
        for text in ["", "MiB", "1MB", "1.5GiB", "99999999999GiB"] {
            parse_size(text).unwrap_err();
        }
    }
}
