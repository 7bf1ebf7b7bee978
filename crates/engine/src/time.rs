use std::fmt;
use std::time::{Duration, SystemTime};

/// A moment of the engine's clock: nanoseconds since 1970, UTC.
///
/// `Display` is `SECONDS.NANOSECONDS`, the form that the engine's `since` takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EngineTime(i64);

const NANOS: i64 = 1_000_000_000;

impl EngineTime {
    /// From nanoseconds since 1970.
    #[must_use]
    pub fn from_nanos(nanos: i64) -> Self {
        Self(nanos)
    }

    /// Nanoseconds since 1970.
    #[must_use]
    pub fn as_nanos(self) -> i64 {
        self.0
    }

    /// This machine's time, which is that of a local engine too.
    #[must_use]
    pub fn now() -> Self {
        SystemTime::now().into()
    }

    /// Earlier by `by`.
    #[must_use]
    pub fn before(self, by: Duration) -> Self {
        Self(self.0.saturating_sub(nanos(by)))
    }

    /// As engines write it; of years from 1970 on.
    #[cfg(feature = "fake")]
    pub(crate) fn to_rfc3339(self) -> String {
        let (seconds, nanos) = (self.0.div_euclid(NANOS), self.0.rem_euclid(NANOS));
        let (days, second) = (seconds.div_euclid(86_400), seconds.rem_euclid(86_400));
        // The last year, and the last month in it, that begins no later.
        let begun = |year, month| days_since_1970(year, month, 1) <= days;
        let mut year = 1970 + days / 366;
        while begun(year + 1, 1) {
            year += 1;
        }
        let month = (1..=12)
            .rev()
            .find(|month| begun(year, *month))
            .unwrap_or(1);
        let day = days - days_since_1970(year, month, 1) + 1;
        let (hour, minute) = (second / 3600, second / 60 % 60);
        let second = second % 60;
        format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{nanos:09}Z")
    }

    /// From RFC 3339 (`2026-11-30T18:12:36.5Z`), as engines write it. `None` for what is no such
    /// text, and for the year 1, which is Go's "never".
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let bytes = text.as_bytes();
        if !text.is_ascii() || bytes.len() < 20 {
            return None;
        }
        let number = |from: usize, to: usize| -> Option<i64> {
            let digits = &text[from..to];
            digits
                .bytes()
                .all(|byte| byte.is_ascii_digit())
                .then(|| digits.parse().ok())?
        };
        let marks = [(4, b'-'), (7, b'-'), (13, b':'), (16, b':')];
        if marks.iter().any(|&(at, mark)| bytes[at] != mark)
            || !matches!(bytes[10], b'T' | b't' | b' ')
        {
            return None;
        }
        let (year, month, day) = (number(0, 4)?, number(5, 7)?, number(8, 10)?);
        let (hour, minute, second) = (number(11, 13)?, number(14, 16)?, number(17, 19)?);
        let in_range = (1..=12).contains(&month)
            && (1..=31).contains(&day)
            && hour < 24
            && minute < 60
            && second <= 60;
        if !in_range || year <= 1 {
            return None;
        }
        let rest = &text[19..];
        let (fraction, zone) = match rest.strip_prefix('.') {
            Some(rest) => rest.split_at(rest.find(|c: char| !c.is_ascii_digit())?),
            None => ("", rest),
        };
        let mut nanos = 0;
        for index in 0..9 {
            let digit = fraction.as_bytes().get(index).map_or(0, |byte| byte - b'0');
            nanos = nanos * 10 + i64::from(digit);
        }
        let days = days_since_1970(year, month, day);
        let seconds = days * 86_400 + hour * 3600 + minute * 60 + second - offset(zone)?;
        seconds.checked_mul(NANOS)?.checked_add(nanos).map(Self)
    }
}

/// Seconds east of UTC: `Z`, `+01:00`.
fn offset(zone: &str) -> Option<i64> {
    if matches!(zone, "Z" | "z") {
        return Some(0);
    }
    let sign = match zone.as_bytes().first()? {
        b'+' => 1,
        b'-' => -1,
        _ => return None,
    };
    let (hours, minutes) = zone[1..].split_once(':')?;
    if hours.len() != 2 || minutes.len() != 2 {
        return None;
    }
    let (hours, minutes): (u8, u8) = (hours.parse().ok()?, minutes.parse().ok()?);
    Some(sign * (i64::from(hours) * 3600 + i64::from(minutes) * 60))
}

/// The civil calendar, by years that begin in March.
fn days_since_1970(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let year_of_era = year.rem_euclid(400);
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    era * 146_097 + day_of_era - 719_468
}

fn nanos(duration: Duration) -> i64 {
    i64::try_from(duration.as_nanos()).unwrap_or(i64::MAX)
}

impl From<SystemTime> for EngineTime {
    fn from(time: SystemTime) -> Self {
        match time.duration_since(SystemTime::UNIX_EPOCH) {
            Ok(after) => Self(nanos(after)),
            Err(before) => Self(-nanos(before.duration())),
        }
    }
}

impl From<EngineTime> for SystemTime {
    fn from(time: EngineTime) -> Self {
        let distance = Duration::from_nanos(time.0.unsigned_abs());
        if time.0 < 0 {
            Self::UNIX_EPOCH - distance
        } else {
            Self::UNIX_EPOCH + distance
        }
    }
}

impl fmt::Display for EngineTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // An engine takes no time before 1970.
        let nanos = self.0.max(0);
        write!(f, "{}.{:09}", nanos / NANOS, nanos % NANOS)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn times_are_read_as_engines_write_them() {
        for (text, expected) in [
            ("1970-01-01T00:00:00Z", Some(0)),
            ("1970-01-01T00:00:00.000000001Z", Some(1)),
            ("1970-01-01T01:00:00.5+01:00", Some(500_000_000)),
            ("1969-12-31T23:59:59Z", Some(-NANOS)),
            (
                "2026-11-30T18:12:36.123456789Z",
                Some(1_796_062_356_123_456_789),
            ),
            ("2024-02-29T00:00:00Z", Some(1_709_164_800 * NANOS)),
            ("0001-01-01T00:00:00Z", None),
            ("", None),
            ("2026-11-30", None),
            ("2026-11-30T18:12:36", None),
            ("2026-13-30T18:12:36Z", None),
            ("2026-11-30T18:12:36.Z", Some(1_796_062_356 * NANOS)),
            ("2026-11-30T18:12:3\u{e9}Z", None),
            ("9999-12-31T23:59:59Z", None),
        ] {
            assert_eq!(
                EngineTime::parse(text).map(EngineTime::as_nanos),
                expected,
                "{text}"
            );
        }
        assert_eq!(EngineTime(1_500_000_000).to_string(), "1.500000000");
    }

    #[cfg(feature = "fake")]
    proptest! {
        #[test]
        fn what_is_written_is_read(nanos in 0..4_102_444_800_000_000_000_i64) {
            let time = EngineTime(nanos);
            prop_assert_eq!(EngineTime::parse(&time.to_rfc3339()), Some(time));
        }
    }

    proptest! {
        #[test]
        fn no_text_makes_it_panic(text in "\\PC{0,40}|[0-9T:.Z+-]{0,40}") {
            let _ = EngineTime::parse(&text);
        }
    }
}
