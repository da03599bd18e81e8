//! Grants into ledgers, and what ledgers say to the rooms.
//!
//! An answer for a room that is not loaded wakes the room when game code waits for it (grants of game code); an answer for a scheduled
//! reward is only for showing, and nobody is there to see it: its position is trimmed without waking the room.

use std::{
    future::Future,
    pin::Pin,
    sync::{Arc, atomic::Ordering},
    task::Poll,
};

use tenure_shared::RoomId;

use super::super::{Shard, pending::Request, refused};
use crate::{
    room::{
        host::{core::Host, inbox::Event, names},
        world::GrantResult,
    },
    runtime::faults,
    store::{Applied, Command, Error, OutboxEntry, Reply},
};

/// Attempts to give an answer to a room that ends and begins at that moment.
const DELIVERIES: usize = 16;

type Lane<'a> = Pin<Box<dyn Future<Output = ()> + Send + 'a>>;

/// Applies lanes of entries side by side.
pub(super) async fn apply_all(host: &Arc<Host>, shard: &Arc<Shard>, lanes: impl Iterator<Item = Vec<OutboxEntry>>) {
    let mut lanes: Vec<Lane<'_>> = lanes.map(|lane| Box::pin(apply(host, shard, lane)) as Lane<'_>).collect();
    std::future::poll_fn(|context| {
        lanes.retain_mut(|lane| lane.as_mut().poll(context).is_pending());
        if lanes.is_empty() { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
}

async fn apply(host: &Arc<Host>, shard: &Arc<Shard>, lane: Vec<OutboxEntry>) {
    for entry in lane {
        if super::is_over(host, shard) {
            return;
        }
        let (position, player) = (entry.position, entry.grant.player.clone());
        // Those of one player keep their order.
        let waits = shard.outbox.entries.lock().is_put_off(&player);
        if (waits || !apply_one(host, shard, entry).await) && !super::is_over(host, shard) {
            shard.outbox.entries.lock().put_off(position, Some(player));
        }
    }
}

/// One grant; whether its ledger gave an answer that one can go on with.
pub(super) async fn apply_one(host: &Arc<Host>, shard: &Arc<Shard>, entry: OutboxEntry) -> bool {
    let OutboxEntry { position, room, grant } = entry;
    match host.call_until_stopped(Command::Apply { grant: grant.clone() }).await {
        Ok(Reply::Applied { applied, balances }) => {
            names::grant(match applied {
                Applied::Given(_) => "given",
                Applied::Already(_) => "already",
                Applied::Insufficient => "insufficient",
            });
            if shard.outbox.depth() > 1 {
                faults::point("grants.between");
            }
            deliver(host, shard, position, &room, &GrantResult { grant, applied, balances });
            true
        }
        Err(error @ (Error::Invalid(_) | Error::Conflict(_))) => {
            names::grant("refused");
            tracing::error!(%room, player = %grant.player, grant = %grant.id.0, %error, "a ledger refused a grant");
            // Never dropped: it is kept for a person to look at; when it is, the room hears that nothing was changed.
            let mut request = match refused::request(&room, position, &grant, &error) {
                Ok(request) => request,
                Err(text) => {
                    shard.outbox.alarm(host, shard, position, &Error::Broken(text));
                    return false;
                }
            };
            if grant.scheduled_for.is_some() && host.rooms.get(&room).is_none() {
                request.trimmed.push(position);
            }
            let result = GrantResult { grant, applied: Applied::Insufficient, balances: Vec::new() };
            shard.outbox.entries.lock().keep(position, result);
            shard.push(&room, request);
            true
        }
        Err(error) if error.may_retry() => false,
        answer => {
            let error = answer.err().unwrap_or_else(|| Host::unexpected("apply"));
            shard.outbox.alarm(host, shard, position, &error);
            false
        }
    }
}

/// A request of the shard's own is durable: rooms whose refused grants it keeps hear of them.
pub(in super::super) fn kept(host: &Arc<Host>, shard: &Arc<Shard>, room: &RoomId, request: &Request) {
    for position in refused::positions(request) {
        let result = shard.outbox.entries.lock().take_kept(position);
        if let Some(result) = result.filter(|_| !request.trimmed.contains(&position)) {
            deliver(host, shard, position, room, &result);
        }
    }
}

/// The store did not take a request of the shard's own: the grants that it would have kept stay in the outbox and are tried again (H6).
pub(in super::super) fn not_kept(
    host: &Arc<Host>,
    shard: &Arc<Shard>,
    room: &RoomId,
    request: &Request,
    error: &Error,
) {
    if matches!(error, Error::Conflict(_)) {
        // Kept in an earlier life, and seen to since: that was the last word on it.
        return kept(host, shard, room, &Request { trimmed: Vec::new(), ..request.clone() });
    }
    for position in refused::positions(request) {
        let result = shard.outbox.entries.lock().take_kept(position);
        if let Some(result) = result {
            shard.outbox.alarm(host, shard, position, error);
            shard.outbox.entries.lock().put_off(position, Some(result.grant.player));
            shard.outbox.again.store(true, Ordering::Release);
        }
    }
}

fn deliver(host: &Arc<Host>, shard: &Arc<Shard>, position: u64, room: &RoomId, result: &GrantResult) {
    faults::point("grants.telling");
    shard.outbox.unless_trimmed(position, || {
        // A ledger may answer when the shard is gone, or here once more: its room of that name is another one then, which may have had
        // this answer and trimmed it (H6). Held: no room of this shard is dropped in between.
        if let Some(voice) = shard.voice() {
            tell(host, shard, position, room, result);
            drop(voice);
        }
    });
}

fn tell(host: &Arc<Host>, shard: &Arc<Shard>, position: u64, room: &RoomId, result: &GrantResult) {
    let waited_for = result.grant.scheduled_for.is_none();
    for _ in 0..DELIVERIES {
        let handle = match host.rooms.get(room) {
            Some(handle) => Some(handle),
            // At a stop it stays in the outbox: applied again at the next start, which changes nothing.
            None if waited_for && host.stopping.load(Ordering::Acquire) => return,
            None if waited_for => host.open(room, shard),
            None => None,
        };
        let Some(handle) = handle else { break };
        if handle.tell(Event::Granted(position, Box::new(result.clone()))) {
            return;
        }
        host.rooms.remove(&handle);
    }
    shard.trim(room, position);
}
