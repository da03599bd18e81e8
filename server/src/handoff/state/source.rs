//! One attempt to give a shard away, as its owner sees it.

use crate::{
    link::{Attempt, Handoff, Package, RefuseReason},
    runtime::Mono,
};
use tenure_shared::Term;

use super::Times;

/// Where an attempt is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Step {
    /// The target was asked; rooms tick on.
    Offered,
    /// Rooms stop and store themselves.
    Freezing,
    /// The target makes its worlds.
    Preparing,
    /// The store was asked to give the claim away: from here on the rooms go on only under a new term (F1).
    Transferring,
    /// Nothing is left to do.
    Ended(End),
}

impl Step {
    /// For logs and metrics.
    pub fn name(self) -> &'static str {
        match self {
            Self::Offered => "offer",
            Self::Freezing => "freeze",
            Self::Preparing => "prepare",
            Self::Transferring => "transfer",
            Self::Ended(_) => "ended",
        }
    }
}

/// How an attempt ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum End {
    /// The claim is the target's.
    Moved,
    /// The shard stays here, under the term it had.
    Kept(Why),
    /// Ownership decides: a new term of this node, or somebody else's.
    Doubted,
}

/// Why a shard stays.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Why {
    /// The target said no.
    Refused(RefuseReason),
    /// This step took longer than its deadline.
    Late(&'static str),
    /// No message goes to the target.
    Unreachable,
    /// The rooms could not be stopped, or the shard is not under this term any more.
    Lost,
    /// The target's worlds were not made of what is stored.
    Differs,
}

/// What happened to an attempt.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum SourceEvent {
    /// The target said this about an attempt.
    Heard(Attempt, Handoff),
    /// No message goes to the target.
    Unreachable,
    /// The rooms stand still and everything is stored.
    Stored(Package),
    /// The rooms could not be stopped: the shard is in doubt, lost, or the node stops.
    Lost,
    /// The claim is the target's, under this term; `None`: it was given without a package, and nobody waits for the term.
    Given(Option<Term>),
    /// It is open what the store has.
    Doubt,
    /// Time passed.
    Tick,
}

/// What the driver of a source has to do, in this order.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum SourceEffect {
    /// Tell the target.
    Say(Handoff),
    /// Stop the rooms and let them store themselves.
    Freeze,
    /// Ask the store to give the claim to the target with this package.
    Transfer(Package),
    /// Ask the store to give the claim away without a package.
    Give,
    /// The rooms go on under the same term.
    Thaw,
    /// The rooms stand still until ownership has a new term, or lost the shard.
    Doubt,
    /// The worlds are dropped, and gateways told.
    Moved,
}

/// One attempt to give a shard away.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Source {
    attempt: Attempt,
    step: Step,
    until: Mono,
    times: Times,
    /// Without a word to the target: it loads everything from the store.
    plain: bool,
    /// What the target was told to make; empty before.
    package: Package,
}

impl Source {
    /// An attempt that begins with an offer, which the caller sends.
    pub fn offer(attempt: Attempt, times: Times, now: Mono) -> Self {
        let until = now.plus(times.step);
        Self { attempt, step: Step::Offered, until, times, plain: false, package: Package::default() }
    }

    /// An attempt that nobody is asked about; the caller stops the rooms.
    pub fn plain(attempt: Attempt, times: Times, now: Mono) -> Self {
        Self { step: Step::Freezing, plain: true, ..Self::offer(attempt, times, now) }
    }

    /// Which attempt it is.
    pub fn attempt(&self) -> Attempt {
        self.attempt
    }

    /// Where it is.
    pub fn step(&self) -> Step {
        self.step
    }

    /// When [`SourceEvent::Tick`] is to come, if it has not ended.
    pub fn due(&self) -> Option<Mono> {
        (!matches!(self.step, Step::Ended(_))).then_some(self.until)
    }

    /// Takes in what happened.
    #[must_use]
    pub fn on(&mut self, now: Mono, event: SourceEvent) -> Vec<SourceEffect> {
        match event {
            SourceEvent::Heard(attempt, said) if attempt == self.attempt => self.heard(now, said),
            SourceEvent::Heard(..) => Vec::new(),
            SourceEvent::Stored(package) if self.step == Step::Freezing => self.stored(now, package),
            SourceEvent::Given(term) if self.step == Step::Transferring => {
                self.step = Step::Ended(End::Moved);
                let checksum = self.package.checksum();
                let told = term.map(|term| SourceEffect::Say(Handoff::Transferred { term, checksum }));
                told.into_iter().chain([SourceEffect::Moved]).collect()
            }
            SourceEvent::Doubt if self.step == Step::Transferring => self.doubt(),
            SourceEvent::Unreachable => self.fails(Why::Unreachable),
            SourceEvent::Lost => self.fails(Why::Lost),
            // A timer that fires early changes nothing.
            SourceEvent::Tick if now >= self.until => match self.step {
                Step::Transferring => self.doubt(),
                step => self.fails(Why::Late(step.name())),
            },
            SourceEvent::Stored(_) | SourceEvent::Given(_) | SourceEvent::Doubt | SourceEvent::Tick => Vec::new(),
        }
    }

    fn heard(&mut self, now: Mono, said: Handoff) -> Vec<SourceEffect> {
        match (self.step, said) {
            (Step::Offered, Handoff::Ready) => {
                self.go(Step::Freezing, now);
                vec![SourceEffect::Freeze]
            }
            (Step::Preparing, Handoff::Prepared { checksum }) if checksum == self.package.checksum() => {
                self.go(Step::Transferring, now);
                vec![SourceEffect::Transfer(self.package.clone())]
            }
            (Step::Preparing, Handoff::Prepared { .. }) => self.fails(Why::Differs),
            (_, Handoff::Refuse { reason, .. }) => self.fails(Why::Refused(reason)),
            _ => Vec::new(),
        }
    }

    fn stored(&mut self, now: Mono, package: Package) -> Vec<SourceEffect> {
        self.package = package;
        if self.plain {
            self.go(Step::Transferring, now);
            return vec![SourceEffect::Give];
        }
        self.go(Step::Preparing, now);
        vec![SourceEffect::Say(Handoff::Package(self.package.clone()))]
    }

    fn go(&mut self, step: Step, now: Mono) {
        self.step = step;
        self.until = now.plus(self.times.step);
    }

    /// Before the store was asked nothing has happened that anyone else may act on: the rooms go on. Afterwards this decides nothing.
    fn fails(&mut self, why: Why) -> Vec<SourceEffect> {
        let still = matches!(self.step, Step::Freezing | Step::Preparing);
        if !still && self.step != Step::Offered {
            return Vec::new();
        }
        self.step = Step::Ended(End::Kept(why));
        let told = !self.plain && !matches!(why, Why::Refused(_));
        let mut effects = Vec::new();
        // Players first: the target drops what it has by itself also.
        effects.extend(still.then_some(SourceEffect::Thaw));
        effects.extend(told.then_some(SourceEffect::Say(Handoff::Abort)));
        effects
    }

    fn doubt(&mut self) -> Vec<SourceEffect> {
        self.step = Step::Ended(End::Doubted);
        vec![SourceEffect::Doubt]
    }
}
