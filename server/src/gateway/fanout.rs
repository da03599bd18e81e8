//! Writes what rooms say to the sockets: one wake-up per room and tick, whatever the number of members (docs/ARCHITECTURE.md).
//!
//! Messages of one room go through one mailbox, in order. When a mailbox is half full, frames lose their state (members get one
//! snapshot later) and keep their tails; when it is full, the message is given back.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use tenure_shared::{RoomId, ShardId, Term};

use super::{
    conn::{Conn, Note, Shown, Taken},
    metrics::Metrics,
    orphans::Orphans,
    router::{Link, Register},
    slab::Slab,
    tables::Tables,
};
use crate::{
    link::{Attached, ConnId, Frame, ToGateway},
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
/// What a lane is given.
#[derive(Clone, Debug)]
pub(super) enum Item {
    /// A node's message, and the link it came through. `lost`: the state of this frame was dropped.
    Message { link: Arc<Link>, message: ToGateway, lost: bool },
    /// The seats of this shard, or all, are no longer on the link.
    Off { link: Arc<Link>, shard: Option<ShardId>, why: Off },
    /// There is somebody to ask for the seats of this shard that are between owners.
    Found { shard: ShardId, waiting: Arc<Register> },
}

/// Why seats are no longer on a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Off {
    /// It broke.
    Broken,
    /// The node said that this term ended; 0 for whichever it was.
    Moved(Term),
    /// Another has the shard for this term.
    Newer(Term),
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
    /// Of so many.
    index: usize,
    lanes: usize,
    receiver: Receiver<Item>,
    waiting: Arc<AtomicUsize>,
    shared: Arc<Shared>,
    orphans: Orphans,
}

/// What all lanes use.
pub(super) struct Shared {
    pub(super) conns: Arc<Slab<Conn>>,
    pub(super) clock: Clock,
    pub(super) metrics: Metrics,
    pub(super) tables: Tables,
    /// Into how many shards the rooms are divided.
    pub(super) shards: u32,
}

impl FanOut {
    pub(super) fn new(lanes: usize, shared: &Arc<Shared>) -> (Self, Vec<LaneTask>) {
        let (mut senders, mut tasks) = (Vec::new(), Vec::new());
        let lanes = lanes.max(1);
        for index in 0..lanes {
            let (sender, receiver) = mailbox::channel("gateway_fanout", MAILBOX);
            let waiting = Arc::new(AtomicUsize::new(0));
            senders.push(Lane { sender, waiting: waiting.clone() });
            tasks.push(LaneTask {
                index,
                lanes,
                receiver,
                waiting,
                shared: shared.clone(),
                orphans: Orphans::default(),
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
            | ToGateway::Answered { conn, .. }
            | ToGateway::Refused { conn, .. }
            | ToGateway::Left { conn }
            | ToGateway::NotOwner { conn, .. }
            | ToGateway::Close { conn, .. } => {
                let room = self.conns.get(*conn).and_then(|conn| conn.lock().room().map(spread));
                room.unwrap_or(conn.0 as usize)
            }
            ToGateway::Gone { room, .. } => spread(room),
            // Goes to all of them.
            ToGateway::Moved { .. } => 0,
        };
        self.lanes.get(at % self.lanes.len())
    }

    /// Takes a node's message.
    ///
    /// # Errors
    /// As [`crate::link::Downlink::send`].
    pub(super) fn send(&self, link: Arc<Link>, mut message: ToGateway) -> Result<(), Refused<ToGateway>> {
        if let ToGateway::Moved { shard, term, .. } = message {
            let off = Item::Off { link, shard: Some(shard), why: Off::Moved(term) };
            // Each lane behind the frames that it has: told twice is as good as once.
            for lane in &self.lanes {
                match lane.put(off.clone()) {
                    Ok(()) => {}
                    Err(Refused::Full(_)) => return Err(Refused::Full(message)),
                    Err(Refused::Closed(_)) => return Err(Refused::Closed(message)),
                }
            }
            return Ok(());
        }
        let Some(lane) = self.lane(&message) else { return Err(Refused::Closed(message)) };
        let mut lost = false;
        if lane.waiting.load(Ordering::Relaxed) >= FRAMES
            && let ToGateway::Frame(frame) = &mut message
            && !frame.body.is_empty()
        {
            frame.body = bytes::Bytes::new();
            lost = true;
        }
        lane.put(Item::Message { link, message, lost }).map_err(|refused| match refused {
            Refused::Full(Item::Message { message, .. }) => Refused::Full(message),
            Refused::Closed(Item::Message { message, .. }) => Refused::Closed(message),
            Refused::Full(_) | Refused::Closed(_) => unreachable!("a message was put in"),
        })
    }

    /// Tells all lanes, waiting where one is full. Not cancel-safe: some may be told, and others not.
    pub(super) async fn tell(&self, item: &Item) {
        for lane in &self.lanes {
            lane.waiting.fetch_add(1, Ordering::Relaxed);
            // Closed only when the gateway ends.
            if lane.sender.send(item.clone()).await.is_err() {
                lane.waiting.fetch_sub(1, Ordering::Relaxed);
            }
        }
    }
}

impl Lane {
    fn put(&self, item: Item) -> Result<(), Refused<Item>> {
        self.waiting.fetch_add(1, Ordering::Relaxed);
        self.sender.try_send(item).inspect_err(|_| {
            self.waiting.fetch_sub(1, Ordering::Relaxed);
        })
    }
}

fn spread(room: &RoomId) -> usize {
    xxhash_rust::xxh3::xxh3_64(room.as_str().as_bytes()) as usize
}

impl LaneTask {
    /// Runs until the gateway stops.
    pub(super) async fn run(mut self, stop: Shutdown) {
        loop {
            for _ in 0..BATCH {
                let now = self.shared.clock.now();
                self.orphans.retry(now);
                let pause = async {
                    match self.orphans.due() {
                        None => std::future::pending().await,
                        Some(at) => self.shared.clock.sleep_until(at).await,
                    }
                };
                let item = tokio::select! {
                    biased;
                    item = self.receiver.recv() => item,
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

    fn handle(&mut self, item: Item) {
        let now = self.shared.clock.now();
        match item {
            Item::Message { link, message, lost } => self.message(now, &link, message, lost),
            Item::Off { link, shard, why } => {
                for conn in self.own(&link.seats.conns(shard)) {
                    conn.lock().off(link.id, shard, why);
                }
            }
            Item::Found { shard, waiting } => {
                for conn in self.own(&waiting.conns(Some(shard))) {
                    // One that has notes enough looks by itself.
                    conn.note(Note::Route);
                }
            }
        }
    }

    fn message(&mut self, now: Mono, link: &Arc<Link>, message: ToGateway, lost: bool) {
        match message {
            ToGateway::Frame(frame) => self.frame(now, link, &frame, lost),
            ToGateway::Snapshot { conn, term, tick, bytes } => {
                let shown = self.get(conn).map(|conn| conn.lock().snapshot(now, link.id, (term, tick), &bytes));
                if shown == Some(Shown::Stale) {
                    self.shared.metrics.stale.increment(1);
                }
            }
            ToGateway::Restored { room, term, tick, members } => {
                let mut behind = None;
                for member in members {
                    let conn = self.get(member.conn);
                    let shown = conn.map(|conn| conn.lock().restored(now, link.id, &room, (term, tick), &member));
                    match shown {
                        Some(Shown::Yes) => {}
                        Some(Shown::Stale) => self.shared.metrics.stale.increment(1),
                        Some(Shown::Behind(term)) => behind = behind.max(Some(term)),
                        // Its own detach, if it is on its way, names an older attachment.
                        Some(Shown::Gone) | None => {
                            self.orphans.give_back(now, link, room.clone(), member.seat, member.generation);
                        }
                    }
                }
                self.behind(now, link, &room, behind);
            }
            ToGateway::Attached(attached) => self.attached(now, link, attached),
            ToGateway::Left { conn } | ToGateway::Close { conn, .. } => {
                let conn = self.get(conn).filter(|conn| conn.lock().is_on(link.id));
                match conn {
                    Some(conn) => Self::note(&conn, message),
                    // Of a seat that the node had, and has no more.
                    None => self.shared.metrics.stale.increment(1),
                }
            }
            ToGateway::Found { conn, .. }
            | ToGateway::Answered { conn, .. }
            | ToGateway::Refused { conn, .. }
            | ToGateway::NotOwner { conn, .. } => {
                if let Some(conn) = self.get(conn) {
                    Self::note(&conn, message);
                }
            }
            ToGateway::Gone { room, seat, generation } => {
                let shard = room.shard(self.shared.shards);
                for conn in self.own(&link.seats.conns(Some(shard))) {
                    conn.lock().gone(link.id, &room, seat, generation);
                }
            }
            // Made an item of its own on its way in.
            ToGateway::Moved { .. } => {}
        }
    }

    fn note(conn: &Conn, message: ToGateway) {
        if !conn.note(Note::Node(message)) {
            tracing::debug!(conn = conn.id.0, "a note of the node came when the connection ended, or one too many");
        }
    }

    fn attached(&mut self, now: Mono, link: &Arc<Link>, attached: Attached) {
        let taken = match self.get(attached.conn) {
            Some(conn) => conn.attached(now, link, &self.shared.tables, attached),
            None => Taken::No(attached),
        };
        match taken {
            Taken::Yes => {}
            // The socket is gone, or gave up waiting: the seat must not count as connected.
            Taken::No(Attached { room, seat, generation, .. }) => {
                self.orphans.give_back(now, link, room, seat, generation);
            }
            Taken::Behind(Attached { room, seat, generation, .. }, term) => {
                self.behind(now, link, &room, term);
                self.orphans.give_back(now, link, room, seat, generation);
            }
        }
    }

    fn frame(&self, now: Mono, link: &Arc<Link>, frame: &Frame, lost: bool) {
        let (mut shown, mut stale, mut bytes, mut behind) = (0, 0, 0, None);
        for member in &frame.members {
            let Some(conn) = self.get(member.conn) else { continue };
            match conn.lock().frame(now, link.id, frame, *member, lost) {
                Shown::Yes => {
                    shown += 1;
                    bytes += frame.body.len() + member.end.saturating_sub(member.start) as usize;
                }
                Shown::Behind(term) => {
                    stale += 1;
                    behind = behind.max(Some(term));
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
        self.behind(now, link, &frame.room, behind);
    }

    /// No room stays mute because its owner serves for a term below one that was shown (H7): it is told, and acquires anew.
    fn behind(&self, now: Mono, link: &Link, room: &RoomId, seen: Option<Term>) {
        let Some(term) = seen else { return };
        if link.term_seen(room.shard(self.shared.shards), term, now) {
            self.shared.metrics.term_seen.increment(1);
        }
    }

    fn get(&self, id: ConnId) -> Option<Arc<Conn>> {
        self.shared.conns.get(id)
    }

    /// Those of the connections whose room is of this lane: what is to be told to them comes behind what the lane has.
    fn own(&self, conns: &[ConnId]) -> Vec<Arc<Conn>> {
        let all = conns.iter().filter_map(|conn| self.get(*conn));
        all.filter(|conn| conn.lock().room().is_some_and(|room| spread(room) % self.lanes == self.index)).collect()
    }
}

#[cfg(test)]
#[path = "fanout_tests.rs"]
mod tests;
