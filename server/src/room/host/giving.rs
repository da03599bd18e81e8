//! Shards that belong elsewhere are given away in the plain way, without a word to their next owner, unless a handoff does it
//! ([`super::RoomHost::hands`]): stopped, stored, given to the target by the store, and restored there from what is stored.
//!
//! A giving either ends with everything stored and the claim given, or the shard stays and its rooms go on, within `give_deadline` (H5).

use std::sync::{Arc, atomic::Ordering};

use tenure_shared::IncarnationId;

use super::{core::Host, frozen::Frozen};
use crate::{link::Address, runtime::tasks::Kind, store::Fence};

/// Begins to give away what placement has elsewhere, unless it is being given already.
pub(super) fn begin(host: &Arc<Host>) {
    if host.driven.load(Ordering::Acquire) {
        return;
    }
    for (id, to) in host.ownership.gives() {
        let (Some(shard), Some(fence)) = (host.held(id), host.ownership.fence(id)) else { continue };
        // One that is still being taken over has nothing to give yet; it is looked at again when it is ready.
        if !shard.is_ready() {
            host.ownership.kept(&fence);
            continue;
        }
        if shard.rests(host.clock.now()) {
            continue;
        }
        if let Some(frozen) = Frozen::begin(host, &shard, &fence) {
            host.giving.fetch_add(1, Ordering::AcqRel);
            tracing::debug!(shard = %id, term = %fence.term(), ?to, "giving a shard away");
            let inner = host.clone();
            host.tasks.spawn("give shard", Kind::Job, async move { give(&inner, frozen, &fence, to).await });
        }
    }
}

async fn give(host: &Arc<Host>, mut frozen: Frozen, fence: &Fence, to: Option<IncarnationId>) {
    let started = host.clock.now();
    let stored = tokio::select! {
        biased;
        stored = frozen.stored() => stored.is_some(),
        () = host.clock.sleep(host.config.give_deadline) => false,
    };
    if !stored {
        tracing::warn!(shard = ?fence.key(), "the shard could not be given away in time: it goes on here");
        // Placement has it elsewhere still: it is tried again, after a while.
        let again = host.clock.now().plus(host.config.give_deadline);
        if let Some(shard) = fence.key().as_shard().and_then(|id| host.held(id)) {
            shard.rest(again);
        }
        frozen.thaw();
        ended(host);
        host.ownership.kept(fence);
        host.clock.sleep_until(again).await;
        host.shards_changed.notify_waiters();
        return;
    }
    let next = to.and_then(|to| address(host, &to));
    frozen.asking();
    host.ownership.gave(fence).await;
    // Whoever is told now finds it in the store as it is told.
    frozen.moved(next);
    let took = host.clock.now().since(started);
    tracing::debug!(shard = ?fence.key(), term = %fence.term(), ms = took.as_millis(), "a shard was given away");
    metrics::histogram!("tenure_shard_give_seconds").record(took.as_secs_f64());
    host.given.fetch_add(1, Ordering::AcqRel);
    ended(host);
}

/// One giving is over. One line for a drain or a new node, however many shards moved.
fn ended(host: &Host) {
    let last = host.giving.fetch_sub(1, Ordering::AcqRel) == 1;
    if last && host.ownership.gives().is_empty() {
        let shards = host.given.swap(0, Ordering::AcqRel);
        if shards > 0 {
            tracing::info!(shards, "shards were given away");
        }
    }
}

/// Where a member's links are reached.
fn address(host: &Host, member: &IncarnationId) -> Option<Address> {
    let view = host.ownership.view();
    let member = view.members.iter().find(|known| known.incarnation == *member)?;
    Some(Address::from(member.info.link.as_str()))
}
