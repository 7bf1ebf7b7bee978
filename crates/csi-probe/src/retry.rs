//! How long to wait between two tries: pure sequences.

use std::time::Duration;

/// The pauses after a refused connection, in milliseconds: between `bind` and `listen` lie microseconds, so the
/// first ones are short; the last one is Mesos' polling interval and stays.
const REFUSED_MS: [u64; 8] = [1, 1, 2, 2, 4, 4, 8, 10];

/// Pauses of one wait. A remote port gets ten times as much as a socket of this host.
#[derive(Clone, Debug, Default)]
pub(crate) struct Pauses {
    refused: usize,
    unready: u32,
}

impl Pauses {
    /// After ECONNREFUSED: 1, 1, 2, 2, 4, 4, 8, 10, 10 … ms.
    pub(crate) fn refused(&mut self, remote: bool) -> Duration {
        let last = REFUSED_MS.len() - 1;
        let pause = REFUSED_MS[self.refused.min(last)];
        self.refused = (self.refused + 1).min(last);
        Duration::from_millis(if remote { pause * 10 } else { pause })
    }

    /// After "not ready", UNAVAILABLE or a connection that ended: 5, 10, 20 … 250 ms.
    pub(crate) fn unready(&mut self) -> Duration {
        let pause = Duration::from_millis(5) * (1 << self.unready);
        self.unready = (self.unready + 1).min(6);
        pause.min(Duration::from_millis(250))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refused_connection_is_tried_again_at_1_1_2_2_4_up_to_10_ms() {
        let mut pauses = Pauses::default();
        let got: Vec<u128> = (0..11).map(|_| pauses.refused(false).as_millis()).collect();
        assert_eq!(got, [1, 1, 2, 2, 4, 4, 8, 10, 10, 10, 10]);
        assert_eq!(Pauses::default().refused(true).as_millis(), 10);
    }

    #[test]
    fn an_unready_plugin_is_asked_again_more_and_more_slowly() {
        let mut pauses = Pauses::default();
        let got: Vec<u128> = (0..9).map(|_| pauses.unready().as_millis()).collect();
        assert_eq!(got, [5, 10, 20, 40, 80, 160, 250, 250, 250]);
    }
}
