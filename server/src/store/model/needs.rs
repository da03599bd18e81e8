//! What a command will read, as far as its words tell: a backend that is a round trip away reads it at once, before it is carried out.
//!
//! Leaving something out, or naming too much, costs a round trip or some bytes and is never wrong: what was not foreseen is read then.

use tenure_shared::Term;

use super::{AGREED_SHARDS, keys, limits};
use crate::store::{Batch, Command, Fence, Grant, WorkId};

/// One scan, as [`super::Kv::scan`] is asked for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::store) struct Scan {
    pub(in crate::store) prefix: Vec<u8>,
    pub(in crate::store) after: Option<Vec<u8>>,
    pub(in crate::store) limit: usize,
    /// Rows that the rows of the scan name are read along with it: their keys are this prefix and what stands in the key found behind so
    /// many bytes.
    pub(in crate::store) with: Option<(Vec<u8>, usize)>,
}

impl Scan {
    /// A scan from the start of a prefix.
    pub(in crate::store) fn first(prefix: Vec<u8>, limit: usize) -> Self {
        Self { prefix, after: None, limit, with: None }
    }
}

/// Rows to read.
#[derive(Clone, Debug, Default)]
pub(in crate::store) struct Needs {
    pub(in crate::store) keys: Vec<Vec<u8>>,
    pub(in crate::store) scans: Vec<Scan>,
}

impl Needs {
    /// Whether nothing is to be read.
    pub(in crate::store) fn is_empty(&self) -> bool {
        self.keys.is_empty() && self.scans.is_empty()
    }

    fn keys(keys: impl IntoIterator<Item = Vec<u8>>) -> Self {
        Self { keys: keys.into_iter().collect(), scans: Vec::new() }
    }

    fn scan(prefix: Vec<u8>, after: Option<Vec<u8>>, limit: usize) -> Self {
        let limit = limit.min(limits::LISTING);
        Self { keys: Vec::new(), scans: vec![Scan { prefix, after, limit, with: None }] }
    }
}

/// What the command reads.
pub(in crate::store) fn needs(command: &Command) -> Needs {
    match command {
        Command::Register { incarnation, .. }
        | Command::Expire { incarnation, .. }
        | Command::SetStatus { incarnation, .. }
        | Command::SetSchedules { incarnation, .. }
        | Command::Deregister { incarnation } => {
            Needs::keys([keys::member(incarnation.as_str()), keys::tombstone(incarnation.as_str())])
        }
        Command::Heartbeat { incarnation, .. } => {
            Needs::keys([keys::member(incarnation.as_str()), keys::TERM.to_vec()])
        }
        Command::Members => Needs::scan(keys::MEMBERS.to_vec(), None, limits::LISTING),
        Command::Agree { name, .. } | Command::AgreeOrGet { name, .. } | Command::Reagree { name, .. } => {
            Needs::keys([keys::agreed(name)])
        }

        Command::Acquire { key, caller, seen, .. } => {
            let holder = seen.as_ref().and_then(|(holder, _): &(_, Term)| holder.as_ref());
            let members = holder.into_iter().chain([caller]).map(|name| keys::member(name.as_str()));
            Needs::keys(members.chain([keys::claim(key)]))
        }
        Command::Transfer { fence, to, manifest, .. } => {
            let shard = fence.key().as_shard();
            let rooms = shard.map(|shard| manifest.iter().map(move |(room, _)| keys::shard_room(shard, room)));
            let rooms = rooms.into_iter().flatten();
            Needs::keys(rooms.chain([keys::claim(fence.key()), keys::member(to.as_str())]))
        }
        Command::Release { fence } | Command::Publish { fence } => Needs::keys([keys::claim(fence.key())]),
        Command::Claim { key } => Needs::keys([keys::claim(key)]),
        Command::Claims { keys } => Needs::keys(keys.iter().take(limits::LISTING).map(keys::claim)),
        Command::Routes { since } => {
            let mut needs = Needs::scan(keys::ROUTE_LOG.to_vec(), Some(keys::route_log(*since)), limits::LISTING);
            needs.keys.push(keys::ROUTES.to_vec());
            needs
        }
        Command::State { key } => Needs::keys([keys::state(key)]),
        Command::PutState { fence, .. } => Needs::keys([keys::claim(fence.key()), keys::state(fence.key())]),
        Command::History { key } => Needs::scan(keys::history(key), None, limits::LISTING),

        Command::Load { room } => Needs::keys([keys::room(room)]),
        Command::Rooms { shard, after, limit } => {
            let after = after.as_ref().map(|room| keys::shard_room(*shard, room));
            Needs::scan(keys::shard_rooms(*shard), after, *limit)
        }
        Command::Commit { fence, batch, .. } => commit(fence, batch),
        Command::Due { shard, after, limit, .. } => {
            let prefix = keys::due_items(*shard);
            let after = after.as_ref().map(|(at, id)| keys::due(*shard, *at, id));
            // `due/<shard>|<16 digits>|<item>` names `item/<shard>|<item>`.
            let with = Some((keys::items(*shard), prefix.len() + keys::number(0).len() + 1));
            Needs { keys: Vec::new(), scans: vec![Scan { prefix, after, limit: (*limit).min(limits::LISTING), with }] }
        }
        Command::Overdue { shard } => Needs::scan(keys::due_items(*shard), None, limits::LISTING),
        Command::Work { shard, after, limit } => {
            let after = after.as_ref().map(|id| keys::item(*shard, id));
            Needs::scan(keys::items(*shard), after, *limit)
        }
        Command::RoomWork { shard, room, after, limit } => {
            let after = after.as_ref().map(|id| keys::item(*shard, id));
            Needs::scan(keys::room_items(*shard, room), after, *limit)
        }
        Command::Retry { fence, id } => {
            let item = fence.key().as_shard().map(|shard| keys::item(shard, id));
            Needs::keys(item.into_iter().chain([keys::claim(fence.key())]))
        }
        Command::Completed { shard, .. } => Needs::keys([keys::shard(*shard)]),
        Command::Outbox { shard, after, limit } => {
            Needs::scan(keys::outbox(*shard), Some(keys::outbox_entry(*shard, *after)), *limit)
        }

        Command::Apply { grant } => apply(grant),
        Command::Balances { player } => Needs::scan(keys::balances(player), None, limits::LEDGER_CURRENCIES),
        Command::Ledger { player, .. } => Needs::keys([keys::ledger(player)]),
        Command::Session { player, room } => Needs::keys([keys::session(player, room)]),
        Command::PutSession { player, room, .. } => {
            let mut needs = Needs::scan(keys::sessions(player), None, limits::PLAYER_SESSIONS + 1);
            needs.keys.push(keys::session(player, room));
            needs
        }
    }
}

fn apply(grant: &Grant) -> Needs {
    let Grant { id, player, source, amounts, cap, .. } = grant;
    let balances = amounts.keys().map(|currency| keys::balance(player, currency));
    let cap = cap.as_ref().map(|cap| keys::cap(player, source, cap.since));
    let mut needs = Needs::keys(balances.chain(cap).chain([keys::granted(player, id), keys::ledger(player)]));
    // Twice, before and after the change: so many that the second one, which looks past its own writes, is answered by the first.
    let most = limits::LEDGER_CURRENCIES + limits::GRANT_CURRENCIES + 1;
    needs.scans.push(Scan::first(keys::balances(player), most));
    needs.scans.push(Scan::first(keys::ledger_lines(player), limits::TRIM + 1));
    needs
}

fn commit(fence: &Fence, batch: &Batch) -> Needs {
    let mut needs = Needs::keys([keys::claim(fence.key()), keys::agreed(AGREED_SHARDS)]);
    let Some(shard) = fence.key().as_shard() else { return needs };
    let Batch {
        checkpoints,
        deleted,
        scheduled,
        completed,
        advanced,
        failed,
        parked,
        cancelled,
        grants: _,
        trimmed,
        again,
    } = batch;
    let all = &mut needs.keys;
    all.push(keys::shard(shard));
    all.extend(checkpoints.iter().map(|checkpoint| keys::shard_room(shard, &checkpoint.summary.room)));
    let scheduled = || scheduled.iter().map(|item| &item.id);
    let changed = advanced.iter().map(|(id, _)| id).chain(failed.iter().map(|(id, _)| id));
    let changed = changed.chain(parked.iter().map(|(id, _)| id));
    let again = || again.iter().flat_map(|decision| &decision.completed);
    let counted = || cancelled.iter().chain(completed).chain(scheduled()).chain(again());
    all.extend(counted().chain(changed).map(|id: &WorkId| keys::item(shard, id)));
    all.extend(counted().map(|id| keys::item_count(shard, &id.room)));
    all.extend(scheduled().chain(again()).map(|id| keys::done(shard, id)));
    all.extend(trimmed.iter().map(|position| keys::outbox_entry(shard, *position)));
    all.sort_unstable();
    all.dedup();
    if !completed.is_empty() {
        // As many as are trimmed, past the notes that this batch writes itself.
        let limit = limits::TRIM.max(completed.len() * 2) + completed.len();
        needs.scans.push(Scan::first(keys::done_times(shard), limit));
    }
    let rooms = deleted.iter().map(|room| Scan::first(keys::room_items(shard, room), limits::ROOM_ITEMS));
    needs.scans.extend(rooms);
    needs
}
