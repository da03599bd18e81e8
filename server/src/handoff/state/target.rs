//! What a node knows of a shard that may come to it.

use crate::{
    link::{Attempt, Handoff, Package, RefuseReason},
    runtime::Mono,
};
use tenure_shared::{IncarnationId, Term};

use super::Times;

/// Where the highest attempt that was heard of is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
enum Step {
    /// Nothing is kept for it.
    #[default]
    Closed,
    /// It was accepted.
    Offered,
    /// Worlds are being made of the package with this checksum.
    Making(u64),
    /// They stand ready.
    Prepared(u64),
}

/// What happened.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum TargetEvent {
    /// An offer from this incarnation, and what this node says to it.
    Offer(IncarnationId, Attempt, Result<(), (RefuseReason, String)>),
    /// Anything else that this incarnation says about an attempt.
    Heard(IncarnationId, Attempt, Handoff),
    /// The worlds of an attempt are ready, or cannot be made.
    Made(Attempt, Result<u64, (RefuseReason, String)>),
    /// The shard is held here now, however it came.
    Held,
    /// Time passed.
    Tick,
}

/// What the driver of a target has to do, in this order.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum TargetEffect {
    /// Answer the incarnation about an attempt.
    Say(IncarnationId, Attempt, Handoff),
    /// Make the worlds of a package for an attempt.
    Make(Attempt, Package),
    /// Whatever is being made or stands ready is not needed any more.
    Drop,
    /// A claim that names this node is not to be acquired anew before this moment: word of its term is on its way.
    Expect(Mono),
    /// The source says that the claim is this node's, under this term.
    Claim(Term, u64),
}

/// A shard that may come to this node.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Target {
    times: Times,
    /// The highest attempt heard of, and who made it.
    heard: Option<(Attempt, IncarnationId)>,
    step: Step,
    until: Mono,
}

impl Target {
    /// A shard that nobody offered yet.
    pub fn new(times: Times) -> Self {
        Self { times, heard: None, step: Step::Closed, until: Mono(0) }
    }

    /// When [`TargetEvent::Tick`] is to come, if anything is kept.
    pub fn due(&self) -> Option<Mono> {
        (self.step != Step::Closed).then_some(self.until)
    }

    /// Whether anything is made or kept for an attempt.
    pub fn is_busy(&self) -> bool {
        self.step != Step::Closed
    }

    /// Takes in what happened.
    #[must_use]
    pub fn on(&mut self, now: Mono, event: TargetEvent) -> Vec<TargetEffect> {
        match event {
            TargetEvent::Offer(from, attempt, answer) => self.offered(now, &from, attempt, answer),
            TargetEvent::Heard(from, attempt, said) => self.heard(now, from, attempt, said),
            TargetEvent::Made(attempt, made) => self.made(now, attempt, made),
            // What was prepared runs, or is of no use: the room host sees to both.
            TargetEvent::Held => {
                self.step = Step::Closed;
                Vec::new()
            }
            TargetEvent::Tick if self.is_busy() && now >= self.until => self.close(),
            TargetEvent::Tick => Vec::new(),
        }
    }

    fn offered(
        &mut self,
        now: Mono,
        from: &IncarnationId,
        attempt: Attempt,
        answer: Result<(), (RefuseReason, String)>,
    ) -> Vec<TargetEffect> {
        let again = self.is_current(from, attempt);
        if !again && !self.is_newer(attempt) {
            return Vec::new();
        }
        // Said twice: the answer may have got lost. What has ended meanwhile stays so.
        if again && self.step != Step::Offered {
            return Vec::new();
        }
        let mut effects = if again { Vec::new() } else { self.begin(from, attempt) };
        let said = match answer {
            Ok(()) => {
                // A freeze lies between this and the package.
                self.wait(Step::Offered, now);
                Handoff::Ready
            }
            Err((reason, text)) => {
                effects.extend(self.close());
                Handoff::Refuse { reason, text }
            }
        };
        effects.push(TargetEffect::Say(from.clone(), attempt, said));
        effects
    }

    fn heard(&mut self, now: Mono, from: IncarnationId, attempt: Attempt, said: Handoff) -> Vec<TargetEffect> {
        let newer = self.is_newer(attempt);
        if !newer && !self.is_current(&from, attempt) {
            return Vec::new();
        }
        let mut effects = if newer { self.begin(&from, attempt) } else { Vec::new() };
        match said {
            Handoff::Package(package) if newer || self.step == Step::Offered => {
                self.wait(Step::Making(package.checksum()), now);
                effects.push(TargetEffect::Make(attempt, package));
            }
            // The answer may have got lost.
            Handoff::Package(package) if self.step == Step::Prepared(package.checksum()) => {
                effects.push(TargetEffect::Say(from, attempt, Handoff::Prepared { checksum: package.checksum() }));
            }
            Handoff::Abort => effects.extend(self.close()),
            // Worlds or none: the claim is this node's, and what the worlds are worth is said by the checksum in the claim (F2).
            Handoff::Transferred { term, checksum } => {
                // What stands ready stays until the shard begins, or its time is over.
                effects.push(TargetEffect::Claim(term, checksum));
            }
            _ => {}
        }
        effects
    }

    fn made(&mut self, now: Mono, attempt: Attempt, made: Result<u64, (RefuseReason, String)>) -> Vec<TargetEffect> {
        let Some((current, from)) = self.heard.clone() else { return Vec::new() };
        let Step::Making(expected) = self.step else { return Vec::new() };
        if current != attempt {
            return Vec::new();
        }
        match made {
            Ok(checksum) if checksum == expected => {
                self.wait(Step::Prepared(checksum), now);
                let said = TargetEffect::Say(from, attempt, Handoff::Prepared { checksum });
                vec![TargetEffect::Expect(now.plus(self.times.step)), said]
            }
            made => {
                let (reason, text) = made.err().unwrap_or_else(|| {
                    (RefuseReason::NotStored, "what is stored is not what the package says".to_owned())
                });
                let mut effects = self.close();
                effects.push(TargetEffect::Say(from, attempt, Handoff::Refuse { reason, text }));
                effects
            }
        }
    }

    fn is_current(&self, from: &IncarnationId, attempt: Attempt) -> bool {
        self.heard.as_ref().is_some_and(|(current, who)| *current == attempt && who == from)
    }

    /// Terms of a shard are unique, and one source counts its attempts under a term.
    fn is_newer(&self, attempt: Attempt) -> bool {
        let rank = |attempt: &Attempt| (attempt.term, attempt.number);
        self.heard.as_ref().is_none_or(|(current, _)| rank(current) < rank(&attempt))
    }

    fn begin(&mut self, from: &IncarnationId, attempt: Attempt) -> Vec<TargetEffect> {
        let effects = self.close();
        self.heard = Some((attempt, from.clone()));
        effects
    }

    fn wait(&mut self, step: Step, now: Mono) {
        // The source's own deadlines, and what messages take, lie within: an offer waits for a freeze, a making is given up by the source.
        self.until = now.plus(self.times.prepared);
        self.step = step;
    }

    fn close(&mut self) -> Vec<TargetEffect> {
        match std::mem::take(&mut self.step) {
            Step::Closed | Step::Offered => Vec::new(),
            Step::Making(_) | Step::Prepared(_) => vec![TargetEffect::Drop],
        }
    }
}
