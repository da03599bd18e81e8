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
/// How much one page may look at: a room costs one, and one whose metadata must be read for it [`READ`]. The next page goes on behind.
const LOOKED: usize = 40_000;
const READ: usize = 20;

impl Book {
    /// A page of the rooms that are not private, in the order of their ids.
    pub(super) fn list(
        &self,
        kind: Option<&str>,
        (filter, open): (&Filter, bool),
        after: Option<RoomId>,
        limit: usize,
    ) -> Answer {
        let (mut rooms, mut bytes, mut looked) = (Vec::new(), 0, 0);
        let mut last: Option<&RoomId> = None;
        for (room, entry) in self.rooms.range((self.begin(kind, after), Bound::Unbounded)) {
            // Rooms of one kind stand together.
            if kind.is_some_and(|kind| room.kind() != kind) {
                break;
            }
            if looked >= LOOKED {
                return Answer::Rooms { rooms, next: last.cloned() };
            }
            looked += 1;
            let summary = &entry.summary;
            let can = !summary.locked && summary.seats < summary.max_seats;
            if entry.stored && !summary.private && (can || !open) && self.fits(entry, filter, &mut looked) {
                if rooms.len() >= limit.min(limits::LIST_ROOMS) || bytes >= PAGE_BYTES {
                    return Answer::Rooms { rooms, next: last.cloned() };
                }
                bytes += summary.metadata.len() + room.as_str().len() + 128;
                rooms.push(listed(summary));
            }
            last = Some(room);
        }
        Answer::Rooms { rooms, next: None }
    }

    /// Where a list begins: behind the page before, or where rooms of the kind do.
    fn begin(&self, kind: Option<&str>, after: Option<RoomId>) -> Bound<RoomId> {
        // `-` is the first of the letters of a name.
        let first = || RoomId::from_parts(kind?, &self.region, "-").ok();
        match (after, first()) {
            (Some(after), Some(first)) if after < first => Bound::Included(first),
            (Some(after), _) => Bound::Excluded(after),
            (None, Some(first)) => Bound::Included(first),
            (None, None) => Bound::Unbounded,
        }
    }

    /// Whether a room's metadata hold what is asked for. Only what filters of its kind may name is at hand.
    fn fits(&self, entry: &Entry, filter: &Filter, looked: &mut usize) -> bool {
        let known = self.rules.get(entry.summary.room.kind()).map(|rule| rule.filter.as_slice()).unwrap_or_default();
        if filter.keys().all(|key| known.iter().any(|known| **known == *key)) {
            return filter.is_within(&entry.tags);
        }
        *looked += READ;
        filter.is_within(&Filter::of_metadata(&entry.summary.metadata))
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
