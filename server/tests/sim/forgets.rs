//! A store that forgets (DESIGN, "What a store may forget"): its primary dies, and what takes its place after a while lacks the last writes, of
//! everything or of some slots alone, and has a clock that differs by less than the failover took.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::Arc,
    time::Duration,
};

use tenure::{
    runtime::Mono,
    store::{Error, model},
};
use tenure_shared::RoomId;

use crate::cluster::{SHARDS, Sim};

/// How long it is remembered what stood in a row before: longer than any replica is behind.
const REMEMBERED: Duration = Duration::from_secs(4);
/// The slots lie on so many primaries.
const PRIMARIES: u64 = 3;

/// Which seeds have a store that forgets.
pub fn forgets(seed: u64) -> bool {
    seed % 6 == 3
}

/// Rows, and what stood in them before.
#[derive(Default)]
pub struct Rows {
    now: BTreeMap<Vec<u8>, Vec<u8>>,
    before: VecDeque<(Mono, Vec<u8>, Option<Vec<u8>>)>,
    /// The time of what is written next.
    pub at: Mono,
}

impl Rows {
    fn remember(&mut self, key: &[u8], was: Option<Vec<u8>>) {
        self.before.push_back((self.at, key.to_vec(), was));
        while self.before.front().is_some_and(|(at, ..)| self.at.since(*at) > REMEMBERED) {
            self.before.pop_front();
        }
    }

    /// What `lost` names is again as it was at `then`.
    pub fn fall_back(&mut self, then: Mono, lost: impl Fn(&[u8]) -> bool) -> usize {
        let (mut undone, mut kept) = (0, VecDeque::new());
        while let Some((at, key, was)) = self.before.pop_back() {
            if at < then {
                self.before.push_back((at, key, was));
                break;
            }
            if lost(&key) {
                undone += 1;
                match was {
                    Some(value) => drop(self.now.insert(key, value)),
                    None => drop(self.now.remove(&key)),
                }
            } else {
                kept.push_front((at, key, was));
            }
        }
        self.before.append(&mut kept);
        undone
    }

    pub fn keys(&self) -> impl Iterator<Item = &Vec<u8>> {
        self.now.keys()
    }

    pub fn copy(&self) -> BTreeMap<Vec<u8>, Vec<u8>> {
        self.now.clone()
    }
}

impl model::Kv for Rows {
    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, Error> {
        model::Kv::get(&self.now, key)
    }

    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<(), Error> {
        let was = self.now.insert(key.to_vec(), value.to_vec());
        self.remember(key, was);
        Ok(())
    }

    fn delete(&mut self, key: &[u8]) -> Result<(), Error> {
        let was = self.now.remove(key);
        self.remember(key, was);
        Ok(())
    }

    fn scan(&self, prefix: &[u8], after: Option<&[u8]>, limit: usize) -> Result<model::Rows, Error> {
        model::Kv::scan(&self.now, prefix, after, limit)
    }
}

/// The slot of a row, as in Redis: members, routes, a shard with its claim, a player.
pub fn slot(row: &[u8]) -> String {
    let text = String::from_utf8_lossy(row);
    let (kind, rest) = text.split_once('/').unwrap_or((&text, ""));
    let first = rest.split('\0').next().unwrap_or_default();
    match kind {
        "member" | "tombstone" | "agreed" | "meta" if rest != "routes" => "members".to_owned(),
        "route" | "routelog" | "meta" => "routes".to_owned(),
        "claim" | "history" | "state" => first.strip_prefix("shard/").map_or_else(|| first.to_owned(), shard),
        "room" => RoomId::new(first).map_or_else(|_| first.to_owned(), |room| shard(&room.shard(SHARDS).to_string())),
        "rooms" | "shard" | "item" | "items" | "due" | "done" | "donetime" | "completed" | "outbox" => shard(first),
        "balance" | "ledger" | "granted" | "ledgerline" | "cap" | "session" => format!("player {first}"),
        _ => kind.to_owned(),
    }
}

fn shard(number: &str) -> String {
    format!("shard {number}")
}

fn primary(seed: u64, slot: &str) -> u64 {
    xxhash_rust::xxh3::xxh3_64_with_seed(slot.as_bytes(), seed) % PRIMARIES
}

/// The store fails over now and then until `end`. Gives how often it did.
pub async fn failovers(sim: Arc<Sim>, seed: u64, end: Mono) -> u64 {
    let rng = sim.net.rng("failovers");
    let mut count = 0;
    loop {
        sim.net.clock.sleep(Duration::from_millis(700 + rng.below(4_000))).await;
        if sim.net.clock.now() >= end {
            return count;
        }
        count += 1;
        let takes = Duration::from_millis(100 + rng.below(1_300));
        let lag = Duration::from_millis(if rng.below(2) == 0 { rng.below(80) } else { rng.below(1_500) });
        let then = sim.net.clock.now().before(lag);
        let whole = rng.below(2) == 0;
        let which = rng.below(PRIMARIES);
        let differs = i64::try_from(rng.below(u64::try_from(takes.as_micros()).expect("short"))).expect("short");
        let differs = if rng.below(2) == 0 { differs } else { -differs };
        let what = if whole { "all".to_owned() } else { format!("primary {which}") };
        sim.net.log(&format!(
            "{what} of the store fails over for {takes:?}, to {lag:?} ago, a clock that differs by {differs} us"
        ));
        sim.net.failover(takes);
        sim.checks.forgot(sim.net.clock.now().plus(takes));
        // Nothing is written meanwhile: what is read next is the new primary's.
        sim.store.fall_back(then, |row| whole || primary(seed, &slot(row)) == which, whole.then_some(differs));
        sim.net.clock.sleep(takes).await;
    }
}

#[test]
fn what_fell_back_is_as_it_was_and_the_rest_is_not() {
    use model::Kv as _;
    let mut rows = Rows::default();
    let put = |rows: &mut Rows, at: u64, key: &str, value: &str| {
        rows.at = Mono(at);
        rows.put(key.as_bytes(), value.as_bytes()).expect("put");
    };
    put(&mut rows, 1, "room/lab/eu/a", "1");
    put(&mut rows, 1, "member/a", "1");
    put(&mut rows, 2, "room/lab/eu/a", "2");
    put(&mut rows, 3, "member/a", "3");
    put(&mut rows, 3, "member/b", "3");
    rows.at = Mono(4);
    rows.delete(b"room/lab/eu/a").expect("deleted");
    let of_rooms = |row: &[u8]| slot(row).starts_with("shard");
    assert_eq!(rows.fall_back(Mono(2), of_rooms), 2);
    let at = |rows: &Rows, key: &str| rows.get(key.as_bytes()).expect("read").map(|value| value[0]);
    assert_eq!((at(&rows, "room/lab/eu/a"), at(&rows, "member/a")), (Some(b'1'), Some(b'3')));
    assert_eq!(rows.fall_back(Mono(2), |_| true), 2);
    assert_eq!((at(&rows, "member/a"), at(&rows, "member/b")), (Some(b'1'), None));
    assert_eq!(slot(b"item/2\0lab/eu/a\0job\0key"), "shard 2");
    assert_eq!(slot(b"claim/shard/2"), "shard 2");
    assert_eq!((slot(b"meta/routes"), slot(b"meta/term")), ("routes".to_owned(), "members".to_owned()));
}
