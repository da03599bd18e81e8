//! What happens to a shard whose fence is in doubt: its rooms stand still; they go on from memory under a new term if nobody owned the
//! shard in between, or are dropped (H5).

use std::{sync::atomic::Ordering, time::Duration};

use tenure_shared::RoomId;

use super::{
    outbox,
    writer::{Fate, Requests, Writer},
};
use crate::{
    room::host::{attaching, gateways, inbox::Event},
    store::{Command, Reply},
};

/// How often ownership is told that a fence is in doubt, until it knows.
const FENCED_AGAIN: Duration = Duration::from_millis(100);
/// How often the rooms of a batch are read, if none of them can be, before their shard begins anew.
const READINGS: u32 = 8;

impl Writer {
    /// Waits for a fence of a new term. `doubt`: whether `requests` may have been applied under the old one.
    pub(super) async fn refence(&mut self, requests: Requests, doubt: bool) -> Fate {
        // Whoever moves it says what becomes of it, and warns if that is open.
        if self.shard.given.load(Ordering::Acquire) || self.shard.giving().is_some() {
            tracing::debug!(shard = %self.shard.id, term = %self.fence.term(), "the shard is given away: its rooms stand still");
        } else {
            tracing::warn!(shard = %self.shard.id, term = %self.fence.term(), "the shard's fence is in doubt: its rooms stand still");
        }
        self.shard.doubted.store(doubt, Ordering::Release);
        let held = loop {
            if self.host.shutdown.is_stopped() {
                return Fate::Ended;
            }
            self.changes.seen();
            let (ownership, id) = (&self.host.ownership, self.shard.id);
            let held = ownership.held(id);
            // Looked at twice: it may be in doubt, or come back, between the two questions.
            let lost = held.is_none() && !ownership.in_doubt(id) && ownership.held(id).is_none();
            match held {
                // Not before its new owner can have it: until then its rooms stand still, and who comes waits.
                _ if self.shard.given.load(Ordering::Acquire) => {
                    let over = self.shard.gone.load(Ordering::Acquire) && !self.is_current();
                    if over {
                        return Fate::Lost;
                    }
                }
                // The same fence, still believed in: only the store can say otherwise, and it does at the next commit.
                Some(held) if held.fence == self.fence && !doubt => return Fate::Going,
                // Ownership may not have heard of it: its mailbox was full. It takes notice of a fence that is its newest only.
                Some(held) if doubt && held.fence == self.fence => ownership.fenced(&self.fence),
                // Whoever has the shard in hand hears of it too, and says first what becomes of its rooms.
                _ if self.shard.giving().is_some() => {}
                Some(held) if held.fence != self.fence => break held,
                None if lost => return Fate::Lost,
                _ => {}
            }
            tokio::select! {
                biased;
                changed = self.changes.changed() => {
                    if changed.is_err() {
                        return Fate::Ended;
                    }
                }
                () = self.shard.notify.notified() => {}
                () = self.host.clock.sleep(FENCED_AGAIN), if doubt => {}
                () = self.host.shutdown.stopped() => return Fate::Ended,
            }
        };
        if held.continues.is_none_or(|since| since > self.fence.term()) {
            return Fate::Lost;
        }
        let new = held.fence;
        // Under the new term no write of the old one can be applied any more: what is read now is final.
        let applied = if doubt && !requests.is_empty() { self.was_applied(&requests).await } else { Some(false) };
        let Some(applied) = applied else {
            // Shut down, or none of its rows can be read: from memory nothing can go on, what is stored begins anew.
            return if self.host.shutdown.is_stopped() { Fate::Ended } else { Fate::Lost };
        };
        self.fence = new;
        self.number = 0;
        self.shard.term.store(self.fence.term().0, Ordering::Release);
        self.shard.doubted.store(false, Ordering::Release);
        if applied {
            self.acknowledge(requests, &[], &[]);
        } else if !requests.is_empty() {
            self.shard.pending.lock().put_back(requests);
        }
        self.bring_along();
        self.shard.outbox.restart();
        outbox::kick(&self.host, &self.shard);
        tracing::info!(shard = %self.shard.id, term = %self.fence.term(), "the shard goes on from memory");
        self.host.ran(&self.fence);
        for handle in self.host.rooms_of(self.shard.id) {
            handle.wake();
        }
        attaching::offer_kept(&self.host, &self.shard);
        Fate::Going
    }

    /// The store may have fallen back to an older state, or have been emptied, while the shard stood still: rooms tell it anew what they have.
    /// Those that commit next bring what they have in hand.
    fn bring_along(&mut self) {
        let forgot = std::mem::take(&mut self.forgot);
        self.near.look_again();
        let near = &self.near;
        self.shard.pending.lock().bring(|id| near.in_hand(id));
        for handle in self.host.rooms.all() {
            if handle.room.shard(self.host.config.shards) == self.shard.id {
                handle.tell(Event::Continued { forgot });
            }
        }
    }

    /// Whether a batch whose answer was lost is in the store. One step applies it whole, so one room tells. `None` when no room's row can
    /// be read within a few attempts, or when the host ends.
    async fn was_applied(&self, requests: &Requests) -> Option<bool> {
        let telling: Vec<_> =
            requests.iter().filter(|(_, request)| request.checkpoint.is_some() || request.delete).collect();
        if telling.is_empty() {
            // Only trims and cancellations: they may be done twice.
            return Some(false);
        }
        for attempt in 0..READINGS {
            for (room, request) in &telling {
                let answer = self.host.call_until_stopped(Command::Load { room: room.clone() }).await;
                if let Ok(Reply::Checkpoint(stored)) = answer {
                    return Some(match &request.checkpoint {
                        Some(sent) => stored.is_some_and(|stored| stored.version >= sent.version),
                        None => stored.is_none(),
                    });
                }
                if self.host.shutdown.is_stopped() {
                    return None;
                }
            }
            tracing::error!(shard = %self.shard.id, rooms = telling.len(), attempt, "it cannot be read whether a commit is stored");
            self.host.pause(attempt).await;
        }
        None
    }

    /// The shard is, or was, another's: its worlds are dropped, the checkpoints count. Gateways are told behind everything that its rooms
    /// said.
    pub(super) fn lose(&mut self) {
        let given = self.shard.given.load(Ordering::Acquire);
        if given {
            tracing::debug!(shard = %self.shard.id, term = %self.fence.term(), "the shard was given away: its rooms are dropped");
        } else {
            tracing::warn!(shard = %self.shard.id, term = %self.fence.term(), "the shard went elsewhere: its rooms are dropped");
        }
        self.shard.lost.store(true, Ordering::Release);
        self.shard.silence();
        drop(self.shard.pending.lock().drain());
        let of_shard = |room: &RoomId| room.shard(self.host.config.shards) == self.shard.id;
        for handle in self.host.rooms.all() {
            if of_shard(&handle.room) {
                // Out of the directory at once: the next owner's room of that id is another one, and a tick that never returns is not waited for.
                handle.tell(Event::Lost);
                self.host.rooms.remove(&handle);
            }
        }
        self.host.finder.lock().remove_all(of_shard);
        self.host.bulletin.forget(of_shard);
        let next = self.shard.next_owner.lock().take();
        gateways::tell_moved(&self.host, self.shard.id, self.fence.term(), next);
        // Behind the word where it is: whoever is turned away goes there.
        let kept = std::mem::take(&mut *self.shard.kept.lock());
        for attach in kept {
            attaching::not_owner(&self.host, &attach);
        }
        // Last: from here on the shard may begin anew, and what was removed above must not be what it has made known.
        if let Some(slot) = self.host.shards.get(self.shard.id.0 as usize) {
            *slot.write() = None;
        }
        self.host.shards_changed.notify_waiters();
    }
}
