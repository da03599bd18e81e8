//! Attaches that come for a shard which is not here: they wait until the store was asked whether it should be. A seat follows its room to
//! the next owner faster than that one hears of it (H5); turned away, it would come back only when its gateway knows better.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::Arc,
};

use parking_lot::Mutex;
use tenure_shared::ShardId;

use super::{
    attaching::{self, Offer},
    config::{ARRIVAL_WAIT, KEPT_ATTACHES},
    core::Host,
    shards,
};
use crate::{link::Attach, runtime::tasks::Kind};

/// Who waits, by shard; a shard that is in it has a task. Bounded by [`KEPT_ATTACHES`] in all.
#[derive(Default)]
pub(super) struct Arrivals(Mutex<Waiting>);

#[derive(Default)]
struct Waiting {
    count: usize,
    shards: BTreeMap<ShardId, VecDeque<Attach>>,
}

impl Arrivals {
    /// Puts an attach behind those that wait for this shard already; back if there is none, or no place.
    pub(super) fn join(&self, shard: ShardId, attach: Attach) -> Result<(), Attach> {
        let mut waiting = self.0.lock();
        let Waiting { count, shards } = &mut *waiting;
        match shards.get_mut(&shard) {
            Some(attaches) => {
                // Whoever asks again asks instead of before.
                let before = attaches.len();
                attaches.retain(|other| (other.gateway, other.conn) != (attach.gateway, attach.conn));
                *count -= before - attaches.len();
                if *count >= KEPT_ATTACHES {
                    return Err(attach);
                }
                attaches.push_back(attach);
                *count += 1;
                Ok(())
            }
            None => Err(attach),
        }
    }

    /// What waits; without anything the shard is done with.
    fn take(&self, shard: ShardId) -> Option<VecDeque<Attach>> {
        let mut waiting = self.0.lock();
        let attaches = waiting.shards.get_mut(&shard).map(std::mem::take)?;
        if attaches.is_empty() {
            waiting.shards.remove(&shard);
            return None;
        }
        waiting.count -= attaches.len();
        Some(attaches)
    }
}

/// Lets an attach wait for the store's answer; back if too many wait.
pub(super) fn wait(host: &Arc<Host>, shard: ShardId, attach: Attach) -> Result<(), Attach> {
    {
        let mut waiting = host.arrivals.0.lock();
        if waiting.count >= KEPT_ATTACHES {
            return Err(attach);
        }
        waiting.count += 1;
        if let Some(attaches) = waiting.shards.get_mut(&shard) {
            // Somebody came between the two questions.
            attaches.push_back(attach);
            return Ok(());
        }
        waiting.shards.insert(shard, VecDeque::from([attach]));
    }
    let inner = host.clone();
    host.tasks.spawn("arrivals", Kind::Job, async move { decide(&inner, shard).await });
    Ok(())
}

async fn decide(host: &Arc<Host>, shard: ShardId) {
    tokio::select! {
        biased;
        () = host.ownership.sought(shard) => {}
        () = host.clock.sleep(ARRIVAL_WAIT) => {}
        () = host.shutdown.stopped() => {}
    }
    // Whatever it came to, nobody waits longer.
    shards::begin_owned(host);
    while let Some(attaches) = host.arrivals.take(shard) {
        for attach in attaches {
            if !host.gateways.is_connected(attach.gateway) {
                host.finder.lock().release((attach.gateway, attach.conn));
                continue;
            }
            match host.held(shard) {
                Some(held) => match attaching::offer(host, &held, attach) {
                    Offer::Taken => {}
                    other => attaching::answer(host, other),
                },
                None => attaching::not_owner(host, &attach),
            }
        }
    }
}
