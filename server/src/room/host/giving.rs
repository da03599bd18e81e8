//! A shard is given away: its rooms stop at a tick boundary, their last state is stored, ownership releases it. Other shards go on meanwhile.
//!
//! A giving either ends with everything stored and the release asked for, or the shard stays and its rooms go on: never both, never neither,
//! within `give_deadline` (H5). Once the release was asked for it is final here, whatever the store says: the worlds are dropped, and a
//! shard that comes back begins from the store.

use std::sync::Arc;

use tenure_shared::{IncarnationId, ShardId};

use super::{attaching, core::Host, inbox::RoomHandle, shard::Shard};
use crate::{link::Address, runtime::tasks::Kind, store::Fence};

/// Begins to give away what placement has elsewhere, unless it is being given already.
pub(super) fn begin(host: &Arc<Host>) {
    for (id, to) in host.ownership.gives() {
        let (Some(shard), Some(fence)) = (host.held(id), host.ownership.fence(id)) else { continue };
        // One that is still being taken over has nothing to give yet; it is looked at again when it is ready.
        if !shard.is_ready() {
            host.ownership.kept(&fence);
            continue;
        }
        if fence.term() == shard.term() && shard.may_begin_giving() {
            let number = shard.begin_giving();
            tracing::info!(shard = %id, term = %fence.term(), ?to, "giving a shard away");
            let inner = host.clone();
            host.tasks.spawn("give shard", Kind::Job, async move { give(&inner, &shard, &fence, number, to).await });
        }
    }
}

async fn give(host: &Arc<Host>, shard: &Arc<Shard>, fence: &Fence, number: u64, to: Option<IncarnationId>) {
    let started = host.clock.now();
    if !all_stored(host, shard, fence, number).await {
        shard.stays();
        tracing::warn!(shard = %shard.id(), "the shard could not be given away in time: it goes on here");
        for handle in rooms(host, shard.id()) {
            handle.wake();
        }
        attaching::offer_kept(host, shard);
        host.ownership.kept(fence);
        // Placement has it elsewhere still: it is tried again, after a while.
        host.clock.sleep(host.config.give_deadline).await;
        shard.may_give_again();
        host.shards_changed.notify_waiters();
        return;
    }
    shard.give(to.and_then(|to| address(host, &to)));
    host.ownership.gave(fence).await;
    // Whoever is told now finds it in the store as it is told.
    shard.let_go();
    if host.ownership.fence(shard.id()).as_ref() == Some(fence) {
        // Not released after all: under this term nothing goes on any more.
        host.ownership.fenced(fence);
    }
    let took = host.clock.now().since(started);
    tracing::info!(shard = %shard.id(), term = %fence.term(), ms = took.as_millis(), "a shard was given away");
    metrics::histogram!("tenure_shard_give_seconds").record(took.as_secs_f64());
}

/// Waits until every room of the shard stands still and is stored. `false` when that took too long, or the shard is in doubt.
async fn all_stored(host: &Arc<Host>, shard: &Arc<Shard>, fence: &Fence, number: u64) -> bool {
    for handle in rooms(host, shard.id()) {
        handle.wake();
    }
    let late = host.clock.sleep(host.config.give_deadline);
    tokio::pin!(late);
    let mut changes = host.ownership.changes();
    loop {
        let progress = host.progress.notified();
        tokio::pin!(progress);
        progress.as_mut().enable();
        changes.borrow_and_update();
        if shard.is_lost() || host.ownership.fence(shard.id()).as_ref() != Some(fence) || host.shutdown.is_stopped() {
            return false;
        }
        let still = |handle: &Arc<RoomHandle>| handle.still.load(std::sync::atomic::Ordering::Acquire) == number;
        if rooms(host, shard.id()).iter().all(still) && shard.is_handed_over() {
            return true;
        }
        tokio::select! {
            biased;
            () = progress => {}
            changed = changes.changed() => {
                if changed.is_err() {
                    return false;
                }
            }
            () = &mut late => return false,
            () = host.shutdown.stopped() => return false,
        }
    }
}

fn rooms(host: &Host, shard: ShardId) -> Vec<Arc<RoomHandle>> {
    let mut rooms = host.rooms.all();
    rooms.retain(|handle| handle.room.shard(host.config.shards) == shard);
    rooms
}

/// Where a member's links are reached.
fn address(host: &Host, member: &IncarnationId) -> Option<Address> {
    let view = host.ownership.view();
    let member = view.members.iter().find(|known| known.incarnation == *member)?;
    Some(Address::from(member.info.link.as_str()))
}
