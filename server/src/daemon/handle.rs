//! [`Daemons`]: the handle that everyone holds. The driver behind it is in `driver.rs`.

use std::{sync::Arc, time::Duration};

use arc_swap::ArcSwap;
use bytes::Bytes;
use tenure_shared::{IncarnationId, ShardId};
use tokio::sync::{Semaphore, oneshot};

use super::{
    letter::{Letter, MESSAGE_BYTES, Refused},
    post::{Post, Wake},
    spec::ShardedDaemonProcess,
    table::Table,
    user::{Daemon, decode, encode},
};
use crate::{
    ownership::Ownership,
    room::host::QUESTIONS,
    runtime::{Changes, Clock, Mono, mailbox},
    store::Store,
};

/// How long a message waits for a daemon that moves, and for its answer, unless said otherwise.
pub const DEADLINE: Duration = Duration::from_secs(5);
/// Most messages of one node that wait for daemons.
const WAITING: usize = 1_024;
const _: () = assert!(2 * QUESTIONS <= WAITING, "questions for coordinators leave places for the game's own messages");
/// Between two looks whether a daemon is there again, beside what is told.
const LOOK: Duration = Duration::from_millis(50);

/// What a handle asks of the driver.
pub(super) enum Request {
    HandOver { set: usize, index: u32, to: IncarnationId },
    Unpark { set: usize, index: u32 },
    Agreement { set: usize },
    Drain,
    Leave(oneshot::Sender<()>),
}

pub(super) struct Shared {
    pub(super) sets: Vec<ShardedDaemonProcess>,
    pub(super) table: ArcSwap<Vec<Arc<Table>>>,
    pub(super) changes: Changes,
    pub(super) requests: mailbox::Sender<Request>,
    pub(super) ownership: Ownership,
    pub(super) store: Store,
    pub(super) clock: Clock,
    pub(super) waiting: Semaphore,
    pub(super) wake: Option<Wake>,
    pub(super) post: Post,
}

impl Shared {
    pub(super) fn waiting() -> Semaphore {
        Semaphore::new(WAITING)
    }
}

/// A handle to the daemons of the cluster, wherever they run; cheap to clone.
#[derive(Clone)]
pub struct Daemons(pub(super) Arc<Shared>);

impl std::fmt::Debug for Daemons {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.0.sets.iter().map(ShardedDaemonProcess::name)).finish()
    }
}

/// Where a message goes.
enum Way {
    Here(mailbox::Sender<Letter>),
    There(IncarnationId),
    Wait,
}

impl Daemons {
    /// Tells a daemon something: `Ok` when the daemon has taken it out of its mailbox. Waits up to [`DEADLINE`] while it moves.
    ///
    /// A daemon that tells one which tells it back waits for itself: give such a message to a timer, or to a task. Cancelled before it
    /// resolved, the message may or may not have been taken.
    ///
    /// # Errors
    /// Why it was refused; [`Refused::may_retry`] says whether it surely was not taken.
    pub async fn tell<D: Daemon>(&self, name: &str, index: u32, message: &D::Message) -> Result<(), Refused> {
        let body = encode(message).map_err(Refused::Unreadable)?;
        let deadline = self.0.clock.now().plus(DEADLINE);
        self.deliver(name, index, body, false, deadline).await.map(drop)
    }

    /// Asks a daemon, and waits for its answer up to `deadline` from now.
    ///
    /// # Errors
    /// Why there is none; [`Refused::may_retry`] says whether it surely was not taken.
    pub async fn ask<D: Daemon>(
        &self,
        name: &str,
        index: u32,
        message: &D::Message,
        deadline: Duration,
    ) -> Result<D::Answer, Refused> {
        let body = encode(message).map_err(Refused::Unreadable)?;
        let answer = self.deliver(name, index, body, true, self.0.clock.now().plus(deadline)).await?;
        decode(&answer).map_err(Refused::Unreadable)
    }

    /// Tells every daemon of a set; what became of it for each index.
    pub async fn broadcast<D: Daemon>(&self, name: &str, message: &D::Message) -> Vec<Result<(), Refused>> {
        let count =
            self.find(name).and_then(|set| self.0.table.load().get(set)?.agreed).map_or(0, |agreed| agreed.count);
        let mut told = Vec::with_capacity(count as usize);
        // All at once, as far as mailboxes and waiting places go: each is bounded by its own deadline.
        let tells: Vec<_> = (0..count).map(|index| Box::pin(self.tell::<D>(name, index, message))).collect();
        for tell in join_all(tells).await {
            told.push(tell);
        }
        told
    }

    /// Hands over what runs here as far as another node takes it; to be called with the drain of the node.
    #[doc(hidden)]
    pub async fn drain(&self) {
        drop(self.0.requests.send(Request::Drain).await);
    }

    /// For the node and for tests of whole nodes: stops what runs here and gives every claim up; resolves when nothing is left. Cancel-safe: once asked for, it is done also when nobody waits.
    #[doc(hidden)]
    pub async fn leave(&self) {
        let (done, left) = oneshot::channel();
        if self.0.requests.send(Request::Leave(done)).await.is_ok() {
            // An end without an answer is an end.
            drop(left.await);
        }
    }

    /// Tells the owner of a shard to look for work that it may not know of. Whoever owns it does the work; when nobody does, this node looks
    /// at its claim.
    pub(crate) fn wake(&self, shard: ShardId) {
        let ownership = &self.0.ownership;
        match (ownership.fence(shard), &self.0.wake) {
            (Some(_), Some(wake)) => wake(shard),
            _ if self.0.post.wake(&self.0, shard) => {}
            _ => ownership.wanted(shard),
        }
    }

    pub(super) fn find(&self, name: &str) -> Option<usize> {
        self.0.sets.iter().position(|set| set.name == name)
    }

    fn way(&self, name: &str, set: usize, index: u32) -> Result<Way, Refused> {
        let tables = self.0.table.load();
        let Some(agreed) = tables.get(set).and_then(|table| table.agreed) else { return Ok(Way::Wait) };
        if agreed.stopped {
            return Err(Refused::Stopped);
        }
        if index >= agreed.count {
            return Err(Refused::Unknown(name.to_owned(), index));
        }
        let Some(row) = tables.get(set).and_then(|table| table.rows.get(index as usize)) else { return Ok(Way::Wait) };
        if let Some(reason) = row.reason.clone().filter(|_| row.stage == "parked") {
            return Err(Refused::Parked(reason));
        }
        Ok(match (&row.local, &row.owner) {
            (Some(local), _) if local.open => Way::Here(local.inbox.clone()),
            (None, Some(owner)) if row.stage == "elsewhere" => Way::There(owner.clone()),
            _ => Way::Wait,
        })
    }

    pub(super) async fn deliver(
        &self,
        name: &str,
        index: u32,
        body: Bytes,
        asks: bool,
        deadline: Mono,
    ) -> Result<Bytes, Refused> {
        if body.len() > MESSAGE_BYTES {
            return Err(Refused::TooLarge(body.len()));
        }
        let set = self.find(name).ok_or_else(|| Refused::Unknown(name.to_owned(), index))?;
        let _place = self.0.waiting.try_acquire().map_err(|_| Refused::Busy)?;
        let mut changes = self.0.changes.watch();
        let mut held = false;
        loop {
            changes.seen();
            let tried = match self.way(name, set, index)? {
                Way::Here(inbox) => self.put(&inbox, body.clone(), asks, deadline).await,
                Way::There(owner) => {
                    self.0.post.message(&self.0, &owner, (name, index), body.clone(), asks, deadline).await
                }
                Way::Wait => Err(Refused::Moving),
            };
            match tried {
                Err(Refused::Moving) if self.0.clock.now() < deadline => held = true,
                // All that was held comes at once: it waits for its turn.
                Err(Refused::Busy) if held && self.0.clock.now() < deadline => {}
                done => return done,
            }
            let look = self.0.clock.now().plus(LOOK).min(deadline);
            tokio::select! {
                changed = changes.changed() => if changed.is_err() { return Err(Refused::Moving) },
                () = self.0.clock.sleep_until(look) => {}
            }
        }
    }

    /// Puts a message into a mailbox of this node. [`Refused::Moving`]: it surely was not taken.
    pub(super) async fn put(
        &self,
        inbox: &mailbox::Sender<Letter>,
        body: Bytes,
        asks: bool,
        deadline: Mono,
    ) -> Result<Bytes, Refused> {
        let (letter, mut sent) = Letter::new(body);
        match inbox.try_send(letter) {
            Ok(()) => {}
            Err(mailbox::Refused::Full(_)) => return Err(Refused::Busy),
            Err(mailbox::Refused::Closed(_)) => return Err(Refused::Moving),
        }
        let late = self.0.clock.sleep_until(deadline);
        tokio::pin!(late);
        tokio::select! {
            biased;
            // An end of the daemon with the message in its mailbox: it was not taken.
            taken = &mut sent.taken => taken.map_err(|_| Refused::Moving)?,
            () = &mut late => {
                // From here on it cannot be taken any more; it may have been in this moment.
                sent.taken.close();
                sent.taken.try_recv().map_err(|_| Refused::Busy)?;
            }
        }
        if !asks {
            return Ok(Bytes::new());
        }
        tokio::select! {
            biased;
            answer = &mut sent.answer => answer.unwrap_or(Err(Refused::Unanswered)),
            () = &mut late => Err(Refused::Unanswered),
        }
    }

    /// For a message of another node: the mailbox of an index that runs here. [`Refused::Moving`]: its sender is to look anew where it is.
    pub(super) fn inbox(&self, name: &str, index: u32) -> Result<mailbox::Sender<Letter>, Refused> {
        let set = self.find(name).ok_or(Refused::Moving)?;
        match self.way(name, set, index) {
            Ok(Way::Here(inbox)) => Ok(inbox),
            // Only its own node knows this; whatever else is refused may be known better elsewhere.
            Err(parked @ Refused::Parked(_)) => Err(parked),
            _ => Err(Refused::Moving),
        }
    }
}

/// Waits for all of them.
pub(super) async fn join_all<F: Future + Unpin>(mut futures: Vec<F>) -> Vec<F::Output> {
    let mut done: Vec<Option<F::Output>> = futures.iter().map(|_| None).collect();
    std::future::poll_fn(move |cx| {
        let mut open = false;
        for (future, done) in futures.iter_mut().zip(&mut done).filter(|(_, done)| done.is_none()) {
            match std::pin::Pin::new(future).poll(cx) {
                std::task::Poll::Ready(value) => *done = Some(value),
                std::task::Poll::Pending => open = true,
            }
        }
        if open { std::task::Poll::Pending } else { std::task::Poll::Ready(done.drain(..).flatten().collect()) }
    })
    .await
}
