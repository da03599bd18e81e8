//! Messages for daemons of other nodes, over the links between nodes: a request with a number, and its answer.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use tenure_shared::{IncarnationId, ShardId};
use tokio::sync::oneshot;

use super::{
    handle::{Daemons, Shared},
    letter::{MESSAGE_BYTES, Refused},
    survey::Place,
    table::DaemonStatus,
    user::{decode, encode},
};
use crate::{
    link::{Address, PeerBody, PeerInbox, PeerMessage, Peers, net::PEER_BYTES},
    runtime::{Mono, Tasks, tasks::Kind},
};

/// Under which name other nodes' messages are for this module.
pub const TOPIC: &str = "daemons";
/// Most messages of other nodes handled here at a time; one more is answered as busy.
const HANDLED: usize = 1_024;
/// How many numbers of requests are remembered, so that one that comes twice is taken once.
const REMEMBERED: usize = 8_192;
/// Room for what stands around a message.
const ENVELOPE: usize = 1_024;
const _: () = assert!(MESSAGE_BYTES + 2 * ENVELOPE <= PEER_BYTES);
/// Longest deadline that another node may ask for.
const LONGEST: Duration = Duration::from_secs(300);

/// Makes the owner of a shard of this node look for work.
pub type Wake = Arc<dyn Fn(ShardId) + Send + Sync>;

/// What goes over the link.
#[derive(Debug, Serialize, Deserialize)]
enum Packet {
    Request {
        number: u64,
        name: String,
        index: u32,
        asks: bool,
        left: Duration,
        body: Bytes,
    },
    Answer {
        number: u64,
        answer: Result<Bytes, Refused>,
    },
    /// To the owner of a shard: look for work.
    Wake {
        shard: ShardId,
    },
    /// To everybody: what was agreed on about a set has changed. Who does not hear it finds out when it reads it the next time.
    Changed {
        name: String,
    },
    /// How are those of a set doing that are at your node? Answered with the page behind this place.
    Look {
        number: u64,
        name: String,
        after: Option<Place>,
    },
    /// Try a parked one again. Answered with what it was doing.
    Unpark {
        number: u64,
        name: String,
        index: u32,
    },
}

/// This node's way to the others.
pub(super) struct Post {
    pub(super) peers: Option<Arc<dyn Peers>>,
    /// Where this node is reached; `None` without links.
    pub(super) own: Option<Address>,
    number: AtomicU64,
    open: Mutex<BTreeMap<u64, oneshot::Sender<Result<Bytes, Refused>>>>,
}

impl Post {
    /// `random` is where numbers begin, so that those of two lives differ.
    pub(super) fn new(peers: Option<(Arc<dyn Peers>, Address)>, random: u64) -> Self {
        let (peers, own) = peers.unzip();
        Self { peers, own, number: AtomicU64::new(random >> 1), open: Mutex::default() }
    }

    /// Sends word to the owner of a shard; `false`: there is none that can be reached.
    pub(super) fn wake(&self, shared: &Shared, shard: ShardId) -> bool {
        let (Some(peers), Some(own), Some(from)) = (&self.peers, &self.own, shared.ownership.incarnation()) else {
            return false;
        };
        let view = shared.ownership.view();
        let owner = view.routes.get(&shard).and_then(|owned| owned.owner.clone()).filter(|owner| *owner != from);
        let (Some(to), Some(address)) = (owner, view.owner(shard).and_then(|owner| owner.address)) else {
            return false;
        };
        let Ok(body) = encode(&Packet::Wake { shard }) else { return false };
        let body = PeerBody::Other(TOPIC.to_owned(), body);
        peers.send(&address, PeerMessage { from, reply: own.clone(), to, body }).is_ok()
    }

    /// Tells all other members that what was agreed on about a set has changed.
    pub(super) fn tell_changed(&self, shared: &Shared, name: &str) {
        let (Some(peers), Some(own), Some(life)) = (&self.peers, &self.own, shared.ownership.incarnation()) else {
            return;
        };
        let Ok(body) = encode(&Packet::Changed { name: name.to_owned() }) else { return };
        let view = shared.ownership.view();
        let others = view.members.iter().filter(|member| member.incarnation != life && !member.info.link.is_empty());
        for member in others {
            let body = PeerBody::Other(TOPIC.to_owned(), body.clone());
            let message = PeerMessage { from: life.clone(), reply: own.clone(), to: member.incarnation.clone(), body };
            // Who cannot be reached reads it in time.
            drop(peers.send(&Address::from(member.info.link.as_str()), message));
        }
    }

    /// Sends a message to the daemon's node. [`Refused::Moving`]: it surely was not taken.
    pub(super) async fn message(
        &self,
        shared: &Shared,
        to: &IncarnationId,
        (name, index): (&str, u32),
        body: Bytes,
        asks: bool,
        deadline: Mono,
    ) -> Result<Bytes, Refused> {
        let (name, left) = (name.to_owned(), deadline.since(shared.clock.now()));
        self.call(shared, to, deadline, |number| Packet::Request { number, name, index, asks, left, body }).await
    }

    /// One page of how the daemons of a set are doing at a node; `None`: no answer, or none that can be read.
    pub(super) async fn look(
        &self,
        shared: &Shared,
        to: &IncarnationId,
        name: &str,
        after: Option<Place>,
        deadline: Mono,
    ) -> Option<Vec<DaemonStatus>> {
        let name = name.to_owned();
        let page = self.call(shared, to, deadline, |number| Packet::Look { number, name, after }).await.ok()?;
        decode(&page).ok()
    }

    /// Tries a parked one of another node again; what it was doing.
    pub(super) async fn unpark(
        &self,
        shared: &Shared,
        to: &IncarnationId,
        (name, index): (&str, u32),
        deadline: Mono,
    ) -> Result<String, Refused> {
        let name = name.to_owned();
        let stage = self.call(shared, to, deadline, |number| Packet::Unpark { number, name, index }).await?;
        decode(&stage).map_err(Refused::Unreadable)
    }

    async fn call(
        &self,
        shared: &Shared,
        to: &IncarnationId,
        deadline: Mono,
        packet: impl FnOnce(u64) -> Packet,
    ) -> Result<Bytes, Refused> {
        let (Some(peers), Some(own), Some(life)) = (&self.peers, &self.own, shared.ownership.incarnation()) else {
            return Err(Refused::Moving);
        };
        let view = shared.ownership.view();
        let member = view.members.iter().find(|member| member.incarnation == *to);
        let Some(address) = member.map(|member| Address::from(member.info.link.as_str())) else {
            return Err(Refused::Moving);
        };
        let number = self.number.fetch_add(1, Ordering::Relaxed);
        let body = encode(&packet(number)).map_err(Refused::Unreadable)?;
        let body = PeerBody::Other(TOPIC.to_owned(), body);
        let message = PeerMessage { from: life, reply: own.clone(), to: to.clone(), body };
        let (answer, mut answered) = oneshot::channel();
        self.open.lock().insert(number, answer);
        // Whatever ends the waiting takes the row away.
        let row = Row { post: self, number };
        // The queue to that process is full, or it is known not to be reachable: nothing left.
        peers.send(&address, message).map_err(|_| Refused::Moving)?;
        loop {
            tokio::select! {
                biased;
                answer = &mut answered => {
                    drop(row);
                    return answer.unwrap_or(Err(Refused::Unanswered));
                }
                () = shared.clock.sleep_until(shared.clock.now().plus(LOOK).min(deadline)) => {}
            }
            let view = shared.ownership.view();
            let lives = view.members.iter().any(|member| member.incarnation == *to);
            if !lives || shared.clock.now() >= deadline {
                return Err(Refused::Unanswered);
            }
        }
    }
}

/// Between two looks whether a node that owes an answer lives.
const LOOK: Duration = Duration::from_millis(250);

struct Row<'a> {
    post: &'a Post,
    number: u64,
}

impl Drop for Row<'_> {
    fn drop(&mut self) {
        self.post.open.lock().remove(&self.number);
    }
}

/// Where the messages of other nodes for daemons arrive.
pub struct DaemonInbox {
    daemons: Daemons,
    tasks: Tasks,
    seen: Mutex<VecDeque<(IncarnationId, u64)>>,
    handled: Arc<tokio::sync::Semaphore>,
}

impl std::fmt::Debug for DaemonInbox {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("DaemonInbox")
    }
}

impl DaemonInbox {
    /// For these daemons; `tasks` run what waits for a daemon.
    pub fn new(daemons: Daemons, tasks: Tasks) -> Self {
        let handled = Arc::new(tokio::sync::Semaphore::new(HANDLED));
        Self { daemons, tasks, seen: Mutex::default(), handled }
    }

    fn is_new(&self, from: &IncarnationId, number: u64) -> bool {
        let mut seen = self.seen.lock();
        if seen.iter().any(|(known, of)| *of == number && known == from) {
            return false;
        }
        if seen.len() == REMEMBERED {
            seen.pop_front();
        }
        seen.push_back((from.clone(), number));
        true
    }
}

impl DaemonInbox {
    /// Makes the answer to a request, and sends it back.
    fn answer<F>(
        &self,
        number: u64,
        from: IncarnationId,
        to: IncarnationId,
        reply: Address,
        make: impl FnOnce(Daemons) -> F,
    ) where
        F: Future<Output = Result<Bytes, Refused>> + Send + 'static,
    {
        let daemons = self.daemons.clone();
        let back = move |answer| {
            let packet = Packet::Answer { number, answer };
            let (Ok(body), Some(peers)) = (encode(&packet), &daemons.0.post.peers) else { return dropped() };
            let own = daemons.0.post.own.clone().unwrap_or_else(|| reply.clone());
            let body = PeerBody::Other(TOPIC.to_owned(), body);
            // An answer that is lost is one that its sender knows not to have.
            if peers.send(&reply, PeerMessage { from: to, reply: own, to: from, body }).is_err() {
                dropped();
            }
        };
        let Ok(place) = self.handled.clone().try_acquire_owned() else { return back(Err(Refused::Busy)) };
        let made = make(self.daemons.clone());
        self.tasks.spawn("message for a daemon", Kind::Job, async move {
            let _place = place;
            back(made.await);
        });
    }
}

fn dropped() {
    metrics::counter!("tenure_daemon_messages_dropped_total").increment(1);
}

impl PeerInbox for DaemonInbox {
    fn take(&self, message: PeerMessage) {
        let PeerMessage { from, reply, to, body } = message;
        let shared = &self.daemons.0;
        let (PeerBody::Other(topic, body), true) = (body, shared.ownership.incarnation().as_ref() == Some(&to)) else {
            return dropped();
        };
        if topic != TOPIC || body.len() > MESSAGE_BYTES + ENVELOPE {
            return dropped();
        }
        match decode::<Packet>(&body) {
            Ok(Packet::Answer { number, answer }) => {
                match shared.post.open.lock().remove(&number) {
                    // Whoever asked may have given up.
                    Some(open) => drop(open.send(answer)),
                    None => dropped(),
                }
            }
            Ok(Packet::Wake { shard }) => match (&shared.wake, shared.ownership.fence(shard)) {
                (Some(wake), Some(_)) => wake(shard),
                _ => dropped(),
            },
            Ok(Packet::Request { number, name, index, asks, left, body }) if self.is_new(&from, number) => {
                self.answer(number, from, to, reply, move |daemons| async move {
                    let deadline = daemons.0.clock.now().plus(left.min(LONGEST));
                    daemons.put(&daemons.inbox(&name, index)?, body, asks, deadline).await
                });
            }
            Ok(Packet::Changed { name }) => self.daemons.agreement_changed(&name),
            // Both may come twice.
            Ok(Packet::Look { number, name, after }) => {
                self.answer(number, from, to, reply, move |daemons| async move { daemons.page(&name, after) });
            }
            Ok(Packet::Unpark { number, name, index }) => {
                self.answer(number, from, to, reply, move |daemons| async move {
                    let stage = daemons.unpark_here(&name, index).await?;
                    encode(&stage).map_err(Refused::Unreadable)
                });
            }
            Ok(Packet::Request { .. }) | Err(_) => dropped(),
        }
    }
}
