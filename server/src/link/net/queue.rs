//! What waits to be written to one link: bounded in bytes, put in from any thread, taken by the link's writer.

use std::{
    collections::VecDeque,
    io::IoSlice,
    sync::atomic::{AtomicUsize, Ordering},
};

use bytes::{Buf, Bytes};
use parking_lot::Mutex;
use tokio::sync::Notify;

use super::codec::{Packet, Packets};

/// What a packet costs besides its bytes: many small ones must not take much more memory than the bound says.
const EACH: usize = 128;
/// Bytes that the writer takes at a time: what it has taken goes before anything that comes later.
const BATCH: usize = 256 * 1024;

/// Why nothing was put in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Why {
    /// At the bound, or the link is not open yet.
    Full,
    /// The link has ended.
    Closed,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Opening,
    Open,
    Closed,
}

struct Inner {
    stage: Stage,
    packets: VecDeque<Packet>,
}

/// See the module.
pub(super) struct Queue {
    inner: Mutex<Inner>,
    /// Bytes with what packets cost, those taken and not yet written included.
    bytes: AtomicUsize,
    wake: Notify,
}

impl Queue {
    pub(super) fn new() -> Self {
        let inner = Inner { stage: Stage::Opening, packets: VecDeque::new() };
        Self { inner: Mutex::new(inner), bytes: AtomicUsize::new(0), wake: Notify::new() }
    }

    /// The handshake is done: messages are taken from here on.
    pub(super) fn open(&self) {
        let mut inner = self.inner.lock();
        if inner.stage == Stage::Opening {
            inner.stage = Stage::Open;
        }
    }

    /// Takes no more messages; what is in it can still be written.
    pub(super) fn close(&self) {
        self.inner.lock().stage = Stage::Closed;
        self.wake.notify_one();
    }

    /// Whether it would be of use to write a message down.
    pub(super) fn may(&self, bound: usize) -> Result<(), Why> {
        match self.inner.lock().stage {
            Stage::Closed => Err(Why::Closed),
            Stage::Opening => Err(Why::Full),
            Stage::Open if self.bytes.load(Ordering::Relaxed) >= bound => Err(Why::Full),
            Stage::Open => Ok(()),
        }
    }

    /// Puts one message in and gives the bytes that wait now. A message that is longer than the bound passes when nothing else waits.
    pub(super) fn push(&self, packets: Packets, bound: usize) -> Result<usize, Why> {
        let cost: usize = packets.iter().map(|packet| packet.len + EACH).sum();
        let mut inner = self.inner.lock();
        match inner.stage {
            Stage::Opening => return Err(Why::Full),
            Stage::Closed => return Err(Why::Closed),
            Stage::Open => {}
        }
        let before = self.bytes.load(Ordering::Relaxed);
        if before > 0 && before.saturating_add(cost) > bound {
            return Err(Why::Full);
        }
        self.bytes.fetch_add(cost, Ordering::Relaxed);
        let first = inner.packets.is_empty();
        inner.packets.extend(packets);
        drop(inner);
        if first {
            self.wake.notify_one();
        }
        Ok(before + cost)
    }

    /// Moves packets to the writer. Gives their number, and what they cost until [`Queue::written`].
    pub(super) fn take(&self, to: &mut Pending) -> (usize, usize) {
        let (mut count, mut cost) = (0, 0);
        let mut inner = self.inner.lock();
        while cost < BATCH {
            let Some(packet) = inner.packets.pop_front() else { break };
            count += 1;
            cost += packet.len + EACH;
            to.left += packet.len;
            to.segments.extend(packet.segments);
        }
        (count, cost)
    }

    /// What was taken is written, or given up.
    pub(super) fn written(&self, cost: usize) {
        self.bytes.fetch_sub(cost, Ordering::Relaxed);
    }

    /// Resolves when there may be something to take. Cancel-safe; for one task at a time.
    pub(super) async fn ready(&self) {
        self.wake.notified().await;
    }
}

/// What the writer has taken and not yet written, for vectored writes.
#[derive(Default)]
pub(super) struct Pending {
    segments: VecDeque<Bytes>,
    left: usize,
}

impl Pending {
    pub(super) fn push(&mut self, bytes: Bytes) {
        self.left += bytes.len();
        self.segments.push_back(bytes);
    }
}

impl Buf for Pending {
    fn remaining(&self) -> usize {
        self.left
    }

    fn chunk(&self) -> &[u8] {
        self.segments.front().map_or(&[], Bytes::as_ref)
    }

    fn chunks_vectored<'a>(&'a self, to: &mut [IoSlice<'a>]) -> usize {
        let slices = to.iter_mut().zip(&self.segments);
        slices.map(|(slot, segment)| *slot = IoSlice::new(segment)).count()
    }

    fn advance(&mut self, mut by: usize) {
        self.left = self.left.saturating_sub(by);
        while let Some(front) = self.segments.front_mut() {
            if by < front.len() {
                front.advance(by);
                return;
            }
            by -= front.len();
            self.segments.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(len: usize) -> Packets {
        let segments = smallvec::smallvec![Bytes::from(vec![7; len])];
        Packets::from_elem(Packet { segments, len }, 1)
    }

    #[test]
    fn the_bound_counts_what_is_being_written() {
        let queue = Queue::new();
        assert_eq!(queue.push(message(1), 1_000), Err(Why::Full), "not open yet");
        queue.open();
        assert_eq!(queue.push(message(5_000), 1_000), Ok(5_000 + EACH), "alone it passes, however long");
        assert_eq!(queue.push(message(1), 1_000), Err(Why::Full));
        assert_eq!(queue.may(1_000), Err(Why::Full));
        assert_eq!(queue.push(message(1), 10_000), Ok(5_001 + 2 * EACH), "a higher bound lets others pass");
        let mut pending = Pending::default();
        let (count, cost) = queue.take(&mut pending);
        assert_eq!((count, cost, pending.remaining()), (2, 5_001 + 2 * EACH, 5_001));
        assert_eq!(queue.push(message(1), 1_000), Err(Why::Full), "taken is not written");
        queue.written(cost);
        assert_eq!(queue.push(message(1), 1_000), Ok(1 + EACH));
        queue.close();
        assert_eq!(queue.push(message(1), 1_000), Err(Why::Closed));
        queue.open();
        assert_eq!(queue.may(1_000), Err(Why::Closed), "what has ended does not begin again");
    }

    #[test]
    fn pending_gives_its_segments_and_goes_on_inside_of_one() {
        let mut pending = Pending::default();
        for text in ["ab", "", "cde", "f"] {
            pending.push(Bytes::from_static(text.as_bytes()));
        }
        let mut slices = [IoSlice::new(&[]); 3];
        assert_eq!(pending.chunks_vectored(&mut slices), 3);
        assert_eq!(slices.iter().flat_map(|slice| slice.to_vec()).collect::<Vec<u8>>(), b"abcde");
        pending.advance(3);
        assert_eq!((pending.remaining(), pending.chunk()), (3, &b"de"[..]));
        assert_eq!(pending.copy_to_bytes(3), "def");
        assert!(!pending.has_remaining() && pending.chunk().is_empty());
    }
}
