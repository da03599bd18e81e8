//! The store of the models: the real rules (`store::model::apply`) over ordered rows, with single rules taken out on demand.

use std::collections::BTreeMap;

use tenure::{
    runtime::Wall,
    store::{
        Command, Error, Fence, Key, Reply,
        model::{self, Rules},
    },
};
use tenure_shared::{IncarnationId, ShardId, Term};

use super::intern::{Intern, Memo};

/// One step of a model's time.
pub const STEP_MICROS: u64 = 1_000_000;
/// Store time at the start of every model.
pub const START: u64 = 1_764_446_400_000_000;

pub type Rows = BTreeMap<Vec<u8>, Vec<u8>>;
pub type Answer = Result<Reply, Error>;

/// Rules of the store that are taken out: what the checker must notice.
#[derive(Clone, Copy, Debug, Default)]
pub struct Without {
    /// A write's fence is not compared with the claim (H1, H3).
    pub fence: bool,
    /// An acquire does not compare the claim with what its caller saw.
    pub seen: bool,
    /// Nobody may acquire a claim of its own (F5).
    pub own: bool,
    /// A member without a record is not taken for dead (F6).
    pub absent: bool,
    /// A commit's number is not compared (F4).
    pub numbers: bool,
    /// A checkpoint's version and tick are not compared (F4 has two guards).
    pub versions: bool,
    /// Floors are not looked at (F12).
    pub floor: bool,
}

/// Stores as values.
#[derive(Default)]
pub struct Stores {
    pub rows: Intern<Rows>,
    pub commands: Intern<Command>,
    pub answers: Intern<Answer>,
    applied: Memo<(u32, u32, u64), (u32, u32)>,
    without: Without,
}

impl Stores {
    pub fn new(without: Without) -> Self {
        Self { without, ..Self::default() }
    }

    /// A store on which the constants of the cluster are agreed.
    pub fn fresh(&self, shards: u32) -> u32 {
        let mut rows = Rows::new();
        let agree = Command::Agree { name: model::AGREED_SHARDS.to_owned(), value: shards.to_string() };
        model::apply(&mut rows, &Rules::default(), Wall(START), agree).reply.expect("agreed");
        self.put(rows)
    }

    pub fn put(&self, rows: Rows) -> u32 {
        let mut key = Vec::with_capacity(rows.len() * 64);
        for (name, value) in &rows {
            for part in [name, value] {
                key.extend_from_slice(&u32::try_from(part.len()).expect("small").to_le_bytes());
                key.extend_from_slice(part);
            }
        }
        self.rows.put(key, rows)
    }

    /// Carries a command out: the store afterwards, and the answer.
    pub fn apply(&self, rows: u32, command: u32, micros: u64) -> (u32, u32) {
        self.applied.get((rows, command, micros), || {
            let mut after = (*self.rows.get(rows)).clone();
            let command = (*self.commands.get(command)).clone();
            let answer = carry_out(&mut after, self.without, Wall(micros), command);
            (self.put(after), self.answers.put_debug(answer))
        })
    }

    /// A command that changes nothing, at once.
    pub fn read(&self, rows: u32, command: Command) -> Reply {
        read(&mut (*self.rows.get(rows)).clone(), command)
    }

    /// Who holds a shard.
    pub fn claim(&self, rows: u32, shard: ShardId) -> Option<(Option<IncarnationId>, Term)> {
        claim(&mut (*self.rows.get(rows)).clone(), &Key::shard(shard))
    }

    /// The store after it forgot: rows for which `lost` says so are as in `old`.
    pub fn forget(&self, rows: u32, old: u32, lost: impl Fn(&[u8]) -> bool) -> u32 {
        let mut after: Rows = (*self.rows.get(rows)).clone().into_iter().filter(|(key, _)| !lost(key)).collect();
        after.extend((*self.rows.get(old)).clone().into_iter().filter(|(key, _)| lost(key)));
        self.put(after)
    }
}

fn read(rows: &mut Rows, command: Command) -> Reply {
    model::apply(rows, &Rules::default(), Wall(0), command).reply.expect("readable")
}

fn claim(rows: &mut Rows, key: &Key) -> Option<(Option<IncarnationId>, Term)> {
    match read(rows, Command::Claim { key: key.clone() }) {
        Reply::Claim(claim) => claim.map(|claim| (claim.holder, claim.term)),
        other => panic!("not a claim: {other:?}"),
    }
}

/// Fences are made by ownership alone; a model that breaks rules makes its own from their stored form.
pub fn fence(shard: ShardId, incarnation: &IncarnationId, term: Term) -> Fence {
    let parts =
        serde_json::json!({ "key": Key::shard(shard).as_str(), "incarnation": incarnation.as_str(), "term": term });
    serde_json::from_value(parts).expect("a fence")
}

fn present(rows: &Rows, incarnation: &IncarnationId) -> bool {
    rows.contains_key(format!("member/{incarnation}").as_bytes())
}

fn buried(rows: &Rows, incarnation: &IncarnationId) -> bool {
    rows.contains_key(format!("tombstone/{incarnation}").as_bytes())
}

fn carry_out(rows: &mut Rows, without: Without, now: Wall, mut command: Command) -> Answer {
    let held = |key: &Key, (holder, term): (Option<IncarnationId>, Term)| {
        let holder = holder.map_or_else(|| "nobody".to_owned(), |holder| holder.to_string());
        Err(Error::Held { key: key.clone(), holder, term })
    };
    match &mut command {
        Command::Acquire { key, caller, seen, floor } => {
            let is = claim(rows, key);
            if let Some((Some(holder), term)) = is.clone() {
                if without.own && holder == *caller {
                    return held(key, (Some(holder), term));
                }
                if without.absent && holder != *caller && !present(rows, &holder) && !buried(rows, &holder) {
                    return held(key, (Some(holder), term));
                }
            }
            if without.seen {
                *seen = is;
            }
            if without.floor {
                *floor = Term(0);
            }
        }
        Command::Heartbeat { floor, .. } if without.floor => *floor = Term(0),
        Command::Expire { incarnation, .. }
            if without.absent && !present(rows, incarnation) && !buried(rows, incarnation) =>
        {
            return Ok(Reply::Expired(false));
        }
        Command::Commit { .. } => return commit(rows, without, now, command),
        _ => {}
    }
    let broken = matches!(command, Command::Heartbeat { .. }) && without.floor;
    let reply = model::apply(rows, &Rules::default(), now, command).reply;
    match reply {
        // The floor that heartbeats spread is a rule of the same name.
        Ok(Reply::Beat { beats, .. }) if broken => Ok(Reply::Beat { beats, floor: Term(0) }),
        other => other,
    }
}

fn commit(rows: &mut Rows, without: Without, now: Wall, mut command: Command) -> Answer {
    let rules = Rules::default();
    let Command::Commit { fence: own, number, batch, .. } = &mut command else { panic!("not a commit") };
    if without.fence
        && let Some((Some(holder), term)) = claim(rows, own.key())
    {
        let shard = own.key().as_shard().expect("of a shard");
        if (own.incarnation(), own.term()) != (&holder, term) {
            *own = fence(shard, &holder, term);
            *number = last_number(rows, now, own) + 1;
        }
    }
    if without.numbers {
        *number = last_number(rows, now, own) + 1;
    }
    if without.versions {
        for checkpoint in &mut batch.checkpoints {
            let room = checkpoint.summary.room.clone();
            if let Reply::Checkpoint(Some(stored)) = read(rows, Command::Load { room }) {
                checkpoint.version = checkpoint.version.max(stored.version + 1);
                checkpoint.term = checkpoint.term.max(stored.term);
                checkpoint.tick = checkpoint.tick.max(stored.tick);
            }
        }
    }
    model::apply(rows, &rules, now, command).reply
}

/// The number of the last commit under a fence: what a number that is far too high is refused with.
fn last_number(rows: &mut Rows, now: Wall, fence: &Fence) -> u64 {
    let probe =
        Command::Commit { fence: fence.clone(), shards: 1, number: u64::MAX, batch: tenure::store::Batch::default() };
    match model::apply(rows, &Rules::default(), now, probe).reply {
        Err(Error::OutOfOrder { last, .. }) => last,
        // The fence itself is refused: the number is not looked at.
        _ => 0,
    }
}
