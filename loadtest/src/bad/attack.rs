//! The attacks by name, and how each has to end.

use std::fmt;

use tenure_shared::codes::CloseCode;

use crate::net::Cause;

/// How a connection ended, as the bad client saw it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Seen {
    /// A close frame with this code.
    Closed(u16),
    /// End of file or a reset, without a close frame.
    Cut,
    /// The server refused the upgrade with this status.
    Status(u16),
    /// Nothing happened within the attack's patience.
    StillOpen,
}

impl fmt::Display for Seen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Seen::Closed(code) => write!(f, "close {code}"),
            Seen::Cut => f.write_str("cut"),
            Seen::Status(status) => write!(f, "status {status}"),
            Seen::StillOpen => f.write_str("still open"),
        }
    }
}

/// What the end of a try amounts to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Judgement {
    Met,
    Wrong,
    TurnedAway,
}

/// How an attack has to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Expect {
    /// With one of these close codes. Where the server ends a connection while bytes are still coming, TCP may throw
    /// its close frame away: then a cut is as good.
    Close { codes: &'static [u16], cut: bool },
    /// Without a close frame, before there is a WebSocket; a status of 400 to 499 is as good.
    Door,
    /// However the server likes, as long as the others are not disturbed.
    Anything,
}

macro_rules! attacks {
    ($($(#[$doc:meta])* $variant:ident: $name:literal,)*) => {
        /// What a bad client does.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(crate) enum Attack {
            $($(#[$doc])* $variant,)*
        }
        impl Attack {
            /// Every attack.
            pub(crate) const ALL: &'static [Attack] = &[$(Attack::$variant,)*];
            /// Its name in reports.
            pub(crate) fn name(self) -> &'static str {
                match self { $(Attack::$variant => $name,)* }
            }
        }
    };
}

attacks! {
    /// Joins and never reads (docs/invariants.md C40).
    NeverReads: "never reads",
    /// Joins and reads 1 kB a second.
    ReadsSlowly: "reads 1 kB/s",
    /// Logs in and falls silent; pings stay unanswered (docs/invariants.md C41).
    HalfOpen: "half-open",
    /// Opens a connection and says nothing.
    SaysNothing: "says nothing",
    /// Opens a WebSocket and never logs in.
    NeverLogsIn: "never logs in",
    /// A frame header that claims 2^32 bytes, before login (docs/invariants.md C42).
    Claims32: "claims 2^32 bytes",
    /// A frame header that claims 2^63 - 1 bytes.
    Claims63: "claims 2^63 - 1 bytes",
    /// 10 000 fragments without an end.
    Fragments: "10 000 fragments",
    /// A message above the limit, after login.
    TooLong: "message above the limit",
    /// 100 000 nested arrays (docs/invariants.md C59).
    Deep: "100 000 nested arrays",
    /// Nested arrays in a message of legal size.
    DeepShort: "900 nested arrays",
    /// Five bytes that claim four billion elements (docs/invariants.md C60).
    FalseLength: "false lengths",
    /// A text message.
    Text: "text message",
    /// Text that is not UTF-8, inside a message.
    BadUtf8: "bad UTF-8",
    /// Pings without end, reading nothing.
    PingFlood: "ping flood",
    /// Messages without end.
    MessageFlood: "message flood",
    /// Random bytes before login.
    Garbage: "garbage before login",
    /// A steer before login.
    BeforeLogin: "message before login",
    /// A second hello.
    HelloTwice: "hello twice",
    /// An Origin that is on no list (docs/invariants.md C44).
    WrongOrigin: "wrong origin",
    /// Message 5 after message 1 (H4).
    SeqGap: "sequence gap",
    /// A frame without a mask, which clients must not send.
    Unmasked: "unmasked frame",
    /// Bytes that are no HTTP.
    NoHttp: "no HTTP",
}

const TOO_BIG: u16 = CloseCode::TooBig as u16;
const BROKEN: u16 = CloseCode::ProtocolError as u16;
const SLOW: u16 = CloseCode::SlowConsumer as u16;
const LIMITED: u16 = CloseCode::RateLimited as u16;
const NO_LOGIN: u16 = CloseCode::Unauthorised as u16;
/// RFC 6455: protocol error, and invalid payload.
const WS_BROKEN: u16 = 1002;
const WS_PAYLOAD: u16 = 1007;
/// Close codes of a server that has too many sockets.
const LATER: [u16; 2] = [CloseCode::TryLater as u16, CloseCode::MayRetry as u16];

impl Attack {
    fn expects(self) -> Expect {
        let close = |codes| Expect::Close { codes, cut: false };
        let close_or_cut = |codes| Expect::Close { codes, cut: true };
        match self {
            Attack::NeverReads | Attack::ReadsSlowly => close_or_cut(&[SLOW]),
            Attack::HalfOpen => close_or_cut(&[BROKEN, 1001, 1011, SLOW]),
            Attack::SaysNothing | Attack::NoHttp => Expect::Door,
            Attack::NeverLogsIn => close_or_cut(&[NO_LOGIN, BROKEN]),
            Attack::Claims32 | Attack::TooLong | Attack::Fragments => close_or_cut(&[TOO_BIG]),
            Attack::Claims63 => close_or_cut(&[TOO_BIG, WS_BROKEN]),
            Attack::Deep => close_or_cut(&[TOO_BIG, BROKEN]),
            Attack::DeepShort | Attack::FalseLength | Attack::HelloTwice => close(&[BROKEN]),
            Attack::Garbage => close(&[BROKEN, TOO_BIG]),
            Attack::Text => close(&[BROKEN]),
            Attack::BadUtf8 => close(&[BROKEN, WS_PAYLOAD]),
            Attack::PingFlood => Expect::Anything,
            Attack::MessageFlood => close_or_cut(&[LIMITED]),
            Attack::BeforeLogin => close(&[BROKEN, NO_LOGIN]),
            Attack::WrongOrigin => Expect::Door,
            Attack::SeqGap => close(&[BROKEN]),
            Attack::Unmasked => close_or_cut(&[WS_BROKEN, BROKEN]),
        }
    }

    /// Whether a try ended as it has to.
    pub(super) fn judge(self, seen: &Seen) -> Judgement {
        if matches!(seen, Seen::Closed(code) if LATER.contains(code)) || matches!(seen, Seen::Status(429 | 503)) {
            return Judgement::TurnedAway;
        }
        let met = match (self.expects(), seen) {
            (Expect::Anything, _) => true,
            (Expect::Close { codes, .. }, Seen::Closed(code)) => codes.contains(code),
            (Expect::Close { cut, .. }, Seen::Cut) => cut,
            (Expect::Door, Seen::Cut) => self != Attack::WrongOrigin,
            (Expect::Door, Seen::Status(status)) => (400..500).contains(status),
            (Expect::Close { .. } | Expect::Door, _) => false,
        };
        if met { Judgement::Met } else { Judgement::Wrong }
    }

    /// Judges a try that failed before the attack began. Only an attack at the door may end there.
    pub(super) fn judge_door(self, cause: &Cause) -> Judgement {
        match cause {
            Cause::Closed(code) => self.judge(&Seen::Closed(code.code())),
            Cause::Own(_) | Cause::Remote(_) => Judgement::TurnedAway,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn endings_are_judged_by_attack() {
        let of = |attack: Attack, seen| attack.judge(&seen);
        assert_eq!(of(Attack::SeqGap, Seen::Closed(4007)), Judgement::Met);
        assert_eq!(of(Attack::SeqGap, Seen::Cut), Judgement::Wrong);
        assert_eq!(of(Attack::SeqGap, Seen::StillOpen), Judgement::Wrong);
        assert_eq!(of(Attack::Claims32, Seen::Closed(1009)), Judgement::Met);
        assert_eq!(of(Attack::Claims32, Seen::StillOpen), Judgement::Wrong);
        assert_eq!(of(Attack::WrongOrigin, Seen::Status(403)), Judgement::Met);
        assert_eq!(of(Attack::WrongOrigin, Seen::StillOpen), Judgement::Wrong);
        assert_eq!(of(Attack::WrongOrigin, Seen::Cut), Judgement::Wrong);
        assert_eq!(of(Attack::Text, Seen::Closed(1013)), Judgement::TurnedAway);
        assert_eq!(of(Attack::NoHttp, Seen::Status(500)), Judgement::Wrong);
    }

    #[test]
    fn names_are_different() {
        let names: std::collections::BTreeSet<_> = Attack::ALL.iter().map(|attack| attack.name()).collect();
        assert_eq!(names.len(), Attack::ALL.len());
    }
}
