//! A seat's messages that are not yet in a stored checkpoint: kept so that a takeover loses none (H4).

use std::collections::VecDeque;

use bytes::Bytes;
use tenure_shared::Seq;

use crate::runtime::Mono;

/// Bytes that an entry costs beside its payload.
const OVERHEAD: usize = 24;

/// Bounds of a ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnsavedBounds {
    /// Messages.
    pub count: usize,
    /// Bytes, with 24 per message for what is beside its payload.
    pub bytes: usize,
    /// Age of the oldest; beyond it the store stands still and nothing more is taken.
    pub age: std::time::Duration,
}

impl Default for UnsavedBounds {
    fn default() -> Self {
        use tenure_shared::limits::{UNSAVED_INPUT_BYTES, UNSAVED_INPUTS};
        Self { count: UNSAVED_INPUTS, bytes: UNSAVED_INPUT_BYTES, age: std::time::Duration::from_secs(15) }
    }
}

/// One message or request of the client.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Entry {
    pub(super) seq: Seq,
    pub(super) request: Option<u32>,
    pub(super) kind: u16,
    /// A slice of the WebSocket message it came in.
    pub(super) payload: Bytes,
    pub(super) at: Mono,
}

/// Unsaved messages, oldest first, and which of them still have to be handed to the room.
#[derive(Debug)]
pub(super) struct Ring {
    /// Below this number nothing is here: it was saved, or came through another socket.
    from: Seq,
    entries: VecDeque<Entry>,
    bytes: usize,
    /// Entries from this index on wait to be handed over.
    sent: usize,
}

impl Ring {
    /// A ring that will have everything from this number on.
    pub(super) fn new(from: Seq) -> Self {
        Self { from, entries: VecDeque::new(), bytes: 0, sent: 0 }
    }

    /// Keeps a message.
    ///
    /// # Errors
    /// Which bound is reached; the message was not kept.
    pub(super) fn push(&mut self, entry: Entry, bounds: &UnsavedBounds) -> Result<(), &'static str> {
        let size = entry.payload.len() + OVERHEAD;
        if self.entries.len() >= bounds.count {
            return Err("too many unsaved messages");
        }
        if self.bytes + size > bounds.bytes {
            return Err("too many bytes of unsaved messages");
        }
        if self.entries.front().is_some_and(|oldest| entry.at.since(oldest.at) > bounds.age) {
            return Err("the room has not been saved for too long");
        }
        self.bytes += size;
        self.entries.push_back(entry);
        Ok(())
    }

    /// Forgets the newest message, of this number, again: it could not be handed over.
    pub(super) fn pop(&mut self, seq: Seq) {
        if let Some(entry) = self.entries.pop_back_if(|entry| entry.seq == seq) {
            self.bytes -= entry.payload.len() + OVERHEAD;
            self.sent = self.sent.min(self.entries.len());
        }
    }

    /// Forgets everything up to `saved`.
    pub(super) fn trim(&mut self, saved: Seq) {
        self.from = self.from.max(Seq(saved.0.saturating_add(1)));
        while let Some(entry) = self.entries.front().filter(|entry| entry.seq <= saved) {
            self.bytes -= entry.payload.len() + OVERHEAD;
            self.entries.pop_front();
            self.sent = self.sent.saturating_sub(1);
        }
    }

    /// The number of the first message that may still be here.
    pub(super) fn first(&self) -> Seq {
        self.from
    }

    /// What is kept is to be handed over again, from the number that the room is owed. `false` if the room wants something that
    /// is not here: then nothing may be handed over, since it would overtake what is missing. (Numbers missing above the first one
    /// kept were refused to the client; the room is not owed those.) What the room has but has not saved stays here.
    #[must_use]
    pub(super) fn replay(&mut self, owed: Seq) -> bool {
        if owed < self.from {
            return false;
        }
        self.sent = self.entries.partition_point(|entry| entry.seq < owed);
        true
    }

    /// Gives every message the number that its kind has in another table.
    pub(super) fn translate(&mut self, kind: impl Fn(bool, u16) -> u16) {
        for entry in &mut self.entries {
            entry.kind = kind(entry.request.is_some(), entry.kind);
        }
    }

    /// The next message to hand over.
    pub(super) fn waiting(&self) -> Option<&Entry> {
        self.entries.get(self.sent)
    }

    /// The message from [`Ring::waiting`], of this number, was handed over. By now it may have been saved and trimmed, or a replay
    /// has begun: then the next one to hand over is another, and this changes nothing.
    pub(super) fn handed_over(&mut self, seq: Seq) {
        if self.waiting().is_some_and(|entry| entry.seq == seq) {
            self.sent += 1;
        }
    }

    #[cfg(test)]
    fn numbers(&self) -> Vec<u64> {
        self.entries.iter().map(|e| e.seq.0).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn entry(seq: u64, bytes: usize, at: u64) -> Entry {
        Entry { seq: Seq(seq), request: None, kind: 0, payload: Bytes::from(vec![0; bytes]), at: Mono(at) }
    }

    #[test]
    fn each_bound_refuses() {
        let bounds = UnsavedBounds { count: 3, bytes: 200, age: Duration::from_nanos(10) };
        let mut ring = Ring::new(Seq(1));
        assert_eq!(ring.push(entry(1, 10, 0), &bounds), Ok(()));
        assert_eq!(ring.push(entry(2, 150, 0), &bounds), Err("too many bytes of unsaved messages"));
        assert_eq!(ring.push(entry(2, 10, 11), &bounds), Err("the room has not been saved for too long"));
        assert_eq!(ring.push(entry(2, 10, 10), &bounds), Ok(()));
        assert_eq!(ring.push(entry(3, 10, 10), &bounds), Ok(()));
        assert_eq!(ring.push(entry(4, 0, 10), &bounds), Err("too many unsaved messages"));
        ring.trim(Seq(2));
        assert_eq!(ring.numbers(), [3]);
        assert_eq!(ring.bytes, 34);
    }

    #[test]
    fn a_replay_starts_at_the_number_owed_and_keeps_the_order() {
        let bounds = UnsavedBounds::default();
        let mut ring = Ring::new(Seq(1));
        for seq in 1..=5 {
            ring.push(entry(seq, 1, 0), &bounds).expect("room");
            ring.handed_over(Seq(seq));
        }
        assert!(ring.waiting().is_none());
        assert!(ring.replay(Seq(3)));
        ring.push(entry(6, 1, 0), &bounds).expect("room");
        let mut seen = Vec::new();
        while let Some(next) = ring.waiting() {
            let seq = next.seq;
            seen.push(seq.0);
            ring.handed_over(seq);
        }
        assert_eq!(seen, [3, 4, 5, 6]);
        assert_eq!(ring.numbers(), [1, 2, 3, 4, 5, 6], "it is not saved yet");
        assert_eq!(ring.first(), Seq(1));
        ring.trim(Seq(9));
        assert!(ring.waiting().is_none());
        assert_eq!((ring.bytes, ring.sent), (0, 0));
    }

    #[test]
    fn a_replay_that_begins_while_a_message_is_handed_over_loses_none() {
        let bounds = UnsavedBounds::default();
        let mut ring = Ring::new(Seq(11));
        for seq in 11..=23 {
            ring.push(entry(seq, 1, 0), &bounds).expect("room");
            ring.handed_over(Seq(seq));
        }
        ring.push(entry(24, 1, 0), &bounds).expect("room");
        // The task hands 24 to the node; meanwhile the room is restored.
        assert!(ring.replay(Seq(11)));
        ring.handed_over(Seq(24));
        assert_eq!(ring.waiting().map(|entry| entry.seq), Some(Seq(11)));
    }

    #[test]
    fn what_is_not_here_cannot_be_replayed() {
        let bounds = UnsavedBounds::default();
        let mut ring = Ring::new(Seq(5));
        assert!(!ring.replay(Seq(4)), "it came through another socket");
        // 5 was refused.
        ring.push(entry(6, 1, 0), &bounds).expect("room");
        assert!(ring.replay(Seq(5)));
        ring.trim(Seq(6));
        assert!(!ring.replay(Seq(6)), "it was saved, and forgotten");
        assert!(ring.replay(Seq(7)));
    }

    #[test]
    fn a_message_that_was_not_handed_over_is_forgotten() {
        let bounds = UnsavedBounds::default();
        let mut ring = Ring::new(Seq(1));
        ring.push(entry(1, 7, 0), &bounds).expect("room");
        ring.pop(Seq(1));
        assert!(ring.waiting().is_none());
        assert_eq!(ring.bytes, 0);
    }
}
