//! [`Store`]: the handle that everyone holds, with a typed method per verb.

use std::{future::Future, pin::Pin, sync::Arc, time::Duration};

use bytes::Bytes;
use parking_lot::Mutex;
use tenure_shared::{IncarnationId, PlayerId, RoomId, ShardId, Term};

use super::{
    Applied, Batch, Checkpoint, Claim, Command, CompletedWork, Error, Fence, Grant, HistoryEntry, Key, KeyState,
    LedgerEntry, Member, MemberInfo, OutboxEntry, Reply, RoomSummary, Route, Session, Stamped, Status, WorkId,
    WorkItem, clock::onward,
};
use crate::runtime::{Clock, Mono, Wall};

/// A boxed future.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// What carries commands to rows that last: the embedded file, memory, a server. It holds no rules of its own.
pub trait Backend: Send + Sync + 'static {
    /// Carries out a command. The command may be under way before the future is polled first; a future that is dropped leaves open
    /// whether it was carried out.
    fn execute(&self, command: Command) -> BoxFuture<'_, Stamped>;
}

/// A handle to the store; cheap to clone.
#[derive(Clone)]
pub struct Store(Arc<Inner>);

struct Inner {
    backend: Box<dyn Backend>,
    clock: Clock,
    seen: Mutex<Seen>,
}

/// What is known of the store's time: that of an answer, and when it was heard.
struct Seen(Mono, Wall);

impl Seen {
    /// Never ahead of the store, whose time may pass a little more slowly than this machine's, and whose clock may be slower.
    fn now(&self, now: Mono) -> Wall {
        if self.1 == Wall(0) { self.1 } else { self.1.plus(onward(now.since(self.0))) }
    }

    /// What was guessed from an earlier answer does not go back.
    fn hear(&mut self, stamped: Wall, now: Mono) {
        if stamped > self.now(now) {
            *self = Self(now, stamped);
        }
    }
}

impl std::fmt::Debug for Store {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Store")
    }
}

fn odd<T>(reply: &Reply) -> Result<T, Error> {
    let text = format!("{reply:?}");
    Err(Error::Broken(format!("an answer of another verb came: {}", text.chars().take(80).collect::<String>())))
}

/// The typed verbs: one line each, all made alike.
macro_rules! verb {
    ($self:ident, $command:expr, $pattern:pat => $value:expr) => {
        match $self.execute($command).await.reply? {
            $pattern => Ok($value),
            other => odd(&other),
        }
    };
}

/// Every verb may fail with [`Error::Unavailable`] (it may or may not have been carried out, and may be repeated: all verbs are idempotent)
/// or [`Error::Broken`]; refusals that belong to one verb are named there. A cancelled call leaves open whether it was carried out.
impl Store {
    /// A handle to a backend. `clock` is used only to guess the store's time between answers.
    pub fn new(backend: impl Backend, clock: Clock) -> Self {
        let seen = Mutex::new(Seen(clock.now(), Wall(0)));
        Self(Arc::new(Inner { backend: Box::new(backend), clock, seen }))
    }

    /// Carries out a command; the answer has the store's time on it.
    pub fn execute(&self, command: Command) -> impl Future<Output = Stamped> + Send + '_ {
        let answer = self.0.backend.execute(command);
        async move {
            let stamped = answer.await;
            self.0.seen.lock().hear(stamped.at, self.0.clock.now());
            stamped
        }
    }

    /// The store's time: that of an answer, moved on by the monotonic clock since, a sixteenth more slowly: never ahead of it, and never back.
    /// [`Wall`] 0 before the first answer.
    pub fn now(&self) -> Wall {
        self.0.seen.lock().now(self.0.clock.now())
    }

    /// Registers a member; refused with [`Error::Tombstoned`] when the incarnation had its end.
    pub async fn register(&self, incarnation: &IncarnationId, info: MemberInfo, ttl: Duration) -> Result<(), Error> {
        verb!(self, Command::Register { incarnation: incarnation.clone(), info, ttl }, Reply::Done => ())
    }

    /// Renews a lease and tells the highest term that the caller has seen: heartbeats so far and the highest term that anybody told or
    /// was given. [`Error::Tombstoned`] when the member is gone.
    pub async fn heartbeat(
        &self,
        incarnation: &IncarnationId,
        ttl: Duration,
        floor: Term,
    ) -> Result<(u64, Term), Error> {
        let command = Command::Heartbeat { incarnation: incarnation.clone(), ttl, floor };
        verb!(self, command, Reply::Beat { beats, floor } => (beats, floor))
    }

    /// Writes the tombstone of a lapsed lease, or of one whose heartbeats are still at `stood_still`; whether there is one now.
    pub async fn expire(&self, incarnation: &IncarnationId, stood_still: Option<u64>) -> Result<bool, Error> {
        verb!(self, Command::Expire { incarnation: incarnation.clone(), stood_still }, Reply::Expired(is) => is)
    }

    /// Sets a member's status.
    pub async fn set_status(&self, incarnation: &IncarnationId, status: Status) -> Result<(), Error> {
        verb!(self, Command::SetStatus { incarnation: incarnation.clone(), status }, Reply::Done => ())
    }

    /// Says which file of schedules a member runs.
    ///
    /// # Errors
    /// [`Error::Tombstoned`].
    pub async fn set_schedules(&self, incarnation: &IncarnationId, hash: &str) -> Result<(), Error> {
        let (incarnation, hash) = (incarnation.clone(), hash.to_owned());
        verb!(self, Command::SetSchedules { incarnation, hash }, Reply::Done => ())
    }

    /// Live members.
    pub async fn members(&self) -> Result<Vec<Member>, Error> {
        verb!(self, Command::Members, Reply::Members(members) => members)
    }

    /// Writes the caller's own tombstone.
    pub async fn deregister(&self, incarnation: &IncarnationId) -> Result<(), Error> {
        verb!(self, Command::Deregister { incarnation: incarnation.clone() }, Reply::Done => ())
    }

    /// Takes a claim that is still as `seen`; the fence is made from the store's own answer. [`Error::Held`] when it is not, or when its
    /// holder lives.
    pub async fn acquire(
        &self,
        key: &Key,
        caller: &IncarnationId,
        seen: Option<(Option<IncarnationId>, Term)>,
        floor: Term,
    ) -> Result<Fence, Error> {
        let command = Command::Acquire { key: key.clone(), caller: caller.clone(), seen, floor };
        verb!(self, command, Reply::Granted(term) => Fence::new(key.clone(), caller.clone(), term))
    }

    /// Gives a claim to another live member; the term is the target's. [`Error::Conflict`] when a checkpoint of the manifest is missing.
    pub async fn transfer(
        &self,
        fence: &Fence,
        to: &IncarnationId,
        package: u64,
        manifest: Vec<(RoomId, u64)>,
        floor: Term,
    ) -> Result<Term, Error> {
        let command = Command::Transfer { fence: fence.clone(), to: to.clone(), package, manifest, floor };
        verb!(self, command, Reply::Granted(term) => term)
    }

    /// Gives a claim up.
    pub async fn release(&self, fence: &Fence) -> Result<(), Error> {
        verb!(self, Command::Release { fence: fence.clone() }, Reply::Done => ())
    }

    /// Publishes the route of a held claim again, where it is lost or older; [`Error::Fenced`] when it is held no more.
    pub async fn publish(&self, fence: &Fence) -> Result<(), Error> {
        verb!(self, Command::Publish { fence: fence.clone() }, Reply::Done => ())
    }

    /// One claim.
    pub async fn claim(&self, key: &Key) -> Result<Option<Claim>, Error> {
        verb!(self, Command::Claim { key: key.clone() }, Reply::Claim(claim) => claim)
    }

    /// The claims of these keys that were ever claimed, in their order.
    pub async fn claims(&self, keys: Vec<Key>) -> Result<Vec<Claim>, Error> {
        verb!(self, Command::Claims { keys }, Reply::Claims(claims) => claims)
    }

    /// Routes changed since a counter, and the counter to ask with next.
    pub async fn routes(&self, since: u64) -> Result<(u64, Vec<Route>), Error> {
        verb!(self, Command::Routes { since }, Reply::Routes { counter, changed } => (counter, changed))
    }

    /// Agrees on a constant; [`Error::Disagreement`] when the cluster has another value.
    pub async fn agree(&self, name: &str, value: &str) -> Result<(), Error> {
        let command = Command::Agree { name: name.to_owned(), value: value.to_owned() };
        verb!(self, command, Reply::Agreed(_) => ())
    }

    /// Proposes a constant and gives the one that the cluster has.
    pub async fn agree_or_get(&self, name: &str, value: &str) -> Result<String, Error> {
        let command = Command::AgreeOrGet { name: name.to_owned(), value: value.to_owned() };
        verb!(self, command, Reply::Agreed(value) => value)
    }

    /// Puts another value in the place of an agreed one that is still as the caller knows it; [`Error::Disagreement`] when it is not.
    pub async fn reagree(&self, name: &str, agreed: &str, value: &str) -> Result<(), Error> {
        let (agreed, value) = (agreed.to_owned(), value.to_owned());
        let command = Command::Reagree { name: name.to_owned(), agreed, value };
        verb!(self, command, Reply::Agreed(_) => ())
    }

    /// A room's checkpoint.
    pub async fn load(&self, room: &RoomId) -> Result<Option<Checkpoint>, Error> {
        verb!(self, Command::Load { room: room.clone() }, Reply::Checkpoint(checkpoint) => checkpoint)
    }

    /// A page of a shard's rooms.
    pub async fn rooms(&self, shard: ShardId, after: Option<RoomId>, limit: usize) -> Result<Vec<RoomSummary>, Error> {
        verb!(self, Command::Rooms { shard, after, limit }, Reply::Rooms(rooms) => rooms)
    }

    /// The one durable write of a shard: outbox positions of its grants, in order. [`Error::Fenced`], [`Error::OutOfOrder`],
    /// [`Error::Conflict`], [`Error::Invalid`] and [`Error::Full`] (too many grants wait for their ledgers) refuse it as a whole.
    pub async fn commit(&self, fence: &Fence, shards: u32, number: u64, batch: Batch) -> Result<Vec<u64>, Error> {
        let command = Command::Commit { fence: fence.clone(), shards, number, batch };
        verb!(self, command, Reply::Committed { positions, .. } => positions)
    }

    /// Items due at or before a time, earliest first, behind an item of an earlier page.
    pub async fn due(
        &self,
        shard: ShardId,
        before: Wall,
        after: Option<(Wall, WorkId)>,
        limit: usize,
    ) -> Result<Vec<WorkItem>, Error> {
        verb!(self, Command::Due { shard, before, after, limit }, Reply::Work(items) => items)
    }

    /// How many items are overdue.
    pub async fn overdue(&self, shard: ShardId) -> Result<u64, Error> {
        verb!(self, Command::Overdue { shard }, Reply::Count(count) => count)
    }

    /// A page of a shard's items, parked included.
    pub async fn work(&self, shard: ShardId, after: Option<WorkId>, limit: usize) -> Result<Vec<WorkItem>, Error> {
        verb!(self, Command::Work { shard, after, limit }, Reply::Work(items) => items)
    }

    /// The items of one room, parked ones included, by identity, behind an item of an earlier page.
    pub async fn room_work(
        &self,
        shard: ShardId,
        room: &RoomId,
        after: Option<WorkId>,
        limit: usize,
    ) -> Result<Vec<WorkItem>, Error> {
        verb!(self, Command::RoomWork { shard, room: room.clone(), after, limit }, Reply::Work(items) => items)
    }

    /// Makes a parked item due now.
    pub async fn retry(&self, fence: &Fence, id: &WorkId) -> Result<(), Error> {
        verb!(self, Command::Retry { fence: fence.clone(), id: id.clone() }, Reply::Done => ())
    }

    /// A page of a shard's outbox.
    pub async fn outbox(&self, shard: ShardId, after: u64, limit: usize) -> Result<Vec<OutboxEntry>, Error> {
        verb!(self, Command::Outbox { shard, after, limit }, Reply::Outbox(entries) => entries)
    }

    /// Applies a grant once: what the ledger did, and the balances afterwards. [`Error::Conflict`] when the grant is older than
    /// identities are kept: park it.
    pub async fn apply(&self, grant: Grant) -> Result<(Applied, Vec<(String, i64)>), Error> {
        verb!(self, Command::Apply { grant }, Reply::Applied { applied, balances } => (applied, balances))
    }

    /// A player's balances.
    pub async fn balances(&self, player: &PlayerId) -> Result<Vec<(String, i64)>, Error> {
        verb!(self, Command::Balances { player: player.clone() }, Reply::Balances(balances) => balances)
    }

    /// A player's ledger lines, newest first.
    pub async fn ledger(&self, player: &PlayerId, limit: usize) -> Result<Vec<LedgerEntry>, Error> {
        verb!(self, Command::Ledger { player: player.clone(), limit }, Reply::Ledger(entries) => entries)
    }

    /// A player's session in a room.
    pub async fn session(&self, player: &PlayerId, room: &RoomId) -> Result<Option<Session>, Error> {
        let command = Command::Session { player: player.clone(), room: room.clone() };
        verb!(self, command, Reply::Session(session) => session)
    }

    /// Stores (or with `None` deletes) a session if its version is still `seen`; [`Error::Conflict`] otherwise.
    pub async fn put_session(
        &self,
        player: &PlayerId,
        room: &RoomId,
        seen: u64,
        session: Option<Session>,
    ) -> Result<(), Error> {
        let command = Command::PutSession { player: player.clone(), room: room.clone(), seen, session };
        verb!(self, command, Reply::Done => ())
    }

    /// The small state that belongs to a claim.
    pub async fn state(&self, key: &Key) -> Result<Option<KeyState>, Error> {
        verb!(self, Command::State { key: key.clone() }, Reply::State(state) => state)
    }

    /// Stores the state of a claim under its fence, if its version is still `seen`; [`Error::Fenced`] or [`Error::Conflict`] otherwise.
    pub async fn put_state(&self, fence: &Fence, seen: u64, body: Bytes) -> Result<(), Error> {
        let command = Command::PutState { fence: fence.clone(), seen, body };
        verb!(self, command, Reply::Done => ())
    }

    /// Ownership history of a key, oldest first.
    pub async fn history(&self, key: &Key) -> Result<Vec<HistoryEntry>, Error> {
        verb!(self, Command::History { key: key.clone() }, Reply::History(entries) => entries)
    }

    /// The latest completed work of a shard, oldest first.
    pub async fn completed(&self, shard: ShardId, limit: usize) -> Result<Vec<CompletedWork>, Error> {
        verb!(self, Command::Completed { shard, limit }, Reply::Completed(lines) => lines)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Mono {
        Mono::default().plus(Duration::from_secs(seconds))
    }

    #[test]
    fn a_guess_goes_on_never_back_and_is_never_ahead() {
        let start = Wall(1_764_446_400_000_000);
        let later = |ms: u64| start.plus(Duration::from_millis(ms));
        let mut seen = Seen(at(0), Wall(0));
        assert_eq!(seen.now(at(5)), Wall(0), "nothing is known");
        seen.hear(start, at(10));
        assert_eq!(seen.now(at(26)), later(15_000));
        // An answer that took its time.
        seen.hear(later(2_000), at(26));
        assert_eq!(seen.now(at(26)), later(15_000));
        seen.hear(later(16_000), at(26));
        assert_eq!(seen.now(at(26)), later(16_000));
    }
}
