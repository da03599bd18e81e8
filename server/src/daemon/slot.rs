//! One index as its node sees it: its claim as known, and what runs of it here.

use std::{collections::VecDeque, time::Duration};

use tenure_shared::{IncarnationId, Term};

use super::event::Seen;
use crate::runtime::Mono;

/// Longest wait before a restart, as a multiple of the first.
const LONGEST_BACKOFF: u32 = 30;

/// Longest text that is kept of an end: what a panic says may be of any length.
const TEXT_BYTES: usize = 512;

/// How an index ended last, other than by plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Last {
    pub(crate) at: Mono,
    /// `ended`, `failed`, `panicked`, `hung`, `cut off`, `lost its node`.
    pub(crate) what: &'static str,
    /// In the daemon's words, or what is known beyond that.
    pub(crate) text: String,
}

impl Last {
    pub(crate) fn new(at: Mono, what: &'static str, text: &str) -> Self {
        Self { at, what, text: bounded(text) }
    }
}

/// The beginning of a text, not more than is kept.
pub(crate) fn bounded(text: &str) -> String {
    let end = (0..=TEXT_BYTES.min(text.len())).rev().find(|end| text.is_char_boundary(*end)).unwrap_or(0);
    text.get(..end).unwrap_or_default().to_owned()
}

/// What happens when a task has ended that was stopped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Then {
    /// Its claim is given to this member, or released.
    Release(Option<IncarnationId>),
    /// It is started again, since it failed.
    Again(&'static str),
    /// Nothing: the claim is not this node's any more.
    Forget,
    /// Its index is ended for ever.
    Close,
}

/// A task that has been told to end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Ending {
    pub(crate) term: Term,
    pub(crate) since: Mono,
    /// Cut off since.
    pub(crate) cut: Option<Mono>,
    /// The claim was given up under its hands.
    pub(crate) released: bool,
    pub(crate) killed: bool,
    pub(crate) then: Then,
}

/// What this node does with an index.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum Phase {
    /// Nothing.
    #[default]
    Idle,
    /// Asked for its claim.
    Asking,
    /// Has the claim, reads its state.
    Loading(Term),
    /// Runs since then.
    Running { term: Term, since: Mono },
    /// Its task was told to end.
    Ending(Ending),
    /// Has the claim, and starts it again then, under a new term.
    Waiting { term: Term, until: Mono },
    /// Has the claim, and starts it no more.
    Parked { term: Term, reason: String },
    /// Its claim is being given up, or ended for ever.
    Releasing(Term),
}

/// One index.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Slot {
    pub(crate) claim: Seen,
    pub(crate) phase: Phase,
    /// Granted after the claim was last asked for.
    pub(crate) fresh: bool,
    /// Not asked for before.
    pub(crate) after: Mono,
    /// Since when nobody has it who could.
    pub(crate) orphan: Option<Mono>,
    /// Where somebody wants it to be.
    pub(crate) handover: Option<IncarnationId>,
    /// Ended for ever.
    pub(crate) closed: bool,
    /// When it failed lately, for its budget.
    pub(crate) failures: VecDeque<Mono>,
    /// How often it was started again here.
    pub(crate) restarts: u64,
    /// How it ended last, as this node knows.
    pub(crate) last: Option<Last>,
    /// Since when it is not live, though it should be.
    pub(crate) down: Option<Mono>,
}

impl Slot {
    pub(crate) fn holder(&self) -> Option<&IncarnationId> {
        self.claim.as_ref().and_then(|(holder, _)| holder.as_ref())
    }

    pub(crate) fn term(&self) -> Term {
        self.claim.as_ref().map_or(Term(0), |(_, term)| *term)
    }

    /// The term under which something of it runs or may run here.
    pub(crate) fn held(&self) -> Option<Term> {
        match &self.phase {
            Phase::Idle | Phase::Asking | Phase::Releasing(_) => None,
            Phase::Loading(term) | Phase::Running { term, .. } => Some(*term),
            Phase::Waiting { term, .. } | Phase::Parked { term, .. } => Some(*term),
            Phase::Ending(ending) => (!ending.released).then_some(ending.term),
        }
    }

    /// Whether a hint says more than is known.
    pub(crate) fn is_news(&self, claim: &(Option<IncarnationId>, Term)) -> bool {
        let (holder, term) = (self.holder(), self.term());
        self.claim.is_none() || claim.1 > term || (claim.1 == term && claim.0.is_none() && holder.is_some())
    }

    /// A failure: how long until it is started again, or `None` when its budget is used up.
    pub(crate) fn failed(&mut self, now: Mono, restarts: u32, window: Duration, backoff: Duration) -> Option<Duration> {
        self.failures.retain(|at| now.since(*at) < window);
        if self.failures.len() >= restarts as usize {
            return None;
        }
        let doubled = 1_u32.checked_shl(u32::try_from(self.failures.len()).unwrap_or(31)).unwrap_or(u32::MAX);
        self.failures.push_back(now);
        self.restarts += 1;
        Some(backoff * doubled.min(LONGEST_BACKOFF))
    }
}
