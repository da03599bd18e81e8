//! Who waits for an answer of the store: told behind the publishing, since they look at what is held.

use std::collections::BTreeMap;

use tenure_shared::ShardId;
use tokio::sync::oneshot;

use super::{event::Event, options::Transfer, state::State};

/// See the module. Bounded by shards, and by those who wait for one of them and have not given up.
#[derive(Default)]
pub(super) struct Waiting {
    gave: BTreeMap<ShardId, Vec<oneshot::Sender<()>>>,
    sought: BTreeMap<ShardId, Vec<oneshot::Sender<()>>>,
    // Of those who drain.
    news: Vec<oneshot::Sender<()>>,
    transfers: BTreeMap<ShardId, oneshot::Sender<Transfer>>,
    // Transfers that have ended.
    transferred: Vec<(ShardId, Transfer)>,
}

impl Waiting {
    pub(super) fn for_release(&mut self, shard: ShardId, done: oneshot::Sender<()>) {
        self.gave.entry(shard).or_default().push(done);
    }

    pub(super) fn for_look(&mut self, shard: ShardId, done: oneshot::Sender<()>) {
        let waiting = self.sought.entry(shard).or_default();
        // Whoever gave up waiting must not add up.
        waiting.retain(|waiting| !waiting.is_closed());
        waiting.push(done);
    }

    pub(super) fn for_news(&mut self, done: oneshot::Sender<()>) {
        self.news.retain(|waiting| !waiting.is_closed());
        self.news.push(done);
    }

    /// Of two the first is the one that is sent; the second, dropped here, hears that the shard is in doubt.
    pub(super) fn for_transfer(&mut self, shard: ShardId, done: oneshot::Sender<Transfer>, state: &State) {
        if !state.transfers(shard) {
            self.transfers.insert(shard, done);
        }
    }

    /// What an event will mean to who waits for a transfer; to be given to [`Waiting::after`].
    pub(super) fn before(event: &Event) -> Option<(ShardId, Option<Transfer>)> {
        match event {
            Event::Transfer { shard, .. } => Some((*shard, None)),
            Event::Given { shard, new, .. } => Some((*shard, Some(Transfer::Done(*new)))),
            Event::NotGiven { shard, .. } => Some((*shard, Some(Transfer::Doubt))),
            _ => None,
        }
    }

    /// The event was taken in.
    pub(super) fn after(&mut self, about: Option<(ShardId, Option<Transfer>)>, state: &State) {
        match about {
            Some((shard, Some(outcome))) => self.transferred.push((shard, outcome)),
            // It was not sent: the shard is not held under that term.
            Some((shard, None)) if !state.transfers(shard) => self.transferred.push((shard, Transfer::Doubt)),
            _ => {}
        }
    }

    /// Tells those whose shard is not open any more.
    pub(super) fn answer(&mut self, state: &State) {
        answer(&mut self.gave, |shard| state.releases(shard));
        answer(&mut self.sought, |shard| state.seeks(shard));
        if state.is_informed() {
            // Nobody may be waiting any more.
            self.news.drain(..).for_each(|done| done.send(()).unwrap_or_default());
        }
        for (shard, outcome) in self.transferred.drain(..) {
            if let Some(done) = self.transfers.remove(&shard)
                && let Err(unheard) = done.send(outcome)
            {
                tracing::debug!(%shard, ?unheard, "nobody waits for a transfer any more");
            }
        }
    }
}

fn answer(waiting: &mut BTreeMap<ShardId, Vec<oneshot::Sender<()>>>, open: impl Fn(ShardId) -> bool) {
    waiting.retain(|shard, waiting| {
        let open = open(*shard);
        if !open {
            // Nobody may be waiting any more.
            waiting.drain(..).for_each(|done| done.send(()).unwrap_or_default());
        }
        open
    });
}
