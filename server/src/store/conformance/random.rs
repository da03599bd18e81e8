//! Random sequences of commands, and the comparison of a store with the one in memory: every answer equal, and all that can be read.
#![expect(clippy::expect_used, reason = "the names made here are valid")]

use std::time::Duration;

use bytes::Bytes;
use tenure_shared::{IncarnationId, PlayerId, RoomId, ShardId, Term, Tick};

use crate::{
    runtime::{Rng, Wall},
    store::{
        Again, Batch, BoxFuture, Cap, Checkpoint, Claim, Command, Error, Fence, Grant, GrantId, Key, MemberInfo, Reply,
        RoomSummary, Session, Store, WorkId, WorkItem, model::AGREED_SHARDS,
    },
};

/// Number of shards in a sequence.
const SHARDS: u32 = 2;

/// A command in small numbers; names and fences are looked up when it runs.
#[derive(Clone, Debug)]
#[expect(missing_docs, reason = "the command of the same name, with its choices as small numbers")]
pub enum Op {
    Reopen,
    Advance(u64),
    Register(u8),
    Beat(u8),
    Expire(u8),
    Acquire { shard: u8, caller: u8, stale: bool },
    Transfer { fence: u8, to: u8 },
    Release(u8),
    Commit { fence: u8, number: u8, parts: u16, room: u8, n: u8 },
    Retry { fence: u8, n: u8 },
    Apply { n: u8, player: u8, gold: i64, capped: bool },
    Session { player: u8, seen: u8, delete: bool },
    State { fence: u8, seen: u8, n: u8 },
}

impl Op {
    /// Draws one. `Reopen` is not drawn: not every store is closed and opened.
    pub fn draw(rng: &Rng) -> Self {
        let byte = |bound: u64| u8::try_from(rng.below(bound)).unwrap_or_default();
        let odds = |of: u64| rng.below(of) == 0;
        match rng.below(38) {
            0..=1 => Op::Advance(rng.below(5)),
            2..=4 => Op::Register(byte(4)),
            5..=6 => Op::Beat(byte(4)),
            7 => Op::Expire(byte(4)),
            8..=13 => Op::Acquire { shard: byte(2), caller: byte(4), stale: odds(5) },
            14 => Op::Transfer { fence: byte(3), to: byte(4) },
            15 => Op::Release(byte(3)),
            16..=27 => {
                let parts = u16::try_from(rng.below(1 << 16)).unwrap_or_default();
                Op::Commit { fence: byte(3), number: byte(3), parts, room: byte(3), n: byte(6) }
            }
            28 => Op::Retry { fence: byte(2), n: byte(6) },
            29..=33 => {
                let gold = i64::try_from(rng.below(70)).unwrap_or_default() - 20;
                Op::Apply { n: byte(6), player: byte(2), gold, capped: odds(2) }
            }
            36..=37 => Op::State { fence: byte(3), seen: byte(3), n: byte(2) },
            _ => Op::Session { player: byte(2), seen: byte(4), delete: odds(2) },
        }
    }
}

/// What the sequence has learned: it makes most commands meaningful.
#[derive(Default)]
struct Known {
    /// Newest first.
    fences: Vec<Fence>,
    numbers: u64,
    version: u64,
    lives: u32,
}

fn room(shard: u32, n: u8) -> RoomId {
    let names = (0..).map(|i| RoomId::from_parts("a", "b", &format!("{n}-{i}")).expect("valid"));
    names.into_iter().find(|room| room.shard(SHARDS) == ShardId(shard)).expect("found")
}

impl Known {
    fn name(&self, n: u8) -> IncarnationId {
        // Tombstones are for ever: after a while there are new lives.
        IncarnationId::new(&format!("n{n}#{}", self.lives / 8)).expect("valid")
    }

    fn fence(&self, back: u8) -> Fence {
        let nothing = || Fence::new(Key::shard(ShardId(0)), self.name(0), Term(1));
        self.fences.get(usize::from(back)).cloned().unwrap_or_else(nothing)
    }

    fn grant(&self, n: u8, player: u8, gold: i64, capped: bool) -> Grant {
        Grant {
            id: GrantId(format!("g{n}").into()),
            player: PlayerId::new(&format!("p{player}")).expect("valid"),
            source: "chest".into(),
            scheduled_for: None,
            amounts: [("gold".into(), gold), ("gems".into(), 1)].into(),
            cap: capped.then(|| Cap { since: Wall(7), limits: [("gold".into(), 60)].into() }),
            token: Bytes::new(),
        }
    }

    fn batch(&mut self, fence: &Fence, parts: u16, room_number: u8, n: u8, now: Wall) -> Batch {
        let shard = fence.key().as_shard().expect("a shard");
        // Seldom a room of another shard.
        let room = room(if parts.is_multiple_of(31) { 1 - shard.0.min(1) } else { shard.0 }, room_number);
        let id = |n: u8| WorkId { room: room.clone(), job: "job".into(), key: n.to_string().into() };
        let on = |bit: u16| parts & (1 << bit) != 0 && parts & (1 << (bit + 3)) != 0;
        let summary = RoomSummary {
            room: room.clone(),
            seats: u32::from(n),
            max_seats: 9,
            metadata: Bytes::new(),
            dormant: on(1),
            private: false,
            locked: false,
        };
        let mut batch = Batch::default();
        if parts & 1 != 0 {
            self.version += u64::from(n > 0);
            let body = vec![n; usize::from(n) * 100].into();
            batch.checkpoints.push(Checkpoint {
                summary,
                term: fence.term(),
                tick: Tick(self.version),
                version: self.version,
                body,
            });
        } else if parts.is_multiple_of(13) {
            batch.deleted.push(room.clone());
        }
        if parts & 2 != 0 {
            let due = Wall(now.0 + u64::from(n) * 1_000_000);
            batch.scheduled.push(WorkItem { id: id(n), due, attempt: 0, parked: None, payload: Bytes::new() });
        }
        let next = (n + 1) % 6;
        if on(2) {
            batch.completed.push(id(n));
        }
        if on(3) {
            batch.failed.push((id(n), Wall(now.0 + 5)));
        }
        if on(4) {
            batch.parked.push((id(next), "why".to_owned()));
        }
        if on(5) {
            batch.cancelled.push(id(next));
        }
        if on(6) {
            batch.advanced.push((id(n), Bytes::from_static(b"cursor")));
        }
        if on(7) {
            batch.grants.push((room.clone(), self.grant(n, 0, 1, false)));
            batch.trimmed.push(u64::from(n));
        }
        if on(8) && !on(2) {
            let grants = vec![(room.clone(), self.grant(next, 0, 2, false))];
            batch.again.push(Again { completed: vec![id(n), id(next)], grants });
        }
        batch
    }

    fn command(&mut self, op: &Op, claim: Option<Claim>, now: Wall) -> Command {
        match op {
            Op::Reopen | Op::Advance(_) => Command::Members,
            Op::Register(n) => {
                self.lives += 1;
                let info = MemberInfo {
                    node: format!("n{n}"),
                    roles: vec![],
                    version: String::new(),
                    revision: 0,
                    link: String::new(),
                    public_url: String::new(),
                    zone_data: String::new(),
                };
                Command::Register { incarnation: self.name(*n), info, ttl: Duration::from_secs(3) }
            }
            Op::Beat(n) => {
                Command::Heartbeat { incarnation: self.name(*n), ttl: Duration::from_secs(3), floor: Term(0) }
            }
            Op::Expire(n) => Command::Expire { incarnation: self.name(*n), stood_still: None },
            Op::Acquire { shard, caller, stale } => {
                let seen = if *stale { None } else { claim.map(|claim| (claim.holder, claim.term)) };
                let key = Key::shard(ShardId(u32::from(*shard)));
                Command::Acquire { key, caller: self.name(*caller), seen, floor: Term(0) }
            }
            Op::Transfer { fence, to } => {
                let (fence, to) = (self.fence(*fence), self.name(*to));
                Command::Transfer { fence, to, package: 5, manifest: vec![], floor: Term(0) }
            }
            Op::Release(n) => Command::Release { fence: self.fence(*n) },
            Op::Commit { fence, number, parts, room, n } => {
                let fence = self.fence(*fence);
                let batch = self.batch(&fence, *parts, *room, *n, now);
                // Mostly the next number; sometimes a repeat or one that is too high.
                let number =
                    (self.numbers + 1).saturating_sub(u64::from(*number == 1)) + u64::from(*number == 2 && *n == 0);
                Command::Commit { fence, shards: SHARDS, number, batch }
            }
            Op::Retry { fence, n } => {
                let fence = self.fence(*fence);
                let room = room(fence.key().as_shard().expect("a shard").0, n % 3);
                Command::Retry { fence, id: WorkId { room, job: "job".into(), key: n.to_string().into() } }
            }
            Op::Apply { n, player, gold, capped } => Command::Apply { grant: self.grant(*n, *player, *gold, *capped) },
            Op::Session { player, seen, delete } => {
                let (player, room) = (PlayerId::new(&format!("p{player}")).expect("valid"), room(0, 0));
                let session = (!delete).then(|| Session {
                    player: player.clone(),
                    room: room.clone(),
                    seat: 1,
                    options: Bytes::new(),
                    current: "t".to_owned(),
                    next: None,
                    version: u64::from(*seen) + 1,
                });
                Command::PutSession { player, room, seen: u64::from(*seen), session }
            }
            Op::State { fence, seen, n } => {
                let (fence, body) = (self.fence(*fence), vec![*n; 40].into());
                Command::PutState { fence, seen: u64::from(*seen), body }
            }
        }
    }

    fn learn(&mut self, command: &Command, reply: &Result<Reply, Error>) {
        match (command, reply) {
            (Command::Acquire { key, caller, .. }, Ok(Reply::Granted(term))) => {
                self.fences.insert(0, Fence::new(key.clone(), caller.clone(), *term));
                self.numbers = 0;
            }
            (Command::Commit { fence, number, .. }, Ok(_)) if self.fences.first() == Some(fence) => {
                self.numbers = *number;
            }
            _ => {}
        }
    }
}

/// Everything that can be read.
fn questions() -> Vec<Command> {
    let mut all = vec![
        Command::Members,
        Command::Routes { since: 0 },
        Command::Claims { keys: (0..SHARDS).map(|n| Key::shard(ShardId(n))).collect() },
    ];
    for shard in (0..SHARDS).map(ShardId) {
        let key = Key::shard(shard);
        all.extend([
            Command::Claim { key: key.clone() },
            Command::State { key: key.clone() },
            Command::History { key },
            Command::Rooms { shard, after: None, limit: 99 },
            Command::Due { shard, before: Wall(u64::MAX), after: None, limit: 99 },
            Command::Overdue { shard },
            Command::Work { shard, after: None, limit: 99 },
            Command::RoomWork { shard, room: room(shard.0, 1), after: None, limit: 99 },
            Command::Outbox { shard, after: 0, limit: 99 },
            Command::Completed { shard, limit: 99 },
        ]);
        all.extend((0..3).map(|n| Command::Load { room: room(shard.0, n) }));
    }
    for player in ["p0", "p1"].map(|name| PlayerId::new(name).expect("valid")) {
        all.push(Command::Balances { player: player.clone() });
        all.push(Command::Ledger { player: player.clone(), limit: 99 });
        all.push(Command::Session { player, room: room(0, 0) });
    }
    all
}

/// An answer, but of routes only what they say: in which steps they were published is the backend's own.
fn hints(reply: &Result<Reply, Error>) -> Result<Reply, Error> {
    match reply.clone() {
        Ok(Reply::Routes { mut changed, .. }) => {
            changed.sort_by(|a, b| a.key.cmp(&b.key));
            Ok(Reply::Routes { counter: 0, changed })
        }
        reply => reply,
    }
}

/// Both stores read due work on behind every item alike, and pages are the whole.
async fn pages(memory: &Store, other: &Store, shard: ShardId) -> Result<(), String> {
    let before = Wall(u64::MAX);
    let all = memory.due(shard, before, None, 99).await.map_err(|error| error.to_string())?;
    let mut after = None;
    for item in all.iter().map(Some).chain([None]) {
        let (one, two) =
            (memory.due(shard, before, after.clone(), 1).await, other.due(shard, before, after.clone(), 1).await);
        let whole = one.as_ref().is_ok_and(|page| page.first() == item);
        if one != two || !whole {
            return Err(format!("due behind {after:?}:\n{one:?}\n{two:?}"));
        }
        after = item.map(|item| (item.due, item.id.clone()));
    }
    Ok(())
}

/// Closes and opens the store that is compared; what that does to its members is done to the one in memory too.
pub type Reopen<'a> = &'a dyn Fn(Store, Store) -> BoxFuture<'a, Store>;

/// Carries the commands out on both stores, whose time is moved by `advance`, and compares the answers, and at the end everything that
/// can be read. Gives how many commands were granted.
///
/// # Errors
/// The command, or the question, whose answers differ.
pub async fn compare(
    ops: &[Op],
    memory: &Store,
    mut other: Store,
    advance: impl Fn(Duration),
    reopen: Option<Reopen<'_>>,
) -> Result<usize, String> {
    for store in [memory, &other] {
        store.agree(AGREED_SHARDS, &SHARDS.to_string()).await.map_err(|error| error.to_string())?;
    }
    let mut known = Known::default();
    let mut granted = 0;
    for op in ops {
        match (op, reopen) {
            (Op::Reopen, Some(reopen)) => {
                other = reopen(memory.clone(), other).await;
                continue;
            }
            (Op::Reopen, None) => continue,
            (Op::Advance(seconds), _) => advance(Duration::from_secs(*seconds)),
            _ => {}
        }
        let claim = match op {
            Op::Acquire { shard, .. } => {
                let claim = memory.claim(&Key::shard(ShardId(u32::from(*shard)))).await;
                claim.map_err(|error| error.to_string())?
            }
            _ => None,
        };
        let command = known.command(op, claim, memory.now());
        let (one, two) = (memory.execute(command.clone()).await, other.execute(command.clone()).await);
        if one != two {
            return Err(format!("{command:?}:\n{one:?}\n{two:?}"));
        }
        if matches!(one.reply, Err(Error::Broken(_) | Error::Unavailable(_))) {
            return Err(format!("{command:?}: {one:?}"));
        }
        granted += usize::from(one.reply.is_ok());
        known.learn(&command, &one.reply);
    }
    if let Some(reopen) = reopen {
        other = reopen(memory.clone(), other).await;
    }
    for shard in (0..SHARDS).map(ShardId) {
        pages(memory, &other, shard).await?;
    }
    for question in questions() {
        let (one, two) = (memory.execute(question.clone()).await, other.execute(question.clone()).await);
        if hints(&one.reply) != hints(&two.reply) {
            return Err(format!("{question:?}:\n{one:?}\n{two:?}"));
        }
    }
    Ok(granted)
}
