//! A store for the tests of the admin port that knows one player.

use tenure::{
    runtime::Wall,
    store::{
        Backend, BoxFuture, Command, CompletedWork, Error, GrantId, HistoryEntry, Key, LedgerEntry, Reply, Route,
        Stamped, WorkId, WorkItem,
    },
};
use tenure_shared::{IncarnationId, RoomId, ShardId, Term};

use super::SHARDS;

/// A store with one player, one parked item and a history.
pub(super) struct Books {
    pub(super) damaged: bool,
}

impl Backend for Books {
    fn execute(&self, command: Command) -> BoxFuture<'_, Stamped> {
        let reply = self.answer(command);
        Box::pin(async move { Stamped { at: Wall(1), reply } })
    }
}

pub(super) fn item() -> WorkItem {
    let id = WorkId { room: room(), job: "harvest".into(), key: "k 1&2".into() };
    WorkItem { id, due: Wall(1_800_000_000_000_000), attempt: 10, parked: Some("no field".into()), payload: "".into() }
}

pub(super) fn room() -> RoomId {
    RoomId::new("arena/eu/k3").expect("valid")
}

impl Books {
    fn answer(&self, command: Command) -> Result<Reply, Error> {
        let owner = |name: &str| IncarnationId::new(name).expect("valid");
        Ok(match command {
            Command::Balances { player } if player.as_str() == "guest:1" => Reply::Balances(vec![("gold".into(), 130)]),
            Command::Balances { .. } => Reply::Balances(Vec::new()),
            Command::Ledger { player, .. } if player.as_str() == "guest:1" => Reply::Ledger(vec![LedgerEntry {
                id: GrantId("schedule/chest/1/arena/eu/k3/guest:1".into()),
                source: "chest".into(),
                scheduled_for: Some(Wall(1)),
                given: [("gold".into(), 130)].into(),
                insufficient: false,
                at: Wall(1_800_000_000_000_000),
            }]),
            Command::Ledger { .. } => Reply::Ledger(Vec::new()),
            Command::Work { shard, after: None, .. } if shard == room().shard(SHARDS) => Reply::Work(vec![item()]),
            Command::Work { .. } => Reply::Work(Vec::new()),
            Command::Routes { since } => {
                let route = |key| Route { key, owner: Some(owner("b#1")), term: Term(2) };
                let keys = [Key::shard(ShardId(0)), Key::named("daemon/work@1/3")];
                let changed = if since == 0 { keys.map(route).to_vec() } else { Vec::new() };
                Reply::Routes { counter: 2, changed }
            }
            Command::History { key } => {
                let entry = |term, name| HistoryEntry {
                    term: Term(term),
                    owner: Some(owner(name)),
                    from: None,
                    cause: "acquire".into(),
                    at: Wall(term),
                };
                let first = key.as_shard().is_none_or(|shard| shard == ShardId(0));
                Reply::History(vec![entry(1, "a#1"), entry(if first && self.damaged { 1 } else { 2 }, "b#1")])
            }
            Command::Completed { .. } => {
                Reply::Completed(vec![CompletedWork { id: item().id, term: Term(1), at: Wall(1) }])
            }
            other => return Err(Error::Invalid(format!("not in this test: {other:?}"))),
        })
    }
}
