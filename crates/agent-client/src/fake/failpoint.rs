use longshore_mesos_api::v1::agent::call::Type;

/// How a call goes wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Failpoint {
    /// This status with this text; the call is not performed.
    Status(u16, String),
    /// The call is not performed and never answered; the connection stays open.
    Hang,
    /// The call is performed and never answered.
    HangAfter,
    /// The connection is closed without an answer; the call is not performed.
    Close,
    /// The connection is closed without an answer, after the call was performed.
    CloseAfter,
    /// The call is performed; the connection is closed after this many bytes of the answer.
    CutAfter(usize),
    /// A 200 that announces this many bytes, followed by a few.
    Announce(u64),
    /// A 200 without announced length, followed by this many bytes.
    Flood(u64),
    /// These bytes instead of an answer.
    Raw(Vec<u8>),
}

impl Failpoint {
    /// [`Failpoint::Status`].
    #[must_use]
    pub fn status(status: u16, text: &str) -> Self {
        Self::Status(status, text.to_owned())
    }

    /// A whole HTTP answer: 200 with this content type and body.
    #[must_use]
    pub fn body(content_type: &str, body: &[u8]) -> Self {
        let mut raw = format!(
            "HTTP/1.1 200 OK\r\nContent-Type: {content_type}\r\nContent-Length: {}\r\n\r\n",
            body.len()
        )
        .into_bytes();
        raw.extend_from_slice(body);
        Self::Raw(raw)
    }

    pub(super) fn performs(&self) -> bool {
        matches!(self, Self::HangAfter | Self::CloseAfter | Self::CutAfter(_))
    }
}

/// Failpoints waiting for their call.
#[derive(Debug, Default)]
pub(super) struct Failpoints {
    armed: Vec<Armed>,
}

#[derive(Debug)]
struct Armed {
    kind: Option<Type>,
    /// Calls of this kind until it fires, 1 is the next.
    calls_left: usize,
    failpoint: Failpoint,
}

impl Failpoints {
    pub(super) fn arm(&mut self, kind: Option<Type>, nth: usize, failpoint: Failpoint) {
        self.armed.push(Armed {
            kind,
            calls_left: nth.max(1),
            failpoint,
        });
    }

    /// Counts one call; the first failpoint that it completes fires and is spent.
    pub(super) fn hit(&mut self, kind: Type) -> Option<Failpoint> {
        for armed in &mut self.armed {
            if armed.kind.is_none_or(|wanted| wanted == kind) {
                armed.calls_left = armed.calls_left.saturating_sub(1);
            }
        }
        let fired = self.armed.iter().position(|armed| armed.calls_left == 0)?;
        Some(self.armed.remove(fired).failpoint)
    }

    pub(super) fn clear(&mut self) {
        self.armed.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failpoint_fires_on_the_nth_call_of_its_type_and_once() {
        let mut failpoints = Failpoints::default();
        failpoints.arm(Some(Type::GetHealth), 2, Failpoint::Hang);
        failpoints.arm(None, 4, Failpoint::Close);
        let fired = [
            Type::GetHealth,
            Type::GetAgent,
            Type::GetHealth,
            Type::GetAgent,
        ]
        .map(|kind| failpoints.hit(kind));
        assert_eq!(
            fired,
            [None, None, Some(Failpoint::Hang), Some(Failpoint::Close)]
        );
        assert_eq!(failpoints.hit(Type::GetHealth), None);
    }
}
