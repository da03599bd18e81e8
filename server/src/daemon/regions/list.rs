//! The list of a region's rooms, page by page, for clients.

use std::ops::Bound;

use tenure_shared::{Filter, RoomId, limits};

use super::book::{Book, Entry};
use crate::{
    link::lobby::{Answer, Listed},
    store::RoomSummary,
};

/// About how many bytes of rooms go into one page.
const PAGE_BYTES: usize = 40 * 1024;

impl Book {
    /// A page of the rooms that are not private, in the order of their ids.
    pub(super) fn list(
        &self,
        kind: Option<&str>,
        (filter, open): (&Filter, bool),
        after: Option<RoomId>,
        limit: usize,
    ) -> Answer {
        let from = after.map_or(Bound::Unbounded, Bound::Excluded);
        let fits = |entry: &&Entry| {
            let summary = &entry.summary;
            let can = !summary.locked && summary.seats < summary.max_seats;
            entry.stored
                && !summary.private
                && kind.is_none_or(|kind| summary.room.kind() == kind)
                && (can || !open)
                && (filter.is_empty() || filter.is_within(&Filter::of_metadata(&summary.metadata)))
        };
        let mut found = self.rooms.range((from, Bound::Unbounded)).map(|(_, entry)| entry).filter(fits).peekable();
        let (mut rooms, mut bytes) = (Vec::new(), 0);
        while rooms.len() < limit.min(limits::LIST_ROOMS) && bytes < PAGE_BYTES {
            let Some(entry) = found.next() else { break };
            bytes += entry.summary.metadata.len() + entry.summary.room.as_str().len() + 128;
            rooms.push(listed(&entry.summary));
        }
        Answer::Rooms { rooms, more: found.peek().is_some() }
    }
}

fn listed(summary: &RoomSummary) -> Listed {
    Listed {
        room: summary.room.clone(),
        seats: summary.seats,
        max_seats: summary.max_seats,
        locked: summary.locked,
        metadata: summary.metadata.clone(),
    }
}
