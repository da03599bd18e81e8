//! The store's rules, once: a pure state machine over an ordered key-value transaction. Backends persist it, a simulation hosts it.
//!
//! [`apply`] checks a command and carries it out; a refused command leaves no write behind. The caller gives the time; the store's
//! time is the highest ever given or stored, so it never goes back, whatever the machine's clock does (C23).
//!
//! **Keys.** Readable prefixes; `|` stands for NUL, which divides parts; numbers are 16 hexadecimal digits. Values are one version
//! byte and MessagePack.
//! ```text
//! meta/format meta/time meta/term meta/routes      format of the file, highest store time, highest term, change counter of the routes
//! member/<incarnation>                             a live member with its lease
//! tombstone/<incarnation>                          store time of its end: for ever
//! claim/<key>   history/<key>|<line>               a claim; its latest 256 changes
//! state/<key>                                      the small state that belongs to a claim, with its version
//! route/<key>   routelog/<counter>                 counter of the key's last change; the key and what it is now
//! agreed/<name>                                    a constant of the cluster
//! room/<room>   rooms/<shard>|<room>               a checkpoint; all of it but the body, for listing a shard
//! shard/<shard>                                    last commit (term, number, answer), counters of outbox and completed work
//! item/<shard>|<room>|<job>|<key>                  a work item;  items/<shard>|<room> counts them
//! due/<shard>|<due>|<room>|<job>|<key>             pending, unparked items in order of their due time
//! done/<shard>|<room>|<job>|<key>                  an identity that was completed;  donetime/<shard>|<time>|… to forget it in time
//! completed/<shard>|<line>                         the latest 1,000 completed items
//! outbox/<shard>|<position>                        grants not yet in a ledger
//! balance/<player>|<currency>   ledger/<player>    a balance; counters of the lines
//! granted/<player>|<grant>   ledgerline/<player>|<line>   an identity and what was given; the history
//! cap/<player>|<source>|<since>                    what a source gave in one period
//! session/<player>|<room>   sessiontime/<time>|…   a session; to forget it in time
//! ```

mod after;
mod check;
mod claims;
mod commit;
mod keys;
mod kv;
mod ledger;
pub mod limits;
mod members;
mod needs;
mod rows;
mod sessions;
mod work;

#[cfg(test)]
mod tests;

use std::time::Duration;

pub use after::{After, SessionNote};
pub(in crate::store) use after::{apart, apply_apart};
pub(in crate::store) use kv::start;
pub use kv::{Kv, Rows};
pub(in crate::store) use needs::{Needs, Scan, needs};
pub(in crate::store) use rows::encode_time;
use rows::{get, put};

use super::{Command, Error, Reply, Stamped};
use crate::runtime::Wall;

/// Where the store's highest time stands.
pub(in crate::store) const TIME: &[u8] = keys::TIME;

/// Name of the agreed constant that says into how many shards the rooms are divided.
pub const AGREED_SHARDS: &str = "shards";

/// Name of the agreed version of the links between processes. Unlike other constants it binds only those who live: once every member is
/// gone the next to come decides anew, so that a build that raises it can be deployed.
pub const AGREED_LINKS: &str = "link protocol";

/// Version of the key layout and the rows. A file with a higher one is refused.
pub const FORMAT: u32 = 1;

/// What may be configured of the rules.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rules {
    /// How long identities of grants and completed work, ledger lines and untouched sessions are kept (`ledger.keep_identities`).
    pub keep_identities: Duration,
    /// Largest checkpoint of one room, bytes (`room.max_checkpoint`).
    pub max_checkpoint: usize,
}

impl Default for Rules {
    fn default() -> Self {
        Self { keep_identities: Duration::from_secs(45 * 86_400), max_checkpoint: limits::CHECKPOINT_BYTES }
    }
}

/// What one command sees: rows, rules and the store's time.
struct Step<'a, 'b> {
    kv: &'a mut kv::Overlay<'b>,
    rules: &'a Rules,
    now: Wall,
    after: After,
}

impl Step<'_, '_> {
    /// The moment before which identities may be forgotten.
    fn horizon(&self) -> Wall {
        let keep = u64::try_from(self.rules.keep_identities.as_micros()).unwrap_or(u64::MAX);
        Wall(self.now.0.saturating_sub(keep))
    }

    fn get<T: serde::de::DeserializeOwned>(&self, key: &[u8]) -> Result<Option<T>, Error> {
        get(self.kv, key)
    }

    fn put<T: serde::Serialize>(&mut self, key: &[u8], value: &T) -> Result<(), Error> {
        put(self.kv, key, value)
    }

    fn list<T: serde::de::DeserializeOwned>(
        &self,
        prefix: &[u8],
        after: Option<&[u8]>,
        limit: usize,
    ) -> Result<Vec<T>, Error> {
        rows::list(self.kv, prefix, after, limit.min(limits::LISTING))
    }
}

/// Carries out one command at the store time `max(now, highest stored)`. The answer is stamped with that time.
///
/// A refused command writes nothing. [`Error::Broken`] and [`Error::Unavailable`] of the rows themselves come through unchanged: then
/// the transaction must be given up.
pub fn apply(kv: &mut dyn Kv, rules: &Rules, now: Wall, command: Command) -> Stamped {
    let whole = |step: &mut Step<'_, '_>| {
        let reply = dispatch(step, command)?;
        after::all(step)?;
        Ok(reply)
    };
    carry_out(kv, rules, now, whole).0
}

/// Carries out `work` in an overlay: all of its writes, with the store's time, or none.
fn carry_out(
    kv: &mut dyn Kv,
    rules: &Rules,
    now: Wall,
    work: impl FnOnce(&mut Step<'_, '_>) -> Result<Reply, Error>,
) -> (Stamped, After) {
    let failed = |at: Wall, error: Error| (Stamped { at, reply: Err(error) }, After::default());
    let highest = match get::<Wall>(kv, keys::TIME) {
        Ok(highest) => highest.unwrap_or_default(),
        Err(error) => return failed(now, error),
    };
    let at = now.max(highest);
    if at.0 > limits::TERM {
        let text = format!("the clock says {} µs since 1970, which is beyond {}: set it right", at.0, limits::TERM);
        return failed(at, Error::Broken(text));
    }
    let mut overlay = kv::Overlay::new(kv);
    let mut step = Step { kv: &mut overlay, rules, now: at, after: After::default() };
    let reply = work(&mut step);
    let after = std::mem::take(&mut step.after);
    let written = match reply {
        Ok(reply) if overlay.is_empty() => Ok(reply),
        Ok(reply) => {
            let time = if at > highest { put(&mut overlay, keys::TIME, &at) } else { Ok(()) };
            time.and_then(|()| overlay.apply()).map(|()| reply)
        }
        Err(error) => Err(error),
    };
    match written {
        Ok(reply) => (Stamped { at, reply: Ok(reply) }, after),
        Err(error) => failed(at, error),
    }
}

/// The highest store time on disk.
///
/// # Errors
/// What the rows met.
pub fn highest_time(kv: &dyn Kv) -> Result<Wall, Error> {
    Ok(get(kv, keys::TIME)?.unwrap_or_default())
}

/// Checks the format of the rows, or sets it on a store that is new.
///
/// # Errors
/// [`Error::Invalid`] when they were written by a newer build; what the rows met otherwise.
pub fn check_format(kv: &mut dyn Kv) -> Result<(), Error> {
    match get::<u32>(kv, keys::FORMAT)? {
        None => put(kv, keys::FORMAT, &FORMAT),
        Some(found) if found <= FORMAT => Ok(()),
        Some(found) => Err(Error::Invalid(format!(
            "the store has format {found}; this build reads formats up to {FORMAT}: use the build that wrote it, or a newer one"
        ))),
    }
}

#[cfg(test)]
pub(in crate::store) fn set_format(kv: &mut dyn Kv, format: u32) -> Result<(), Error> {
    put(kv, keys::FORMAT, &format)
}

/// Writes the tombstone of every member: for a backend that knows that no process of them lives, since it holds the only lock.
/// Gives how many there were.
///
/// # Errors
/// What the rows met.
pub fn bury_members(kv: &mut dyn Kv, rules: &Rules, now: Wall) -> Result<usize, Error> {
    let highest = highest_time(kv)?;
    let mut overlay = kv::Overlay::new(kv);
    let count =
        members::bury_all(&mut Step { kv: &mut overlay, rules, now: now.max(highest), after: After::default() })?;
    overlay.apply()?;
    Ok(count)
}

fn dispatch(step: &mut Step<'_, '_>, command: Command) -> Result<Reply, Error> {
    match command {
        Command::Register { incarnation, info, ttl } => members::register(step, incarnation, info, ttl),
        Command::Heartbeat { incarnation, ttl, floor } => members::heartbeat(step, &incarnation, ttl, floor),
        Command::Expire { incarnation, stood_still } => members::expire(step, &incarnation, stood_still),
        Command::SetStatus { incarnation, status } => members::set_status(step, &incarnation, status),
        Command::SetSchedules { incarnation, hash } => members::set_schedules(step, &incarnation, hash),
        Command::Members => members::list(step),
        Command::Deregister { incarnation } => members::deregister(step, &incarnation),
        Command::Reagree { name, agreed, value } => members::reagree(step, name, &agreed, value),
        Command::Agree { name, value } => members::agree(step, name, value, false),
        Command::AgreeOrGet { name, value } => members::agree(step, name, value, true),

        Command::Acquire { key, caller, seen, floor } => claims::acquire(step, key, caller, seen.as_ref(), floor),
        Command::Transfer { fence, to, package, manifest, floor } => {
            claims::transfer(step, &fence, to, package, &manifest, floor)
        }
        Command::Release { fence } => claims::release(step, &fence),
        Command::Publish { fence } => claims::publish_again(step, &fence),
        Command::Claim { key } => claims::claim(step, &key),
        Command::Claims { keys } => claims::list(step, &keys),
        Command::Routes { since } => claims::routes(step, since),
        Command::State { key } => Ok(Reply::State(step.get(&keys::state(&key))?)),
        Command::PutState { fence, seen, body } => claims::put_state(step, &fence, seen, body),
        Command::History { key } => claims::history(step, &key),

        Command::Load { room } => Ok(Reply::Checkpoint(step.get(&keys::room(&room))?)),
        Command::Rooms { shard, after, limit } => {
            let after = after.map(|room| keys::shard_room(shard, &room));
            let rows: Vec<rows::RoomRow> = step.list(&keys::shard_rooms(shard), after.as_deref(), limit)?;
            Ok(Reply::Rooms(rows.into_iter().map(|row| row.summary).collect()))
        }
        Command::Commit { fence, shards, number, batch } => commit::commit(step, &fence, shards, number, batch),

        Command::Due { shard, before, after, limit } => work::due(step, shard, before, after.as_ref(), limit),
        Command::Overdue { shard } => work::overdue(step, shard),
        Command::Work { shard, after, limit } => {
            let after = after.map(|id| keys::item(shard, &id));
            Ok(Reply::Work(step.list(&keys::items(shard), after.as_deref(), limit)?))
        }
        Command::RoomWork { shard, room, after, limit } => {
            let after = after.map(|id| keys::item(shard, &id));
            Ok(Reply::Work(step.list(&keys::room_items(shard, &room), after.as_deref(), limit)?))
        }
        Command::Retry { fence, id } => work::retry(step, &fence, &id),
        Command::Completed { shard, limit } => work::completed(step, shard, limit),
        Command::Outbox { shard, after, limit } => {
            let after = keys::outbox_entry(shard, after);
            Ok(Reply::Outbox(step.list(&keys::outbox(shard), Some(&after), limit)?))
        }

        Command::Apply { grant } => ledger::apply(step, &grant),
        Command::Balances { player } => Ok(Reply::Balances(ledger::balances(step, &player)?)),
        Command::Ledger { player, limit } => ledger::lines(step, &player, limit),
        Command::Session { player, room } => sessions::get(step, &player, &room),
        Command::PutSession { player, room, seen, session } => sessions::put(step, &player, &room, seen, session),
    }
}
