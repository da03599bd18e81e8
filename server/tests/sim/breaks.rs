//! Rules that are broken on purpose, each in a double of the test and never in the product: its checker must notice.

use tenure::{
    runtime::{Mono, Wall},
    store::{Batch, Command, Error, Fence, GrantId, Key, Reply, Stamped},
};
use tenure_shared::{IncarnationId, Term};

use crate::{
    cluster::{SHARDS, START, STORMY},
    store::Host,
};

/// A rule that is broken on purpose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Break {
    Nothing,
    /// The store takes commits under stale fences (H3).
    Fence,
    /// The store gives terms as if nobody had ever had one (H2).
    Terms,
    /// Gateways show what is older than what they showed (H7).
    Floor,
    /// Gateways forget what was not saved (H4).
    Ring,
    /// The ledger takes a grant twice (H6).
    Ledger,
    /// The ledger says that it has what it has not stored (H8).
    Promise,
    /// A target takes its worlds for its own as soon as they stand ready (H1).
    Ready,
    /// The store gives no claim to anybody after the storm (C28).
    Claims,
    /// The game starts again in a world that is restored (H12).
    Start,
}

/// Fences are made by ownership alone; who breaks rules makes one from its stored form.
fn stolen(key: &Key, holder: &IncarnationId, term: Term) -> Fence {
    let parts = serde_json::json!({ "key": key.as_str(), "incarnation": holder.as_str(), "term": term });
    serde_json::from_value(parts).expect("a fence")
}

impl Host {
    /// What a broken store answers of its own; the others are asked as they are.
    pub fn broken_answer(&self, command: &Command) -> Option<Stamped> {
        let closed = self.broken == Break::Claims && self.net.clock.now() > Mono::default().plus(STORMY);
        match (self.broken, command) {
            (_, Command::Acquire { .. }) if closed => {
                Some(Stamped { at: self.wall(), reply: Err(Error::Unavailable("closed".to_owned())) })
            }
            (Break::Promise, Command::Apply { .. }) => Some(self.pretend(command.clone())),
            _ => None,
        }
    }

    /// What a broken store does instead: the checkers must notice.
    pub fn break_rules(&self, command: &mut Command, claim: Option<&(Option<IncarnationId>, Term)>) {
        match (self.broken, command) {
            (Break::Fence, Command::Commit { fence, number, .. }) => {
                if let Some((Some(holder), term)) = claim
                    && (holder, *term) != (fence.incarnation(), fence.term())
                {
                    let stolen = stolen(fence.key(), holder, *term);
                    let probe = Command::Commit {
                        fence: stolen.clone(),
                        shards: SHARDS,
                        number: u64::MAX,
                        batch: Batch::default(),
                    };
                    if let Err(Error::OutOfOrder { last, .. }) = self.ask(probe).reply {
                        *number = last + 1;
                    }
                    *fence = stolen;
                }
            }
            (Break::Fence, Command::PutState { fence, seen, .. }) => {
                if let Some((Some(holder), term)) = self.claim_of(fence.key().clone()) {
                    if let Ok(Reply::State(state)) = self.ask(Command::State { key: fence.key().clone() }).reply {
                        *seen = state.map_or(0, |state| state.version);
                    }
                    *fence = stolen(fence.key(), &holder, term);
                }
            }
            (Break::Terms, Command::Acquire { key, seen, floor, .. }) => {
                self.forget_row(format!("claim/{key}").as_bytes());
                self.forget_row(b"meta/time");
                (*seen, *floor) = (None, Term(0));
            }
            (Break::Ledger, Command::Apply { grant }) => {
                // The first answer is dropped, the second identity is another.
                let mut twice = grant.clone();
                twice.id = GrantId(format!("{}-again", grant.id.0).into());
                drop(self.ask(Command::Apply { grant: twice }));
            }
            _ => {}
        }
    }

    /// The time by which a broken store gives terms.
    pub fn broken_time(&self, command: &Command) -> Option<Wall> {
        (self.broken == Break::Terms && matches!(command, Command::Acquire { .. })).then_some(START)
    }
}
