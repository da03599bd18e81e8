//! Report on the cluster as one node sees it: members, who holds which shard, what moved lately.

use std::collections::{BTreeMap, VecDeque};

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use tenure_shared::{IncarnationId, ShardId, Term};

use crate::{daemon::SetStatus, runtime::Wall};

/// Moves that are kept; an older one is in the store's history.
pub const MOVES_KEPT: usize = 200;

/// A member.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemberReport {
    /// Name of the node.
    pub node: String,
    /// Its life.
    pub incarnation: String,
    /// Whether it is the node that was asked.
    pub this: bool,
    /// `joining`, `serving`, `draining`.
    pub status: String,
    /// `gateway`, `room`.
    pub roles: Vec<String>,
    /// Version of its game.
    pub version: String,
    /// `node.revision`; 0 is unset.
    pub revision: u64,
    /// Where its links are reached.
    pub link: String,
    /// Where players reach it.
    pub public_url: String,
    /// Version of its time-zone data: members that differ may compute other times for one schedule.
    pub zone_data: String,
    /// Hash of the file of schedules that it runs; empty before it has said so.
    #[serde(default)]
    pub schedules: String,
    /// Heartbeats so far.
    pub beats: u64,
    /// How much of its lease is left by the store's clock, milliseconds; negative: it has lapsed.
    pub lease_left_ms: i64,
    /// Shards that it holds.
    pub shards: u64,
}

/// Who holds a shard.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OwnerReport {
    /// Which.
    pub shard: ShardId,
    /// For which term.
    pub term: Term,
    /// The life that holds it; `None`: it was released.
    pub owner: Option<String>,
}

/// A shard changed hands.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MoveReport {
    /// When this node saw it, by the store's clock.
    pub at: Wall,
    /// Which.
    pub shard: ShardId,
    /// The term that began, or that ended with a release.
    pub term: Term,
    /// The life that held it before.
    pub from: Option<String>,
    /// The life that holds it.
    pub to: Option<String>,
}

/// The cluster, as one node sees it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClusterReport {
    /// The node that was asked.
    pub node: String,
    /// Its life.
    pub incarnation: Option<String>,
    /// The store's time, as far as known.
    pub now: Wall,
    /// When members and owners were read last, by the store's clock.
    pub seen: Wall,
    /// Into how many shards the rooms are divided.
    pub shards: u32,
    /// Members, by name.
    pub members: Vec<MemberReport>,
    /// Owners, by shard; a shard that nobody ever owned is not here.
    pub owners: Vec<OwnerReport>,
    /// Shards that no living member holds.
    pub ownerless: Vec<ShardId>,
    /// What changed hands lately, newest first.
    pub moves: Vec<MoveReport>,
    /// Sets of daemons that this node's build has.
    #[serde(default)]
    pub daemons: Vec<SetStatus>,
}

impl ClusterReport {
    /// The room nodes by the hash of the file of schedules that they run. More than one is a thing to mend, or a deploy under way.
    pub fn schedules(&self) -> BTreeMap<&str, Vec<&str>> {
        let mut files: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        let rooms = self.members.iter().filter(|member| member.roles.iter().any(|role| role == "room"));
        for member in rooms.filter(|member| !member.schedules.is_empty()) {
            files.entry(&member.schedules).or_default().push(&member.node);
        }
        files
    }

    /// Counts shards per member and finds those that no member holds.
    #[must_use]
    pub fn counted(mut self) -> Self {
        let mut held: BTreeMap<&str, u64> = BTreeMap::new();
        for owner in self.owners.iter().filter_map(|row| row.owner.as_deref()) {
            *held.entry(owner).or_default() += 1;
        }
        for member in &mut self.members {
            member.shards = held.get(member.incarnation.as_str()).copied().unwrap_or(0);
        }
        let lives = |life: &str| self.members.iter().any(|member| member.incarnation == life);
        let owned: std::collections::BTreeSet<ShardId> =
            self.owners.iter().filter(|row| row.owner.as_deref().is_some_and(lives)).map(|row| row.shard).collect();
        self.ownerless = (0..self.shards).map(ShardId).filter(|shard| !owned.contains(shard)).collect();
        self.members.sort_by(|a, b| (&a.node, &a.incarnation).cmp(&(&b.node, &b.incarnation)));
        self
    }
}

/// Remembers what changed hands, from one look at the routes to the next.
#[derive(Debug, Default)]
pub struct Moves(Mutex<Seen>);

#[derive(Debug, Default)]
struct Seen {
    owners: BTreeMap<ShardId, (Option<IncarnationId>, Term)>,
    kept: VecDeque<MoveReport>,
}

impl Moves {
    /// Notes what differs from the last look. What the first look finds is not news.
    pub fn look(&self, now: Wall, owners: impl IntoIterator<Item = (ShardId, Option<IncarnationId>, Term)>) {
        let mut seen = self.0.lock();
        let first = seen.owners.is_empty();
        for (shard, owner, term) in owners {
            let before = seen.owners.insert(shard, (owner.clone(), term));
            if first || before.as_ref() == Some(&(owner.clone(), term)) {
                continue;
            }
            let text = |life: IncarnationId| life.to_string();
            let from = before.and_then(|(owner, _)| owner).map(text);
            if seen.kept.len() == MOVES_KEPT {
                seen.kept.pop_back();
            }
            seen.kept.push_front(MoveReport { at: now, shard, term, from, to: owner.map(text) });
        }
    }

    /// What changed hands, newest first.
    pub fn newest(&self) -> Vec<MoveReport> {
        self.0.lock().kept.iter().cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn life(name: &str) -> IncarnationId {
        IncarnationId::new(name).expect("valid")
    }

    #[test]
    fn moves_are_differences() {
        let moves = Moves::default();
        moves.look(Wall(1), (0..300).map(|shard| (ShardId(shard), Some(life("a#1")), Term(5))));
        assert!(moves.newest().is_empty(), "what was there before is not news");
        moves.look(Wall(2), [(ShardId(3), None, Term(5)), (ShardId(4), Some(life("a#1")), Term(5))]);
        moves.look(Wall(3), [(ShardId(3), Some(life("b#1")), Term(9))]);
        let newest = moves.newest();
        let rows: Vec<_> = newest.iter().map(|m| (m.at, m.shard, m.term, m.from.as_deref(), m.to.as_deref())).collect();
        assert_eq!(
            rows,
            [(Wall(3), ShardId(3), Term(9), None, Some("b#1")), (Wall(2), ShardId(3), Term(5), Some("a#1"), None),]
        );
        moves.look(Wall(4), (0..300).map(|shard| (ShardId(shard), Some(life("c#1")), Term(10))));
        assert_eq!(moves.newest().len(), MOVES_KEPT);
    }

    #[test]
    fn shards_of_the_dead_have_no_owner() {
        let member = |node: &str| MemberReport {
            node: node.to_owned(),
            incarnation: format!("{node}#1"),
            this: false,
            status: "serving".to_owned(),
            roles: Vec::new(),
            version: String::new(),
            revision: 0,
            link: String::new(),
            public_url: String::new(),
            zone_data: String::new(),
            schedules: String::new(),
            beats: 0,
            lease_left_ms: 0,
            shards: 0,
        };
        let owner = |shard, owner: Option<&str>| OwnerReport {
            shard: ShardId(shard),
            term: Term(1),
            owner: owner.map(str::to_owned),
        };
        let report = ClusterReport {
            shards: 5,
            members: vec![member("b"), member("a")],
            owners: vec![owner(0, Some("a#1")), owner(1, Some("dead#1")), owner(2, None), owner(3, Some("a#1"))],
            ..ClusterReport::default()
        };
        let report = report.counted();
        assert_eq!(
            report.members.iter().map(|m| (m.node.as_str(), m.shards)).collect::<Vec<_>>(),
            [("a", 2), ("b", 0)]
        );
        assert_eq!(report.ownerless, [ShardId(1), ShardId(2), ShardId(4)]);
    }
}
