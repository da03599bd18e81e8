//! The store of a test room: the rules of every store, over rows in memory, and what a room's host does between the two.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use tenure_shared::{IncarnationId, PlayerId, RoomId, ShardId, Term};

use crate::{
    plugin::{Reward, TaskEnd, TaskFuture, TaskResult},
    room::{
        host::{HostConfig, Items, LONGEST_RETRY, backoff, in_vain, is_of_game, too_many},
        world::{DueWork, Effects, GrantResult, MissedGrants, TickInput},
    },
    runtime::Wall,
    store::{
        Applied, Batch, Checkpoint, Command, Error, Fence, Grant, GrantId, Key, MemberInfo, OutboxEntry, Reply, WorkId,
        WorkItem,
        model::{self, AGREED_SHARDS, Rules, limits},
    },
};

/// What becomes of grants and tasks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Fate {
    /// Grants reach the ledger and their results the room; tasks run to their end at once.
    #[default]
    Normal,
    /// Grants stay in the outbox, tasks do not end.
    Held,
    /// Grants reach the ledger, but their results never reach the room: as when the owner is lost in between.
    Unheard,
}

/// The one shard.
const SHARD: ShardId = ShardId(0);
/// Items that a room is given in one tick.
const IN_HAND: usize = 64;

pub(super) struct Durable {
    pub(super) fate: Fate,
    room: RoomId,
    rules: Rules,
    config: HostConfig,
    rows: BTreeMap<Vec<u8>, Vec<u8>>,
    fence: Fence,
    number: u64,
    rewards: BTreeMap<WorkId, Reward>,
    items: Items,
    /// Results that the running world has been given, with their positions.
    told: BTreeMap<GrantId, u64>,
    deposits: u64,
    balances: Vec<PlayerId>,
    missed: Vec<(PlayerId, Wall)>,
    tasks: Vec<(u64, TaskResult)>,
    /// What went wrong by the game's fault.
    pub(super) errors: Vec<String>,
}

impl Durable {
    pub(super) fn new(room: &RoomId, rules: Rules, wall: Wall) -> Self {
        let incarnation = IncarnationId::new("test#1").expect("an id");
        let key = Key::shard(SHARD);
        let mut this = Self {
            fate: Fate::Normal,
            room: room.clone(),
            rules,
            config: HostConfig::default(),
            rows: BTreeMap::new(),
            fence: Fence::new(key.clone(), incarnation.clone(), Term(0)),
            number: 0,
            rewards: BTreeMap::new(),
            items: Items::default(),
            told: BTreeMap::new(),
            deposits: 0,
            balances: Vec::new(),
            missed: Vec::new(),
            tasks: Vec::new(),
            errors: Vec::new(),
        };
        let text = String::new;
        let info = MemberInfo {
            node: "test".to_owned(),
            roles: Vec::new(),
            version: text(),
            revision: 0,
            link: text(),
            public_url: text(),
            zone_data: text(),
        };
        let ttl = Duration::from_secs(3);
        this.must(wall, Command::Register { incarnation: incarnation.clone(), info, ttl });
        this.must(wall, Command::Agree { name: AGREED_SHARDS.to_owned(), value: "1".to_owned() });
        let acquire = Command::Acquire { key: key.clone(), caller: incarnation.clone(), seen: None, floor: Term(0) };
        match this.must(wall, acquire) {
            Reply::Granted(term) => this.fence = Fence::new(key, incarnation, term),
            other => panic!("no term: {other:?}"),
        }
        this
    }

    fn call(&mut self, wall: Wall, command: Command) -> Result<Reply, Error> {
        model::apply(&mut self.rows, &self.rules, wall, command).reply
    }

    fn must(&mut self, wall: Wall, command: Command) -> Reply {
        self.call(wall, command).unwrap_or_else(|e| panic!("the store refused: {e}"))
    }

    fn work(&mut self, wall: Wall, command: Command) -> Vec<WorkItem> {
        match self.must(wall, command) {
            Reply::Work(items) => items,
            other => panic!("no work: {other:?}"),
        }
    }

    fn outbox(&mut self, wall: Wall) -> Vec<OutboxEntry> {
        match self.must(wall, Command::Outbox { shard: SHARD, after: 0, limit: limits::LISTING }) {
            Reply::Outbox(entries) => entries,
            other => panic!("no outbox: {other:?}"),
        }
    }

    /// `takes`: whether the game has a handler for a job; what it has none for waits in the store.
    pub(super) fn fill(&mut self, wall: Wall, input: &mut TickInput, takes: impl Fn(&WorkId) -> bool) {
        let due = Command::Due { shard: SHARD, before: wall, after: None, limit: limits::LISTING };
        let due = self.work(wall, due).into_iter().filter(|item| takes(&item.id)).take(IN_HAND);
        input.due = due.map(|item| DueWork { reward: self.rewards.get(&item.id).cloned(), item }).collect();
        if self.fate != Fate::Held {
            for OutboxEntry { position, grant, .. } in self.outbox(wall) {
                if self.told.contains_key(&grant.id) {
                    continue;
                }
                let (applied, balances) = self.apply(wall, &grant);
                if self.fate == Fate::Normal {
                    self.told.insert(grant.id.clone(), position);
                    input.results.push(GrantResult { grant, applied, balances });
                }
            }
        }
        for player in std::mem::take(&mut self.balances) {
            let balances = self.balances(wall, &player);
            input.balances.push((player, balances));
        }
        for (player, since) in std::mem::take(&mut self.missed) {
            let lines = match self.must(wall, Command::Ledger { player: player.clone(), limit: limits::LISTING }) {
                Reply::Ledger(lines) => lines,
                other => panic!("no ledger: {other:?}"),
            };
            let balances = self.balances(wall, &player);
            input.missed.push(MissedGrants { player, since, lines, balances });
        }
        input.tasks = std::mem::take(&mut self.tasks);
        input.owed_places = self.items.owed_places();
    }

    /// A grant that its ledger refuses is reported, and told as insufficient; a node keeps it as parked work besides.
    fn apply(&mut self, wall: Wall, grant: &Grant) -> (Applied, Vec<(String, i64)>) {
        match self.call(wall, Command::Apply { grant: grant.clone() }) {
            Ok(Reply::Applied { applied, balances }) => (applied, balances),
            Ok(other) => panic!("no answer of a ledger: {other:?}"),
            Err(e) => {
                self.errors.push(format!("grant {:?} to {} was refused: {e}", grant.source, grant.player));
                (Applied::Insufficient, self.balances(wall, &grant.player))
            }
        }
    }

    fn balances(&mut self, wall: Wall, player: &PlayerId) -> Vec<(String, i64)> {
        match self.must(wall, Command::Balances { player: player.clone() }) {
            Reply::Balances(balances) => balances,
            other => panic!("no balances: {other:?}"),
        }
    }

    /// One atomic step.
    pub(super) fn commit(&mut self, checkpoint: Checkpoint, effects: Effects, wall: Wall) {
        let Effects { mut scheduled, cancelled, completed, advanced, failed, grants, delivered } = effects;
        self.items.gone(cancelled.iter().chain(&completed));
        let refused = self.items.admit(&mut scheduled);
        self.errors.extend(refused.iter().map(too_many));
        let decided: BTreeSet<GrantId> = self.outbox(wall).into_iter().map(|entry| entry.grant.id).collect();
        let twice = grants.iter().find(|grant| decided.contains(&grant.id));
        assert!(twice.is_none(), "{twice:?} was decided twice (H6)");
        let mut batch = Batch {
            checkpoints: vec![checkpoint],
            scheduled,
            cancelled,
            completed,
            advanced,
            grants: grants.into_iter().map(|grant| (self.room.clone(), grant)).collect(),
            trimmed: delivered.iter().filter_map(|id| self.told.get(id).copied()).collect(),
            ..Batch::default()
        };
        for (id, reason) in failed {
            let attempt = self.item(wall, &id).map_or(0, |item| item.attempt);
            if attempt + 1 >= self.config.max_attempts {
                self.errors.push(format!(
                    "{} {:?} failed {} times and is parked: {reason}",
                    id.job,
                    id.key,
                    attempt + 1
                ));
                batch.parked.push((id, reason));
            } else {
                let due = wall.plus(backoff(self.config.retry_delay, attempt, LONGEST_RETRY));
                batch.failed.push((id, due));
            }
        }
        self.submit(wall, batch);
    }

    fn submit(&mut self, wall: Wall, batch: Batch) {
        let command = Command::Commit { fence: self.fence.clone(), shards: 1, number: self.number + 1, batch };
        match self.call(wall, command) {
            Ok(Reply::Committed { ignored, .. }) => {
                self.number += 1;
                let vain: Vec<_> = ignored.iter().filter(|one| is_of_game(&one.id)).collect();
                self.items.gone(vain.iter().filter(|one| !one.parked).map(|one| &one.id));
                self.errors.extend(vain.into_iter().map(in_vain));
            }
            Ok(other) => panic!("no answer to a commit: {other:?}"),
            Err(e) => panic!("the store refused what the room wants to keep: {e}"),
        }
    }

    fn all_work(&mut self, wall: Wall) -> Vec<WorkItem> {
        let (mut items, mut after) = (Vec::new(), None);
        loop {
            let page = self.work(wall, Command::Work { shard: SHARD, after: after.clone(), limit: limits::LISTING });
            after = page.last().map(|item| item.id.clone());
            let full = page.len() == limits::LISTING;
            items.extend(page);
            if !full {
                return items;
            }
        }
    }

    fn item(&mut self, wall: Wall, id: &WorkId) -> Option<WorkItem> {
        self.all_work(wall).into_iter().find(|item| item.id == *id)
    }

    /// Items that wait for a person: job, key, reason.
    pub(super) fn parked(&mut self, wall: Wall) -> Vec<(String, String, String)> {
        let parked = self.all_work(wall).into_iter().filter_map(|item| Some((item.id, item.parked?)));
        parked.map(|(id, reason)| (id.job.to_string(), id.key.to_string(), reason)).collect()
    }

    /// A person makes an item due again.
    pub(super) fn retry(&mut self, wall: Wall, job: &str, key: &str) {
        let id = WorkId { room: self.room.clone(), job: job.into(), key: key.into() };
        self.must(wall, Command::Retry { fence: self.fence.clone(), id });
    }

    /// The owner is lost: what only it knew is gone.
    pub(super) fn restart(&mut self, wall: Wall) -> Checkpoint {
        self.told.clear();
        self.tasks.clear();
        self.balances.clear();
        self.missed.clear();
        let items = self.all_work(wall);
        self.items.load(&items);
        match self.must(wall, Command::Load { room: self.room.clone() }) {
            Reply::Checkpoint(checkpoint) => checkpoint.expect("a stored checkpoint"),
            other => panic!("no checkpoint: {other:?}"),
        }
    }

    pub(super) fn reward(&mut self, wall: Wall, reward: Reward) {
        let (job, key) = (format!("schedule/{}", reward.id), reward.scheduled_for.0.to_string());
        let id = WorkId { room: self.room.clone(), job: job.into(), key: key.into() };
        let (due, payload) = (reward.scheduled_for, bytes::Bytes::new());
        let item = WorkItem { id: id.clone(), due, attempt: 0, parked: None, payload };
        self.submit(wall, Batch { scheduled: vec![item], ..Batch::default() });
        self.rewards.insert(id, reward);
    }

    pub(super) fn deposit(&mut self, wall: Wall, player: PlayerId, currency: &str, amount: i64) {
        self.deposits += 1;
        let grant = Grant {
            id: GrantId(format!("deposit/{}", self.deposits).into()),
            player: player.clone(),
            source: "deposit".into(),
            scheduled_for: None,
            amounts: BTreeMap::from([(currency.into(), amount)]),
            cap: None,
            token: bytes::Bytes::new(),
        };
        self.must(wall, Command::Apply { grant });
        self.balances.push(player);
    }

    pub(super) fn balance(&self, player: &PlayerId, currency: &str) -> i64 {
        // Reading changes nothing: a copy of the rows may be asked.
        let command = Command::Balances { player: player.clone() };
        match model::apply(&mut self.rows.clone(), &self.rules, Wall(0), command).reply {
            Ok(Reply::Balances(of)) => of.iter().find(|(name, _)| name == currency).map_or(0, |(_, amount)| *amount),
            other => panic!("no balances: {other:?}"),
        }
    }

    pub(super) fn wanted(&mut self, balances: Vec<PlayerId>, missed: Vec<(PlayerId, Wall)>) {
        self.balances.extend(balances);
        self.missed.extend(missed);
    }

    pub(super) fn run(&mut self, tasks: Vec<(u64, TaskFuture)>) {
        if tasks.is_empty() || self.fate == Fate::Held {
            return;
        }
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        for (id, task) in tasks {
            let ended = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| runtime.block_on(task)));
            self.tasks.push((id, ended.map_err(|_| TaskEnd::Failed)));
        }
    }
}
