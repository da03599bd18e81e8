//! Begins every shard that ownership gives to this node, and gives away those that belong elsewhere; a shard that was lost begins anew
//! when it comes back.

use std::sync::Arc;

use tenure_shared::ShardId;

use super::{attaching, core::Host, giving, prepared, shard::Shard};
use crate::runtime::tasks::Kind;

/// Starts the task that watches ownership.
pub(super) fn watch(host: &Arc<Host>) {
    let inner = host.clone();
    host.tasks.spawn("shards", Kind::Job, async move {
        let mut changes = inner.ownership.changes();
        loop {
            changes.seen();
            let ended = inner.shards_changed.notified();
            tokio::pin!(ended);
            ended.as_mut().enable();
            begin_owned(&inner);
            giving::begin(&inner);
            for shard in inner.shards.iter().filter_map(|slot| slot.read().clone()) {
                attaching::offer_kept(&inner, &shard);
            }
            tokio::select! {
                biased;
                changed = changes.changed() => {
                    if changed.is_err() {
                        return;
                    }
                }
                () = ended => {}
                () = inner.shutdown.stopped() => return,
            }
        }
    });
}

pub(super) fn begin_owned(host: &Arc<Host>) {
    for (number, slot) in host.shards.iter().enumerate() {
        let id = ShardId(u32::try_from(number).unwrap_or(u32::MAX));
        if slot.read().is_some() {
            continue;
        }
        // Looked at again: whoever waits for a shard begins it too.
        let mut slot = slot.write();
        if slot.is_none()
            && let Some(held) = host.ownership.held(id)
            // A term runs once: what was dropped here comes back under a new one (H2).
            && held.fence.term() > host.last_term(id)
        {
            let (package, fence) = (held.package, held.fence);
            host.ran(&fence);
            let (ready, unwanted) = host.prepared.take(id, package);
            *slot = Some(Shard::start(host, id, fence, ready));
            drop(slot);
            prepared::scrap(host, unwanted);
        }
    }
}
