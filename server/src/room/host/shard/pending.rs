//! What waits for a shard's next commit, pure: requests are merged per room, in order, and cut into batches of bounded size.

use std::collections::{HashMap, HashSet, VecDeque};

use bytes::Bytes;
use tenure_shared::RoomId;

use crate::{
    runtime::Wall,
    store::{Again, Batch, Checkpoint, Grant, GrantId, WorkId, WorkItem},
};

/// Most effects (items and grants) in one commit: a commit is one step of the store, and no heartbeat may wait behind it.
/// A single request larger than this still goes alone.
pub(in crate::room::host) const COMMIT_EFFECTS: usize = 2_000;

/// What one room wants to be durable, in one step.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::room::host) struct Request {
    /// The room's state; also of every request that touches work.
    pub(in crate::room::host) checkpoint: Option<Checkpoint>,
    /// The room is deleted with its items.
    pub(in crate::room::host) delete: bool,
    /// New items.
    pub(in crate::room::host) scheduled: Vec<WorkItem>,
    /// Items done.
    pub(in crate::room::host) completed: Vec<WorkId>,
    /// Items that go on with another payload.
    pub(in crate::room::host) advanced: Vec<(WorkId, Bytes)>,
    /// Items to be tried again, not before the given time.
    pub(in crate::room::host) failed: Vec<(WorkId, Wall)>,
    /// Items no longer tried.
    pub(in crate::room::host) parked: Vec<(WorkId, String)>,
    /// Items taken back.
    pub(in crate::room::host) cancelled: Vec<WorkId>,
    /// Grants decided.
    pub(in crate::room::host) grants: Vec<Grant>,
    /// Outbox positions that the room has taken note of.
    pub(in crate::room::host) trimmed: Vec<u64>,
    /// Grants whose delivery it carries: what the room knows them by, behind the positions.
    pub(in crate::room::host) told: Vec<GrantId>,
    /// What was decided lately and may be forgotten since.
    pub(in crate::room::host) again: Vec<Again>,
    /// How many requests the room waits for in this one (1 when the room makes it; 0 when the shard makes it).
    pub(in crate::room::host) merged: usize,
}

impl Request {
    pub(in crate::room::host) fn touches(&self) -> impl Iterator<Item = &WorkId> {
        self.scheduled
            .iter()
            .map(|item| &item.id)
            .chain(&self.completed)
            .chain(self.advanced.iter().map(|(id, _)| id))
            .chain(self.failed.iter().map(|(id, _)| id))
            .chain(self.parked.iter().map(|(id, _)| id))
            .chain(&self.cancelled)
            .chain(self.again.iter().flat_map(|decided| &decided.completed))
    }

    /// Items that leave the room's hands with this request.
    pub(in crate::room::host) fn ends(&self) -> impl Iterator<Item = &WorkId> {
        self.touches().skip(self.scheduled.len())
    }

    pub(in crate::room::host) fn effects(&self) -> usize {
        let again: usize = self.again.iter().map(|decided| decided.grants.len()).sum();
        self.touches().count() + self.grants.len() + again + self.trimmed.len()
    }

    fn bytes(&self) -> usize {
        self.checkpoint.as_ref().map_or(0, |c| c.body.len() + c.summary.metadata.len())
    }

    /// Takes a later request of the same room in; gives it back when both touch the same item (a batch has no order of its own).
    fn merge(&mut self, later: Request) -> Result<(), Request> {
        let mine: HashSet<&WorkId> = self.touches().collect();
        let clash = later.touches().any(|id| mine.contains(id));
        if clash || self.delete || later.delete || self.effects() + later.effects() > COMMIT_EFFECTS {
            return Err(later);
        }
        if later.checkpoint.is_some() {
            self.checkpoint = later.checkpoint;
        }
        self.scheduled.extend(later.scheduled);
        self.completed.extend(later.completed);
        self.advanced.extend(later.advanced);
        self.failed.extend(later.failed);
        self.parked.extend(later.parked);
        self.cancelled.extend(later.cancelled);
        self.grants.extend(later.grants);
        self.trimmed.extend(later.trimmed);
        self.told.extend(later.told);
        self.again.extend(later.again);
        self.merged += later.merged;
        Ok(())
    }
}

/// Requests in order of arrival. Bounded: a room stops ticking when [`super::super::config::UNACKED_COMMITS`] of its requests wait.
#[derive(Debug, Default)]
pub(in crate::room::host) struct Pending {
    queue: VecDeque<(RoomId, Request)>,
    // Of each room the number of its last request in the queue, counted from the first ever queued.
    last: HashMap<RoomId, u64>,
    taken: u64,
    // Positions that the shard trims by itself, and rooms that decided them: as many as the outbox has entries.
    trims: VecDeque<(RoomId, u64)>,
    // Rooms that are being told that a request of theirs was refused: what they ask for until they know came from a world that the
    // store does not have.
    refused: HashSet<RoomId>,
}

impl Pending {
    /// Adds a request; several of one room become one where that changes nothing. `false`: not taken, since the room is being told that
    /// an earlier one was refused.
    pub(in crate::room::host) fn push(&mut self, room: RoomId, mut request: Request) -> bool {
        if request.merged > 0 && self.refused.contains(&room) {
            return false;
        }
        if let Some(slot) = self.last.get(&room).and_then(|n| self.queue.get_mut((n - self.taken) as usize)) {
            // What no room waits for stays alone: it must not fall with another request.
            let rooms = slot.1.merged > 0 && request.merged > 0;
            match if rooms { slot.1.merge(request) } else { Err(request) } {
                Ok(()) => return true,
                Err(back) => request = back,
            }
        }
        self.last.insert(room.clone(), self.taken + self.queue.len() as u64);
        self.queue.push_back((room, request));
        true
    }

    /// Adds a position that no room waits for. It never shares a request with a room, so that it goes through when the outbox is full.
    pub(in crate::room::host) fn trim(&mut self, room: RoomId, position: u64) {
        self.trims.push_back((room, position));
    }

    /// A request of the room was refused: what it asked for after it goes with it (H6). How many requests the room waited for in them.
    /// Nothing more is taken from the room until [`Pending::resume`].
    pub(in crate::room::host) fn refuse(&mut self, room: &RoomId) -> usize {
        self.refused.insert(room.clone());
        let mut merged = 0;
        self.queue.retain(|(other, request)| {
            let falls = other == room && request.merged > 0;
            merged += if falls { request.merged } else { 0 };
            !falls
        });
        self.count_anew();
        merged
    }

    /// The store may have forgotten items that rooms have in hand (`known`): requests that say what became of one bring it along. One that
    /// was done stays done.
    pub(in crate::room::host) fn bring(&mut self, known: impl Fn(&WorkId) -> Option<WorkItem>) {
        for (_, request) in &mut self.queue {
            let named = request.completed.iter().chain(request.advanced.iter().map(|(id, _)| id));
            let named =
                named.chain(request.failed.iter().map(|(id, _)| id)).chain(request.parked.iter().map(|(id, _)| id));
            let items: Vec<_> = named.filter_map(&known).collect();
            request.scheduled.extend(items);
        }
    }

    /// The room knows of the refusal, or is gone.
    pub(in crate::room::host) fn resume(&mut self, room: &RoomId) {
        self.refused.remove(room);
    }

    /// Puts requests back in front (of a batch that was refused as a whole), as they were.
    pub(in crate::room::host) fn put_back(&mut self, requests: Vec<(RoomId, Request)>) {
        for (room, request) in requests.into_iter().rev() {
            if request.merged == 0 && request.effects() == request.trimmed.len() && !request.delete {
                request.trimmed.iter().rev().for_each(|position| self.trims.push_front((room.clone(), *position)));
            } else {
                self.queue.push_front((room, request));
            }
        }
        self.count_anew();
    }

    fn count_anew(&mut self) {
        self.taken = 0;
        self.last.clear();
        for (n, (room, _)) in self.queue.iter().enumerate() {
            self.last.insert(room.clone(), n as u64);
        }
    }

    /// The requests of the next commit: as many as fit, one of each room at most, at least one. What the shard trims by itself is a
    /// request of its own before them.
    pub(in crate::room::host) fn take(&mut self, bytes: usize) -> Vec<(RoomId, Request)> {
        let (mut taken, mut rooms): (Vec<(RoomId, Request)>, HashSet<RoomId>) = (Vec::new(), HashSet::new());
        let (mut size, mut effects) = (0, 0);
        if let Some((room, _)) = self.trims.front().cloned() {
            effects = self.trims.len().min(COMMIT_EFFECTS);
            let trimmed = self.trims.drain(..effects).map(|(_, position)| position).collect();
            taken.push((room, Request { trimmed, ..Request::default() }));
        }
        while let Some((room, request)) = self.queue.front() {
            size += request.bytes();
            effects += request.effects();
            if !taken.is_empty() && (size > bytes || effects > COMMIT_EFFECTS || rooms.contains(room)) {
                break;
            }
            let Some((room, request)) = self.queue.pop_front() else { break };
            if self.last.get(&room) == Some(&self.taken) {
                self.last.remove(&room);
            }
            self.taken += 1;
            rooms.insert(room.clone());
            taken.push((room, request));
        }
        taken
    }

    /// Everything, for rooms that are told that it will not happen.
    pub(in crate::room::host) fn drain(&mut self) -> Vec<(RoomId, Request)> {
        self.last.clear();
        self.taken = 0;
        self.trims.clear();
        self.refused.clear();
        self.queue.drain(..).collect()
    }

    pub(in crate::room::host) fn is_empty(&self) -> bool {
        self.queue.is_empty() && self.trims.is_empty()
    }
}

/// The batch that does what these requests ask.
pub(in crate::room::host) fn batch(requests: &[(RoomId, Request)]) -> Batch {
    let mut batch = Batch::default();
    for (room, request) in requests {
        batch.checkpoints.extend(request.checkpoint.clone());
        if request.delete {
            batch.deleted.push(room.clone());
        }
        batch.scheduled.extend(request.scheduled.iter().cloned());
        batch.completed.extend(request.completed.iter().cloned());
        batch.advanced.extend(request.advanced.iter().cloned());
        batch.failed.extend(request.failed.iter().cloned());
        batch.parked.extend(request.parked.iter().cloned());
        batch.cancelled.extend(request.cancelled.iter().cloned());
        batch.grants.extend(request.grants.iter().map(|grant| (room.clone(), grant.clone())));
        batch.trimmed.extend(&request.trimmed);
        batch.again.extend(request.again.iter().cloned());
    }
    batch
}

#[cfg(test)]
mod tests {
    use tenure_shared::{Term, Tick};

    use super::*;
    use crate::store::RoomSummary;

    fn room(name: &str) -> RoomId {
        RoomId::from_parts("test", "eu", name).expect("valid")
    }

    fn id(room_name: &str, key: &str) -> WorkId {
        WorkId { room: room(room_name), job: "job".into(), key: key.into() }
    }

    fn saved(name: &str, version: u64, size: usize) -> Request {
        let summary = RoomSummary {
            room: room(name),
            seats: 0,
            max_seats: 1,
            metadata: Bytes::new(),
            dormant: false,
            private: false,
            locked: false,
        };
        let body = Bytes::from(vec![0; size]);
        let checkpoint = Checkpoint { summary, term: Term(1), tick: Tick(version), version, body };
        Request { checkpoint: Some(checkpoint), merged: 1, ..Request::default() }
    }

    #[test]
    fn ticks_of_one_room_become_one_request_with_the_newest_checkpoint() {
        let mut pending = Pending::default();
        for version in 1..=3 {
            let done = vec![id("a", &version.to_string())];
            pending.push(room("a"), Request { completed: done, ..saved("a", version, 10) });
        }
        let taken = pending.take(1_000);
        assert_eq!(taken.len(), 1);
        assert_eq!(taken[0].1.merged, 3);
        let batch = batch(&taken);
        assert_eq!(batch.checkpoints.iter().map(|c| c.version).collect::<Vec<_>>(), [3]);
        assert_eq!(batch.completed.len(), 3);
    }

    #[test]
    fn what_touches_the_same_item_keeps_its_order() {
        let mut pending = Pending::default();
        pending.push(room("a"), Request { cancelled: vec![id("a", "x")], ..saved("a", 1, 10) });
        pending.push(room("b"), saved("b", 1, 10));
        pending.push(room("a"), Request { completed: vec![id("a", "x")], ..saved("a", 2, 10) });
        pending.push(room("a"), saved("a", 3, 10));
        let first = pending.take(1_000);
        assert_eq!(first.iter().map(|(r, _)| r.name()).collect::<Vec<_>>(), ["a", "b"]);
        let second = pending.take(1_000);
        assert_eq!((second.len(), second[0].1.merged), (1, 2));
        assert_eq!(second[0].1.checkpoint.as_ref().map(|c| c.version), Some(3));
        assert!(pending.take(1_000).is_empty());
    }

    #[test]
    fn a_commit_is_cut_at_its_size_and_a_large_room_goes_alone() {
        let mut pending = Pending::default();
        for (name, size) in [("a", 600), ("b", 300), ("c", 200), ("d", 5_000), ("e", 1)] {
            pending.push(room(name), saved(name, 1, size));
        }
        let sizes: Vec<Vec<String>> = std::iter::from_fn(|| {
            let taken = pending.take(1_000);
            (!taken.is_empty()).then(|| taken.iter().map(|(r, _)| r.name().to_owned()).collect())
        })
        .collect();
        assert_eq!(sizes, [vec!["a", "b"], vec!["c"], vec!["d"], vec!["e"]]);
    }

    #[test]
    fn requests_put_back_come_first_and_still_merge() {
        let mut pending = Pending::default();
        pending.push(room("a"), saved("a", 1, 10));
        let refused = pending.take(1_000);
        pending.push(room("b"), saved("b", 1, 10));
        pending.put_back(refused);
        pending.push(room("a"), saved("a", 2, 10));
        let taken = pending.take(1_000);
        assert_eq!(taken.iter().map(|(r, q)| (r.name(), q.merged)).collect::<Vec<_>>(), [("a", 2), ("b", 1)]);
        assert!(pending.is_empty());
    }

    #[test]
    fn what_a_room_asked_for_after_a_refused_request_goes_with_it() {
        let mut pending = Pending::default();
        pending.push(room("a"), Request { completed: vec![id("a", "x")], ..saved("a", 1, 10) });
        pending.push(room("b"), saved("b", 1, 10));
        assert_eq!(pending.take(1_000).len(), 2);
        pending.push(room("a"), saved("a", 2, 10));
        pending.push(room("b"), saved("b", 2, 10));
        pending.push(room("a"), Request { completed: vec![id("a", "y")], ..saved("a", 3, 10) });
        pending.push(room("a"), Request { cancelled: vec![id("a", "y")], ..saved("a", 4, 10) });
        assert_eq!(pending.refuse(&room("a")), 3);
        assert!(!pending.push(room("a"), saved("a", 5, 10)), "it does not know yet");
        assert!(pending.push(room("b"), saved("b", 3, 10)));
        let taken = pending.take(1_000);
        assert_eq!(taken.iter().map(|(r, q)| (r.name(), q.merged)).collect::<Vec<_>>(), [("b", 2)]);
        pending.resume(&room("a"));
        assert!(pending.push(room("a"), saved("a", 2, 10)));
        assert_eq!(pending.take(1_000).len(), 1);
    }

    #[test]
    fn what_the_shard_trims_by_itself_waits_for_no_room() {
        let mut pending = Pending::default();
        pending.push(room("a"), saved("a", 1, 10));
        pending.trim(room("a"), 7);
        pending.trim(room("b"), 8);
        let taken = pending.take(1_000);
        assert_eq!(
            taken.iter().map(|(_, q)| (q.merged, q.trimmed.clone())).collect::<Vec<_>>(),
            [(0, vec![7, 8]), (1, vec![])]
        );
        pending.put_back(taken);
        pending.refuse(&room("a"));
        assert_eq!(pending.take(1_000)[0].1.trimmed, [7, 8], "a refusal of a room does not touch it");
        assert!(pending.is_empty());
    }
}
