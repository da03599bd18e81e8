//! A shard begins: its rooms become known, those that were running are loaded, its outbox and its due work are read.

use std::sync::atomic::Ordering;

use tenure_shared::RoomId;

use super::{
    outbox,
    writer::{Fate, Writer},
};
use crate::{
    room::host::core::Host,
    store::{Command, Reply, RoomSummary},
};

/// Rooms read at a time.
const ROOMS: usize = 500;

impl Writer {
    pub(super) async fn take_over(&mut self) -> Fate {
        let mut after = None;
        let mut attempt = 0;
        let mut empty = Vec::new();
        loop {
            let command = Command::Rooms { shard: self.shard.id, after: after.clone(), limit: ROOMS };
            let rooms = match self.host.call_until_stopped(command).await {
                Ok(Reply::Rooms(rooms)) => rooms,
                Err(error) if error.may_retry() => return Fate::Ended,
                other => {
                    let error = other.err().unwrap_or_else(|| Host::unexpected("rooms"));
                    tracing::error!(shard = %self.shard.id, %error, "the rooms of a shard could not be listed");
                    // Given up at once it would begin at once: it waits here as long as the shard is ours, and a mended row is enough.
                    self.host.pause(attempt).await;
                    attempt += 1;
                    if self.host.shutdown.is_stopped() {
                        return Fate::Ended;
                    }
                    if !self.is_current() {
                        return Fate::Lost;
                    }
                    continue;
                }
            };
            attempt = 0;
            let full = rooms.len() == ROOMS;
            after = rooms.last().map(|summary| summary.room.clone());
            for summary in rooms {
                if self.know(&summary) {
                    empty.push(summary.room);
                }
            }
            if !full {
                break;
            }
        }
        // Behind those in which somebody waits. Reading is bounded: `config::LOADS_AT_A_TIME`.
        for room in empty {
            self.go_on(&room);
        }
        // Everything of a life before this one is applied again: the ledger knows what it has.
        self.shard.outbox.restart();
        self.refill().await;
        self.shard.ready.store(true, Ordering::Release);
        self.host.shards_changed.notify_waiters();
        outbox::kick(&self.host, &self.shard);
        Fate::Going
    }

    /// Rooms with seats go on at once; dormant ones when somebody comes or work is due. Whether it is one of the others: they were running,
    /// with nobody in them.
    fn know(&self, summary: &RoomSummary) -> bool {
        self.host.know(summary.clone(), true, Vec::new());
        if !summary.dormant && summary.seats > 0 {
            self.go_on(&summary.room);
        }
        !summary.dormant && summary.seats == 0
    }

    fn go_on(&self, room: &RoomId) {
        if self.host.open(room, &self.shard).is_none() {
            tracing::warn!(%room, "a stored room is of a kind that this build does not know");
        }
    }
}
