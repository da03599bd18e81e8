//! Writes what rooms say to the sockets: one wake-up per room and tick, whatever the number of members (DESIGN.md §9).
//!
//! Messages of one room go through one mailbox, in order. When a mailbox is half full, frames lose their state (members get one
//! snapshot later) and keep their tails; when it is full, the message is given back.

use std::{
    collections::BTreeMap,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicUsize, Ordering},
    },
};

use tenure_shared::{Generation, RoomId, SeatId};

use super::{
    conn::{Conn, Note, Shown},
    metrics::Metrics,
    slab::Slab,
};
use crate::{
    link::{Attached, ConnId, Downlink, Frame, ToGateway, ToNode, Uplink},
    runtime::{
        Clock, Mono, Shutdown,
        mailbox::{self, Receiver, Refused, Sender},
    },
};

/// Frames that wait in one mailbox with their state.
const FRAMES: usize = 1_024;
/// Messages that wait in one mailbox.
const MAILBOX: usize = 2 * FRAMES;
/// Messages handled before other tasks of the thread get their turn.
const BATCH: usize = 8;
/// Detaches that wait because their rooms' queues are full. At the bound the lane takes no more messages until some are gone: then the
/// node finds this gateway deaf, and lets its seats go by itself.
const ORPHANS: usize = 4_096;
/// How long such a detach waits before it is tried again.
const ORPHAN_PAUSE: std::time::Duration = std::time::Duration::from_millis(20);

struct Item {
    message: ToGateway,
    /// The state of this frame was dropped.
    lost: bool,
}

struct Lane {
    sender: Sender<Item>,
    waiting: Arc<AtomicUsize>,
}

/// What nodes hand their messages to.
pub(super) struct FanOut {
    lanes: Vec<Lane>,
    conns: Arc<Slab<Conn>>,
}

/// The other end of a lane.
pub(super) struct LaneTask {
    receiver: Receiver<Item>,
    waiting: Arc<AtomicUsize>,
    shared: Arc<Shared>,
    /// One per seat: the newest attachment of it that nobody wants.
    orphans: BTreeMap<(RoomId, SeatId), Generation>,
    /// When to offer them again.
    retry_at: Option<Mono>,
}

/// What all lanes use.
pub(super) struct Shared {
    pub(super) conns: Arc<Slab<Conn>>,
    pub(super) clock: Clock,
    pub(super) metrics: Metrics,
    pub(super) uplink: OnceLock<Arc<dyn Uplink>>,
}

impl FanOut {
    pub(super) fn new(lanes: usize, shared: &Arc<Shared>) -> (Self, Vec<LaneTask>) {
        let (mut senders, mut tasks) = (Vec::new(), Vec::new());
        for _ in 0..lanes.max(1) {
            let (sender, receiver) = mailbox::channel("gateway_fanout", MAILBOX);
            let waiting = Arc::new(AtomicUsize::new(0));
            senders.push(Lane { sender, waiting: waiting.clone() });
            tasks.push(LaneTask {
                receiver,
                waiting,
                shared: shared.clone(),
                orphans: BTreeMap::new(),
                retry_at: None,
            });
        }
        (Self { lanes: senders, conns: shared.conns.clone() }, tasks)
    }

    /// Everything of one room goes through one lane; what names only a connection follows the frames of its room.
    fn lane(&self, message: &ToGateway) -> Option<&Lane> {
        let at = match message {
            ToGateway::Frame(Frame { room, .. })
            | ToGateway::Restored { room, .. }
            | ToGateway::Attached(Attached { room, .. }) => spread(room),
            ToGateway::Snapshot { conn, .. }
            | ToGateway::Found { conn, .. }
            | ToGateway::Refused { conn, .. }
            | ToGateway::Left { conn }
            | ToGateway::NotOwner { conn, .. }
            | ToGateway::Close { conn, .. } => {
                let room = self.conns.get(*conn).and_then(|conn| conn.lock().room().map(spread));
                room.unwrap_or(conn.0 as usize)
            }
            ToGateway::Gone { room, .. } => spread(room),
            ToGateway::Moved { .. } => 0,
        };
        self.lanes.get(at % self.lanes.len())
    }
}

fn spread(room: &RoomId) -> usize {
    xxhash_rust::xxh3::xxh3_64(room.as_str().as_bytes()) as usize
}

impl Downlink for FanOut {
    fn send(&self, message: ToGateway) -> Result<(), Refused<ToGateway>> {
        let Some(lane) = self.lane(&message) else { return Err(Refused::Closed(message)) };
        let mut item = Item { message, lost: false };
        if lane.waiting.fetch_add(1, Ordering::Relaxed) >= FRAMES
            && let ToGateway::Frame(frame) = &mut item.message
            && !frame.body.is_empty()
        {
            frame.body = bytes::Bytes::new();
            item.lost = true;
        }
        lane.sender.try_send(item).map_err(|refused| {
            lane.waiting.fetch_sub(1, Ordering::Relaxed);
            match refused {
                Refused::Full(item) => Refused::Full(item.message),
                Refused::Closed(item) => Refused::Closed(item.message),
            }
        })
    }
}

impl LaneTask {
    /// Runs until the gateway stops.
    pub(super) async fn run(mut self, stop: Shutdown) {
        loop {
            for _ in 0..BATCH {
                let now = self.shared.clock.now();
                if self.retry_at.is_some_and(|at| now >= at) {
                    self.retry_orphans(now);
                }
                let pause = async {
                    match self.retry_at {
                        None => std::future::pending().await,
                        Some(at) => self.shared.clock.sleep_until(at).await,
                    }
                };
                let item = tokio::select! {
                    biased;
                    item = self.receiver.recv(), if self.orphans.len() < ORPHANS => item,
                    () = stop.stopped() => None,
                    () = pause => continue,
                };
                let Some(item) = item else { return };
                self.waiting.fetch_sub(1, Ordering::Relaxed);
                self.handle(item);
            }
            // A room is never far ahead of its members, but the members' own tasks need the thread too.
            tokio::task::yield_now().await;
        }
    }

    fn handle(&mut self, Item { message, lost }: Item) {
        let now = self.shared.clock.now();
        match message {
            ToGateway::Frame(frame) => self.frame(now, &frame, lost),
            ToGateway::Snapshot { conn, term, tick, bytes } => {
                let shown = self.get(conn).map(|conn| conn.lock().snapshot(now, term, tick, &bytes));
                if shown == Some(Shown::Stale) {
                    self.shared.metrics.stale.increment(1);
                }
            }
            ToGateway::Restored { room, term, tick, members } => {
                for member in members {
                    let conn = self.get(member.conn);
                    let shown = conn.map(|conn| conn.lock().restored(now, &room, (term, tick), &member));
                    match shown {
                        Some(Shown::Yes) => {}
                        Some(Shown::Stale) => self.shared.metrics.stale.increment(1),
                        // Its own detach, if it is on its way, names an older attachment.
                        Some(Shown::Gone) | None => self.orphan(room.clone(), member.seat, member.generation),
                    }
                }
            }
            ToGateway::Attached(attached) => {
                let refused = match self.get(attached.conn) {
                    Some(conn) => conn.attached(attached).err(),
                    None => Some(attached),
                };
                // The socket is gone, or gave up waiting: the seat must not count as connected.
                if let Some(Attached { room, seat, generation, .. }) = refused {
                    self.orphan(room, seat, generation);
                }
            }
            ToGateway::Found { conn, .. }
            | ToGateway::Refused { conn, .. }
            | ToGateway::Left { conn }
            | ToGateway::NotOwner { conn, .. }
            | ToGateway::Close { conn, .. } => {
                let noted = self.get(conn).is_none_or(|conn| conn.note(Note::Node(message)));
                if !noted {
                    tracing::debug!(
                        conn = conn.0,
                        "a note of the node came when the connection ended, or one too many"
                    );
                }
            }
            ToGateway::Moved { .. } | ToGateway::Gone { .. } => {}
        }
    }

    fn frame(&self, now: Mono, frame: &Frame, lost: bool) {
        let (mut shown, mut stale, mut bytes) = (0, 0, 0);
        for member in &frame.members {
            let Some(conn) = self.get(member.conn) else { continue };
            match conn.lock().frame(now, frame, *member, lost) {
                Shown::Yes => {
                    shown += 1;
                    bytes += frame.body.len() + member.end.saturating_sub(member.start) as usize;
                }
                Shown::Stale | Shown::Gone => stale += 1,
            }
        }
        let metrics = &self.shared.metrics;
        metrics.frames.increment(shown);
        metrics.frame_bytes.increment(bytes as u64);
        if stale > 0 {
            metrics.stale.increment(stale);
        }
        if lost {
            metrics.lost.increment(1);
        }
    }

    fn get(&self, id: ConnId) -> Option<Arc<Conn>> {
        self.shared.conns.get(id)
    }

    /// A seat that nobody wants is given back, now or when its room has a place for it.
    fn orphan(&mut self, room: RoomId, seat: SeatId, generation: Generation) {
        let detach = ToNode::Detach { room: room.clone(), seat, generation, consented: false };
        if self.shared.uplink.get().is_some_and(|uplink| !matches!(uplink.send(detach), Err(Refused::Full(_)))) {
            return;
        }
        let newest = self.orphans.entry((room, seat)).or_default();
        *newest = generation.max(*newest);
        self.retry_at.get_or_insert_with(|| self.shared.clock.now().plus(ORPHAN_PAUSE));
    }

    /// Offers them all: a room that is busy does not keep the others' seats taken.
    fn retry_orphans(&mut self, now: Mono) {
        if let Some(uplink) = self.shared.uplink.get() {
            self.orphans.retain(|(room, seat), generation| {
                let (room, seat, generation) = (room.clone(), *seat, *generation);
                let detach = ToNode::Detach { room, seat, generation, consented: false };
                matches!(uplink.send(detach), Err(Refused::Full(_)))
            });
        }
        self.retry_at = (!self.orphans.is_empty()).then(|| now.plus(ORPHAN_PAUSE));
    }
}

#[cfg(test)]
#[path = "fanout_tests.rs"]
mod tests;
