//! Attaches on their way to a room: while it is open whether the shard stays here they are kept, and answered when it is decided
//! (F14).

use std::sync::Arc;

use tenure_shared::codes::ErrorCode;

use super::{actor::RETRY_AFTER, config::KEPT_ATTACHES, core::Host, inbox::Wish, shard::Shard};
use crate::{
    link::{Attach, ToGateway},
    runtime::mailbox::Refused,
};

/// How often a room may end and begin anew while one message looks for it.
const LOOKS: usize = 16;

/// What became of an attach.
pub(super) enum Offer {
    /// A room has it, or it is kept.
    Taken,
    /// There is no place for it now.
    Full(Attach),
    /// The shard is not here any more.
    NotHere(Attach),
    /// It is to be refused; it may be tried again later.
    Refuse(Attach, ErrorCode, &'static str),
}

/// Hands an attach to its room, behind those of its shard that wait already: of one socket the last one asked must be the last one answered.
pub(super) fn offer(host: &Arc<Host>, shard: &Arc<Shard>, attach: Attach) -> Offer {
    let mut kept = shard.kept();
    let attach = if kept.is_empty() {
        match to_room(host, shard, attach) {
            Err(Undecided(attach)) => attach,
            Ok(offer) => return offer,
        }
    } else {
        attach
    };
    if shard.is_lost() {
        return Offer::NotHere(attach);
    }
    // Whoever asks again asks instead of before; it stands at the end, as the newest.
    kept.retain(|other| (other.gateway, other.conn) != (attach.gateway, attach.conn));
    if kept.len() >= KEPT_ATTACHES {
        return Offer::Full(attach);
    }
    kept.push_back(attach);
    Offer::Taken
}

/// It may be decided now whether the shard stays: what was kept goes on its way, as far as it can.
pub(super) fn offer_kept(host: &Arc<Host>, shard: &Arc<Shard>) {
    // Said when the lock is free: whoever hears an answer may ask again at once.
    let mut answers = Vec::new();
    let mut kept = shard.kept();
    while let Some(attach) = kept.pop_front() {
        if !host.gateways.is_connected(attach.gateway) {
            host.finder.lock().release((attach.gateway, attach.conn));
            continue;
        }
        match to_room(host, shard, attach) {
            Ok(Offer::Taken) => {}
            Ok(other) => answers.push(other),
            Err(Undecided(attach)) => {
                kept.push_front(attach);
                break;
            }
        }
    }
    drop(kept);
    for offer in answers {
        answer(host, offer);
    }
}

/// Tells a gateway that waits why its attach came to nothing.
pub(super) fn answer(host: &Host, offer: Offer) {
    match offer {
        Offer::Taken => {}
        Offer::NotHere(attach) => not_owner(host, &attach),
        Offer::Full(attach) => refuse(host, &attach, ErrorCode::MayRetry, "the room has no time right now"),
        Offer::Refuse(attach, code, text) => refuse(host, &attach, code, text),
    }
}

/// It is open whether the shard stays.
struct Undecided(Attach);

fn to_room(host: &Arc<Host>, shard: &Arc<Shard>, attach: Attach) -> Result<Offer, Undecided> {
    let room = attach.room.clone();
    let mut wish = Wish::Attach(attach);
    for _ in 0..LOOKS {
        let Wish::Attach(attach) = wish else { break };
        if shard.is_lost() {
            return Ok(Offer::NotHere(attach));
        }
        let handle = match host.rooms.get(&room) {
            // Those that a room has already are its own.
            Some(_) if shard.giving().is_some() => return Err(Undecided(attach)),
            Some(handle) => handle,
            None if !host.may_run(shard, host.clock.now()) => return Err(Undecided(attach)),
            None if host.rooms.len() >= host.config.max_rooms => {
                return Ok(Offer::Refuse(attach, ErrorCode::Limit, "this node has as many rooms as it may"));
            }
            None => match host.open(&room, shard) {
                Some(handle) => handle,
                None => return Ok(Offer::Refuse(attach, ErrorCode::UnknownKind, "no game of this kind is registered")),
            },
        };
        match handle.wish(Wish::Attach(attach)) {
            Ok(()) => return Ok(Offer::Taken),
            Err(Refused::Full(Wish::Attach(attach))) => return Ok(Offer::Full(attach)),
            // It has just ended: who comes now loads it again.
            Err(Refused::Closed(back) | Refused::Full(back)) => {
                wish = back;
                host.rooms.remove(&handle);
            }
        }
    }
    match wish {
        Wish::Attach(attach) => Ok(Offer::Refuse(attach, ErrorCode::MayRetry, "the room ends and begins")),
        Wish::Detach { .. } | Wish::Resync { .. } => Ok(Offer::Taken),
    }
}

/// Answers that this node does not own the shard. A gateway whose queue is full asks again by itself.
pub(super) fn not_owner(host: &Host, attach: &Attach) {
    host.finder.lock().release((attach.gateway, attach.conn));
    let answer = host.not_owner(attach.conn, attach.attempt, attach.room.shard(host.config.shards));
    answer_late(host, attach, answer);
}

fn refuse(host: &Host, attach: &Attach, code: ErrorCode, text: &str) {
    host.finder.lock().release((attach.gateway, attach.conn));
    let (conn, attempt, message) = (attach.conn, attach.attempt, text.to_owned());
    let retry_after = (code != ErrorCode::UnknownKind).then_some(RETRY_AFTER);
    answer_late(host, attach, ToGateway::Refused { conn, attempt, code, word: None, message, retry_after });
}

fn answer_late(host: &Host, attach: &Attach, answer: ToGateway) {
    if let Err(Refused::Full(_)) = host.gateways.send(attach.gateway, answer) {
        tracing::warn!(gateway = attach.gateway.0, room = %attach.room, "a gateway has no place for an answer: it must ask again");
    }
}
