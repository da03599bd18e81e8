//! Fault points: named places at which a test ends or stops this process, to see that nothing is lost just there.
//!
//! `TENURE_FAULT="handoff.transferred=kill@2"` ends the process (SIGKILL) when it comes to that point for the second time; `=stop` stops it
//! (SIGSTOP) until someone continues it, so that a test may do something to the others at that very step. Several are divided by commas.
//! Builds without debug assertions have no fault points: there [`point`] is nothing, and [`check`] refuses the variable.

use thiserror::Error;

/// The environment variable that arms fault points.
pub const VARIABLE: &str = "TENURE_FAULT";

/// All fault points. A name that is not here is refused by [`check`], and by the test of this file if the code calls it.
pub const POINTS: &[&str] = &[
    "handoff.source.offering",
    "handoff.source.frozen",
    "handoff.source.stored",
    "handoff.source.packed",
    "handoff.source.transferring",
    "handoff.source.transferred",
    "handoff.source.told",
    "handoff.target.ready",
    "handoff.target.made",
    "handoff.target.prepared",
    "handoff.target.claimed",
    "handoff.target.ticked",
    "handoff.gateway.moved",
    "handoff.gateway.attached",
    // A batch that completes work is about to go to the store.
    "work.committing",
    // The store has it, and nobody here has heard of that.
    "work.committed",
    // A ledger took a grant, and others of the same outbox have not been applied yet.
    "grants.between",
    // The ledger's answer is here, and its room and player have not heard of it.
    "grants.telling",
];

/// Why fault points were not armed. The caller ends the process: a fault test without its fault would pass.
#[derive(Debug, Error)]
pub enum Error {
    /// An optimised build.
    #[error("{VARIABLE} is set, but this build has no fault points (they need debug assertions)")]
    NotBuilt,
    /// One of the comma-divided words.
    #[error("{VARIABLE}: `{word}`: expected POINT=kill or POINT=stop, with @N for the Nth time (from 1); points: {}", POINTS.join(", "))]
    Word {
        /// As it was written.
        word: String,
    },
}

/// Arms what the environment asks for. Called once, before anything else runs.
///
/// # Errors
/// Words that are not understood, and any at all in a build without fault points.
pub fn check() -> Result<(), Error> {
    match std::env::var(VARIABLE) {
        Ok(text) => build::arm(&text),
        Err(_) => Ok(()),
    }
}

/// The process has come to this place.
#[inline]
pub fn point(name: &'static str) {
    build::point(name);
}

/// The same, right after something was said to another process: a point that acts lets other threads write it first.
#[inline]
pub fn said(name: &'static str) {
    build::said(name);
}

#[cfg(not(debug_assertions))]
mod build {
    //! Nothing.

    pub(super) fn arm(_: &str) -> Result<(), super::Error> {
        Err(super::Error::NotBuilt)
    }

    #[inline]
    pub(super) const fn point(_: &'static str) {}

    #[inline]
    pub(super) const fn said(_: &'static str) {}
}

#[cfg(debug_assertions)]
mod build {
    //! What is armed, and the signals.

    use std::{
        sync::{
            OnceLock,
            atomic::{AtomicU32, Ordering},
        },
        time::Duration,
    };

    use rustix::process::{Signal, getpid, kill_process};

    use super::{Error, POINTS};

    /// What other threads get to write down what was said.
    const OUT: Duration = Duration::from_millis(30);

    /// One point that is armed.
    pub(super) struct Armed {
        pub(super) name: &'static str,
        pub(super) signal: Signal,
        /// How often the point is still to be passed; acts when it comes to 0, and never again.
        pub(super) left: AtomicU32,
    }

    static ARMED: OnceLock<Vec<Armed>> = OnceLock::new();

    pub(super) fn read(text: &str) -> Result<Vec<Armed>, Error> {
        let word = |word: &str| {
            let (name, act) = word.split_once('=')?;
            let (act, times) = act.split_once('@').unwrap_or((act, "1"));
            let signal = match act {
                "kill" => Signal::KILL,
                "stop" => Signal::STOP,
                _ => return None,
            };
            let name = POINTS.iter().find(|point| **point == name)?;
            let times = times.parse().ok().filter(|times| *times > 0)?;
            Some(Armed { name, signal, left: AtomicU32::new(times) })
        };
        let words = text.split(',').map(str::trim).filter(|text| !text.is_empty());
        words.map(|text| word(text).ok_or_else(|| Error::Word { word: text.to_owned() })).collect()
    }

    pub(super) fn arm(text: &str) -> Result<(), Error> {
        // A second server in one process (a test) finds them armed.
        drop(ARMED.set(read(text)?));
        Ok(())
    }

    pub(super) fn point(name: &'static str) {
        reach(name, Duration::ZERO);
    }

    pub(super) fn said(name: &'static str) {
        reach(name, OUT);
    }

    fn reach(name: &'static str, first: Duration) {
        debug_assert!(POINTS.contains(&name), "{name} is not in faults::POINTS");
        let Some(armed) = ARMED.get() else { return };
        for armed in armed.iter().filter(|armed| armed.name == name) {
            let before = armed.left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1));
            if before == Ok(1) {
                if !first.is_zero() {
                    std::thread::park_timeout(first);
                }
                // A signal to oneself is there before this call returns, and KILL leaves no chance to flush anything: as in a crash.
                if let Err(error) = kill_process(getpid(), armed.signal) {
                    tracing::error!(point = name, %error, "no signal could be sent to this process");
                }
            }
        }
    }
}

#[cfg(all(test, debug_assertions))]
mod tests {
    use super::{Error, POINTS, build::read};

    #[test]
    fn points_are_named_once() {
        let mut names = POINTS.to_vec();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), POINTS.len());
    }

    #[test]
    fn words_that_are_not_understood_are_refused_with_the_points_that_there_are() {
        assert!(read("").unwrap().is_empty());
        for bad in ["nowhere=kill", "nowhere", "=kill", "nowhere=kill@0"] {
            let Err(Error::Word { word }) = read(bad) else { panic!("{bad} was taken") };
            assert_eq!(word, bad);
        }
        if let Some(point) = POINTS.first() {
            let both = format!("{point}=kill, {point}=stop@3");
            assert_eq!(read(&both).unwrap().len(), 2);
            for bad in ["", "=", "=end", "=kill@0", "=kill@x"] {
                assert!(read(&format!("{point}{bad}")).is_err(), "{bad}");
            }
        }
    }
}
