//! The keys of the rows. Parts are readable and divided by NUL, which no part may hold; numbers are 16 hexadecimal digits, so
//! that their order as text is their order as numbers. `model/mod.rs` lists the whole layout.

use tenure_shared::{PlayerId, RoomId, ShardId};

use crate::{
    runtime::Wall,
    store::{GrantId, Key, WorkId},
};

pub(super) const TIME: &[u8] = b"meta/time";
pub(super) const TERM: &[u8] = b"meta/term";
pub(super) const ROUTES: &[u8] = b"meta/routes";
pub(super) const FORMAT: &[u8] = b"meta/format";
pub(super) const MEMBERS: &[u8] = b"member/";
pub(super) const ROUTE_LOG: &[u8] = b"routelog/";
pub(super) const SESSION_TIMES: &[u8] = b"sessiontime/";

pub(super) fn number(n: u64) -> String {
    format!("{n:016x}")
}

pub(super) fn member(incarnation: &str) -> Vec<u8> {
    format!("member/{incarnation}").into_bytes()
}

pub(super) fn tombstone(incarnation: &str) -> Vec<u8> {
    format!("tombstone/{incarnation}").into_bytes()
}

pub(super) fn claim(key: &Key) -> Vec<u8> {
    format!("claim/{key}").into_bytes()
}

pub(super) fn state(key: &Key) -> Vec<u8> {
    format!("state/{key}").into_bytes()
}

pub(super) fn route(key: &Key) -> Vec<u8> {
    format!("route/{key}").into_bytes()
}

pub(super) fn route_log(counter: u64) -> Vec<u8> {
    format!("routelog/{}", number(counter)).into_bytes()
}

pub(super) fn agreed(name: &str) -> Vec<u8> {
    format!("agreed/{name}").into_bytes()
}

pub(super) fn room(room: &RoomId) -> Vec<u8> {
    format!("room/{room}").into_bytes()
}

pub(super) fn shard(shard: ShardId) -> Vec<u8> {
    format!("shard/{shard}").into_bytes()
}

pub(super) fn shard_rooms(shard: ShardId) -> Vec<u8> {
    format!("rooms/{shard}\0").into_bytes()
}

pub(super) fn shard_room(shard: ShardId, room: &RoomId) -> Vec<u8> {
    format!("rooms/{shard}\0{room}").into_bytes()
}

fn id(id: &WorkId) -> String {
    format!("{}\0{}\0{}", id.room, id.job, id.key)
}

pub(super) fn items(shard: ShardId) -> Vec<u8> {
    format!("item/{shard}\0").into_bytes()
}

pub(super) fn room_items(shard: ShardId, room: &RoomId) -> Vec<u8> {
    format!("item/{shard}\0{room}\0").into_bytes()
}

pub(super) fn item(shard: ShardId, work: &WorkId) -> Vec<u8> {
    format!("item/{shard}\0{}", id(work)).into_bytes()
}

pub(super) fn item_count(shard: ShardId, room: &RoomId) -> Vec<u8> {
    format!("items/{shard}\0{room}").into_bytes()
}

pub(super) fn due_items(shard: ShardId) -> Vec<u8> {
    format!("due/{shard}\0").into_bytes()
}

pub(super) fn due(shard: ShardId, at: Wall, work: &WorkId) -> Vec<u8> {
    format!("due/{shard}\0{}\0{}", number(at.0), id(work)).into_bytes()
}

pub(super) fn done(shard: ShardId, work: &WorkId) -> Vec<u8> {
    format!("done/{shard}\0{}", id(work)).into_bytes()
}

pub(super) fn done_times(shard: ShardId) -> Vec<u8> {
    format!("donetime/{shard}\0").into_bytes()
}

pub(super) fn done_time(shard: ShardId, at: Wall, work: &WorkId) -> Vec<u8> {
    format!("donetime/{shard}\0{}\0{}", number(at.0), id(work)).into_bytes()
}

pub(super) fn completed(shard: ShardId, line: u64) -> Vec<u8> {
    format!("completed/{shard}\0{}", number(line)).into_bytes()
}

pub(super) fn outbox(shard: ShardId) -> Vec<u8> {
    format!("outbox/{shard}\0").into_bytes()
}

pub(super) fn outbox_entry(shard: ShardId, position: u64) -> Vec<u8> {
    format!("outbox/{shard}\0{}", number(position)).into_bytes()
}

pub(super) fn balances(player: &PlayerId) -> Vec<u8> {
    format!("balance/{player}\0").into_bytes()
}

pub(super) fn balance(player: &PlayerId, currency: &str) -> Vec<u8> {
    format!("balance/{player}\0{currency}").into_bytes()
}

pub(super) fn granted(player: &PlayerId, grant: &GrantId) -> Vec<u8> {
    format!("granted/{player}\0{}", grant.0).into_bytes()
}

pub(super) fn ledger(player: &PlayerId) -> Vec<u8> {
    format!("ledger/{player}").into_bytes()
}

pub(super) fn ledger_lines(player: &PlayerId) -> Vec<u8> {
    format!("ledgerline/{player}\0").into_bytes()
}

pub(super) fn ledger_line(player: &PlayerId, line: u64) -> Vec<u8> {
    format!("ledgerline/{player}\0{}", number(line)).into_bytes()
}

pub(super) fn caps(player: &PlayerId, source: &str) -> Vec<u8> {
    format!("cap/{player}\0{source}\0").into_bytes()
}

pub(super) fn cap(player: &PlayerId, source: &str, since: Wall) -> Vec<u8> {
    format!("cap/{player}\0{source}\0{}", number(since.0)).into_bytes()
}

pub(super) fn sessions(player: &PlayerId) -> Vec<u8> {
    format!("session/{player}\0").into_bytes()
}

pub(super) fn session(player: &PlayerId, room: &RoomId) -> Vec<u8> {
    format!("session/{player}\0{room}").into_bytes()
}

pub(super) fn session_time(at: Wall, player: &PlayerId, room: &RoomId) -> Vec<u8> {
    format!("sessiontime/{}\0{player}\0{room}", number(at.0)).into_bytes()
}

pub(super) fn history(key: &Key) -> Vec<u8> {
    format!("history/{key}\0").into_bytes()
}

pub(super) fn history_line(key: &Key, line: u64) -> Vec<u8> {
    format!("history/{key}\0{}", number(line)).into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_sort_as_text() {
        let numbers = [0, 1, 9, 10, 255, 256, 1_764_446_400_123_456, u64::MAX];
        let texts: Vec<_> = numbers.iter().map(|n| number(*n)).collect();
        assert!(texts.is_sorted());
    }
}
