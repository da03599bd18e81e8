//! What Redis' faults mean to a call: which pass by themselves, which need a new connection, and which are lasting.

use ::redis::{ErrorKind, RedisError, ServerErrorKind};

use crate::store::Error;

/// Why a call to Redis failed.
#[derive(Debug)]
pub(super) enum Fault {
    /// It passes: the call may be made again.
    Passing {
        /// For the operator.
        text: String,
        /// The connection is broken, or leads to a server that is not the primary.
        reconnect: bool,
        /// The call may have been carried out.
        unknown: bool,
    },
    /// The server does not know the script by its name.
    NoScript,
    /// The server refuses what it should not: a password, a right, a foreign key of the same name, a script that was killed. No command is to
    /// blame, so it may be made again; a person should look.
    Refused(String),
    /// What is stored cannot be read, or this build cannot go on: it fails again each time, until a person changes something.
    Lasting(String),
}

impl Fault {
    /// No answer came. `reconnect`: it was waited for so long that the connection is taken for a dead one.
    pub(super) fn timeout(reconnect: bool) -> Self {
        Self::Passing { text: "no answer within the deadline".to_owned(), reconnect, unknown: true }
    }

    /// What the caller of a verb is told.
    pub(super) fn error(self) -> Error {
        match self {
            Self::Passing { text, .. } => Error::Unavailable(text),
            Self::NoScript => Error::Unavailable("the server has lost the scripts".to_owned()),
            Self::Refused(text) => Error::Unavailable(text),
            Self::Lasting(text) => Error::Broken(text),
        }
    }

    /// What reading an answer met: rows that cannot be read are lasting, an answer that is none of a script's is the server's refusal.
    pub(super) fn of(error: Error) -> Self {
        match error {
            Error::Broken(text) => Self::Lasting(text),
            Error::Unavailable(text) => Self::Refused(text),
            error => Self::Lasting(error.to_string()),
        }
    }

    /// Whether waiting will not help: who we say we are is not accepted.
    pub(super) fn is_final(&self) -> bool {
        match self {
            Self::Lasting(_) => true,
            Self::Refused(text) => of_login(text),
            Self::Passing { .. } | Self::NoScript => false,
        }
    }
}

/// Whether a refusal is about user and password.
pub(super) fn of_login(text: &str) -> bool {
    ["NOAUTH", "WRONGPASS", "authentication failed"].iter().any(|word| text.contains(word))
}

/// Codes of refusals that pass while the server or the cluster sorts itself out. An old server wraps those of a script's calls in text.
const PASSING: [&str; 11] = [
    "LOADING",
    "READONLY",
    "MASTERDOWN",
    "CLUSTERDOWN",
    "TRYAGAIN",
    "MOVED",
    "ASK",
    "BUSY",
    "OOM",
    "MISCONF",
    "NOREPLICAS",
];
/// Those among them that say that this server is not the one to ask.
const ELSEWHERE: [&str; 3] = ["LOADING", "READONLY", "MASTERDOWN"];

impl From<RedisError> for Fault {
    fn from(error: RedisError) -> Self {
        let text = error.to_string();
        let passing = |reconnect, unknown| Self::Passing { text: text.clone(), reconnect, unknown };
        match error.kind() {
            ErrorKind::Server(ServerErrorKind::NoScript) => Self::NoScript,
            ErrorKind::Server(
                ServerErrorKind::ReadOnly | ServerErrorKind::MasterDown | ServerErrorKind::BusyLoading,
            ) => passing(true, false),
            ErrorKind::Server(
                ServerErrorKind::Moved
                | ServerErrorKind::Ask
                | ServerErrorKind::TryAgain
                | ServerErrorKind::ClusterDown,
            ) => passing(false, false),
            ErrorKind::Io | ErrorKind::Parse => passing(true, true),
            ErrorKind::ClusterConnectionNotFound
            | ErrorKind::MasterNameNotFoundBySentinel
            | ErrorKind::NoValidReplicasFoundBySentinel => passing(true, false),
            _ => {
                let named = |codes: &[&str]| {
                    codes.iter().any(|code| error.code() == Some(code) || text.contains(&format!("-{code} ")))
                };
                if text.contains("NOSCRIPT") {
                    Self::NoScript
                } else if error.is_timeout() || error.is_connection_dropped() {
                    passing(true, true)
                } else if named(&PASSING) {
                    passing(named(&ELSEWHERE), false)
                } else {
                    Self::Refused(text)
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fault(line: &str) -> Fault {
        let (code, rest) = line.split_once(' ').unwrap_or((line, ""));
        Fault::from(::redis::make_extension_error(code.to_owned(), Some(rest.to_owned())))
    }

    #[test]
    fn refusals_that_pass_are_told_from_those_that_stay() {
        for (line, reconnects) in [
            ("BUSY Redis is busy running a script", false),
            ("OOM command not allowed", false),
            ("MISCONF Redis is configured to save RDB snapshots", false),
            ("NOREPLICAS Not enough good replicas to write.", false),
            ("ERR Error running script (call to f_1): @user_script:1: -READONLY You can't write", true),
        ] {
            let is = fault(line);
            assert!(
                matches!(is, Fault::Passing { reconnect, unknown: false, .. } if reconnect == reconnects),
                "{line}: {is:?}"
            );
        }
        for (line, is_final) in [
            ("WRONGTYPE Operation against a key", false),
            ("NOPERM this user has no permissions", false),
            ("ERR max number of clients reached", false),
            ("ERR Error running script: Script killed by user with SCRIPT KILL...", false),
            ("NOAUTH Authentication required.", true),
            ("WRONGPASS invalid username-password pair", true),
        ] {
            let is = fault(line);
            assert!(matches!(is, Fault::Refused(_)) && is.is_final() == is_final, "{line}: {is:?}");
            assert!(matches!(is.error(), Error::Unavailable(_)), "no room is to blame for {line}");
        }
        assert!(matches!(Fault::of(Error::Broken(String::new())).error(), Error::Broken(_)));
        let io = RedisError::from(std::io::Error::from(std::io::ErrorKind::BrokenPipe));
        assert!(matches!(Fault::from(io), Fault::Passing { reconnect: true, unknown: true, .. }));
    }
}
