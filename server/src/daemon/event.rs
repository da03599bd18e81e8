//! What happens to the daemons of a node, and what is asked for: the words of the step machine in `state/`.

use std::{sync::Arc, time::Duration};

use tenure_shared::{IncarnationId, Term};

use super::agreed::Agreed;
use crate::{ownership::View, runtime::Mono, store::KeyState};

/// Times that are the same for all sets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Times {
    /// Between two looks at everything (`lease.heartbeat`).
    pub heartbeat: Duration,
    /// A lease of others (`lease.ttl`).
    pub ttl: Duration,
    /// Longest wait for one call (`lease.call_deadline`).
    pub deadline: Duration,
    /// How often claims and agreements are read anew (`lease.claim_check`).
    pub claim_check: Duration,
    /// Time that a daemon has to stop when it is asked to, before it is cut off.
    pub stop_grace: Duration,
    /// How long a daemon that was cut off may go on before its claim is given up.
    pub cut_grace: Duration,
    /// How long it may go on after that was asked for before the process ends (`room.kill_after`).
    pub kill_after: Duration,
}

impl Default for Times {
    fn default() -> Self {
        Self {
            heartbeat: Duration::from_secs(1),
            ttl: Duration::from_secs(3),
            deadline: Duration::from_millis(500),
            claim_check: Duration::from_secs(10),
            stop_grace: Duration::from_secs(3),
            cut_grace: Duration::from_secs(1),
            kill_after: Duration::from_secs(10),
        }
    }
}

/// One daemon: its set among those of the node, generation and index.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct At {
    pub(crate) set: usize,
    pub(crate) generation: u64,
    pub(crate) index: u32,
}

/// A claim as it was seen: its holder and term; `None` if nobody ever claimed it.
pub(crate) type Seen = Option<(Option<IncarnationId>, Term)>;

/// How an activation ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum How {
    /// It was asked to.
    Stopped,
    /// By itself.
    Itself,
    /// With an error of its own.
    Failed(String),
    /// It panicked.
    Panicked(String),
    /// The store refused its fence, or its node's lease was over.
    Fenced,
    /// It was cut off.
    Cut,
}

/// The node's lease as it is now.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Lease {
    /// This life.
    pub(crate) life: Option<IncarnationId>,
    /// Until when the node may act; `Mono(0)`: it may not.
    pub(crate) until: Mono,
}

/// What happened.
#[derive(Clone, Debug)]
pub(crate) enum Event {
    /// Time passed.
    Tick,
    /// What is known of the cluster.
    Cluster(Arc<View>),
    /// What the store has agreed on about a set.
    Agreed { set: usize, agreed: Agreed },
    /// A claim was granted.
    Granted { at: At, incarnation: IncarnationId, term: Term },
    /// It was not.
    Refused { at: At },
    /// Claims as they are, of these daemons; without a row: never claimed.
    Claims { read: Vec<At>, claims: Vec<(At, Seen)> },
    /// Whether a daemon's generation was ended, and its state.
    Loaded { at: At, term: Term, ended: bool, state: Option<KeyState> },
    /// A claim was released or is another's.
    Released { at: At, term: Term },
    /// A claim was given to another member under a new term.
    Given { at: At, term: Term, to: IncarnationId, new: Term },
    /// An index of a former generation is ended for ever, and its claim released.
    Closed { at: At, term: Term },
    /// How far the former generation of a set is ended.
    Checked { set: usize, generation: u64, ended: bool },
    /// The task of an activation ended.
    Ended { at: At, term: Term, how: How },
    /// The last marks of progress of what runs.
    Marks(Vec<(At, Term, Mono)>),
    /// A call failed for now.
    Failed(Call),
    /// The node gives its daemons away.
    Drain,
    /// The node ends: everything stops, whether or not somebody takes it.
    Leave,
    /// Give this one to that member.
    HandOver { at: At, to: IncarnationId },
    /// Try a parked one again.
    Unpark { at: At },
}

/// Which call failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Call {
    Agreement(usize),
    Acquire(At),
    Load(At, Term),
    Release(At, Term),
    Close(At, Term),
    Claims(Vec<At>),
    Check(usize),
}

/// What the driver has to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Effect {
    /// Read what was agreed on.
    ReadAgreed { set: usize },
    /// Change what was agreed on, if it is still so.
    Reagree { set: usize, from: Agreed, to: Agreed },
    /// Take a claim by compare-and-set.
    Acquire { at: At, caller: IncarnationId, seen: Seen, floor: Term },
    /// Read the state of a claim that was just granted.
    Load { at: At, term: Term },
    /// Start the daemon.
    Run { at: At, incarnation: IncarnationId, term: Term, state: Option<KeyState> },
    /// Ask it to stop.
    Stop { at: At, term: Term },
    /// Cut it off.
    Cut { at: At, term: Term },
    /// Give its claim up, or to a member.
    Release { at: At, incarnation: IncarnationId, term: Term, to: Option<IncarnationId>, floor: Term },
    /// End an index of a former generation for ever, and release its claim.
    Close { at: At, incarnation: IncarnationId, term: Term },
    /// Read claims.
    ReadClaims(Vec<At>),
    /// Whether all of a former generation is ended.
    Check { set: usize, generation: u64, count: u32 },
    /// It does not end: the process must.
    Kill { at: At },
    /// Something for people.
    Say { at: At, said: Said },
}

/// What people are told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Said {
    /// It ended and is started again after this time.
    Restarts { why: &'static str, text: String, wait: Duration },
    /// It ended too often.
    Parked { text: String },
}
