//! Which slot a row lies in. All keys of one slot share a hash tag, so one script may touch them, on one server and in a Cluster alike.

use std::fmt;

use tenure_shared::{PlayerId, RoomId, ShardId};

use crate::store::{Command, Key};

/// A hash tag: `tenure:s17` of the keys `{tenure:s17}:rows`, `{tenure:s17}:index` and `{tenure:s17}:room:<id>`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Tag(String);

impl Tag {
    /// Members, tombstones, agreements, the highest term.
    pub(super) fn members() -> Self {
        Self("tenure:members".to_owned())
    }

    /// Routes and their counter.
    pub(super) fn routes() -> Self {
        Self("tenure:routes".to_owned())
    }

    /// When sessions were changed.
    pub(super) fn sessions() -> Self {
        Self("tenure:sessions".to_owned())
    }

    /// Everything of a shard.
    pub(super) fn shard(shard: ShardId) -> Self {
        Self(format!("tenure:s{shard}"))
    }

    /// A claim: with its shard, or alone.
    pub(super) fn claim(key: &Key) -> Self {
        key.as_shard().map_or_else(|| Self(format!("tenure:c:{key}")), Self::shard)
    }

    /// Everything of a player.
    pub(super) fn player(player: &PlayerId) -> Self {
        Self(format!("tenure:p:{player}"))
    }

    /// The slot of the key of a row, as far as the key tells; the others lie with the command's own rows.
    pub(super) fn of(row: &[u8], home: &Tag) -> Self {
        match kind(row) {
            b"member" | b"tombstone" | b"agreed" => Self::members(),
            b"route" | b"routelog" => Self::routes(),
            b"sessiontime" => Self::sessions(),
            b"meta" => match row {
                b"meta/term" | b"meta/format" => Self::members(),
                b"meta/routes" => Self::routes(),
                _ => home.clone(),
            },
            b"claim" | b"history" | b"state" => {
                let rest = row.iter().position(|byte| *byte == b'/').map_or(row, |at| &row[at + 1..]);
                let key = rest.split(|byte| *byte == 0).next().unwrap_or_default();
                Self::claim(&Key::named(&String::from_utf8_lossy(key)))
            }
            _ => home.clone(),
        }
    }

    pub(super) fn rows(&self) -> Vec<u8> {
        format!("{{{self}}}:rows").into_bytes()
    }

    pub(super) fn index(&self) -> Vec<u8> {
        format!("{{{self}}}:index").into_bytes()
    }

    /// The key of the body of a room, `room/<room>`.
    pub(super) fn body(&self, row: &[u8]) -> Vec<u8> {
        format!("{{{self}}}:room:{}", String::from_utf8_lossy(row.strip_prefix(ROOM).unwrap_or(row))).into_bytes()
    }

    /// A number that spreads slots over locks.
    pub(super) fn stripe(&self, count: usize) -> usize {
        (xxhash_rust::xxh3::xxh3_64(self.0.as_bytes()) % count.max(1) as u64) as usize
    }
}

impl fmt::Display for Tag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

const ROOM: &[u8] = b"room/";

/// What stands before the first `/`.
fn kind(row: &[u8]) -> &[u8] {
    row.split(|byte| *byte == b'/').next().unwrap_or_default()
}

/// Checkpoints are large: each is a string of its own, so that one hash does not grow beyond what can be moved or dumped at once.
pub(super) fn is_body(row: &[u8]) -> bool {
    row.starts_with(ROOM)
}

/// Whether rows of this kind are ever scanned.
pub(super) fn is_indexed(row: &[u8]) -> bool {
    let kinds: [&[u8]; 14] = [
        b"member",
        b"routelog",
        b"rooms",
        b"item",
        b"due",
        b"donetime",
        b"completed",
        b"outbox",
        b"balance",
        b"ledgerline",
        b"cap",
        b"session",
        b"sessiontime",
        b"history",
    ];
    kinds.contains(&kind(row))
}

/// Where a command's own rows lie.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Home {
    /// In this slot.
    Tag(Tag),
    /// With the shard of a room, which the number of shards tells.
    Room(RoomId),
}

/// The slot of a command: all that it writes lies there.
pub(super) fn home(command: &Command) -> Home {
    let tag = match command {
        Command::Register { .. }
        | Command::Heartbeat { .. }
        | Command::Expire { .. }
        | Command::SetStatus { .. }
        | Command::SetSchedules { .. }
        | Command::Members
        | Command::Deregister { .. }
        | Command::Agree { .. }
        | Command::AgreeOrGet { .. }
        | Command::Reagree { .. } => Tag::members(),
        Command::Acquire { key, .. } | Command::Claim { key } | Command::State { key } | Command::History { key } => {
            Tag::claim(key)
        }
        Command::Transfer { fence, .. } | Command::Release { fence } | Command::Publish { fence } => {
            Tag::claim(fence.key())
        }
        Command::Commit { fence, .. } | Command::Retry { fence, .. } | Command::PutState { fence, .. } => {
            Tag::claim(fence.key())
        }
        Command::Claims { keys } => keys.first().map_or_else(Tag::members, Tag::claim),
        Command::Routes { .. } => Tag::routes(),
        Command::Load { room } => return Home::Room(room.clone()),
        Command::Rooms { shard, .. }
        | Command::Due { shard, .. }
        | Command::Overdue { shard }
        | Command::Work { shard, .. }
        | Command::RoomWork { shard, .. }
        | Command::Completed { shard, .. }
        | Command::Outbox { shard, .. } => Tag::shard(*shard),
        Command::Apply { grant } => Tag::player(&grant.player),
        Command::Balances { player }
        | Command::Ledger { player, .. }
        | Command::Session { player, .. }
        | Command::PutSession { player, .. } => Tag::player(player),
    };
    Home::Tag(tag)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_lie_where_their_keys_say() {
        let home = Tag::shard(ShardId(3));
        let at = |row: &str| Tag::of(row.as_bytes(), &home).to_string();
        assert_eq!(at("claim/shard/17"), "tenure:s17");
        assert_eq!(at("history/shard/17\x000001"), "tenure:s17");
        assert_eq!(at("claim/daemon/regions@8/2"), "tenure:c:daemon/regions@8/2");
        assert_eq!(at("history/singleton/x\x000001"), "tenure:c:singleton/x");
        assert_eq!(at("state/daemon/regions@8/2"), "tenure:c:daemon/regions@8/2");
        assert_eq!(at("member/a#1"), "tenure:members");
        assert_eq!(at("routelog/0001"), "tenure:routes");
        assert_eq!(at("meta/time"), "tenure:s3");
        assert_eq!(at("items/3\0r"), "tenure:s3");
        assert_eq!(home.body(b"room/a/b/c"), b"{tenure:s3}:room:a/b/c");
        assert!(is_indexed(b"item/3\0r") && !is_indexed(b"items/3\0r"));
    }
}
