//! Members, leases, tombstones, and constants on which a cluster agrees.
//!
//! A tombstone is for ever, and a member without a record counts as having one (F6): an incarnation id is never used again.

use std::time::Duration;

use tenure_shared::{IncarnationId, Term};

use super::{AGREED_LINKS, Step, keys, limits, rows::decode};
use crate::store::{Error, Member, MemberInfo, Reply, Status, model::Kv as _};

fn gone(incarnation: &IncarnationId) -> Error {
    Error::Tombstoned(incarnation.to_string())
}

/// The live member, or the refusal that it must register anew.
pub(super) fn live(step: &Step<'_, '_>, incarnation: &IncarnationId) -> Result<Member, Error> {
    find(step, incarnation)?.ok_or_else(|| gone(incarnation))
}

/// The live member, if it is one.
pub(super) fn find(step: &Step<'_, '_>, incarnation: &IncarnationId) -> Result<Option<Member>, Error> {
    step.get(&keys::member(incarnation.as_str()))
}

fn buried(step: &Step<'_, '_>, incarnation: &IncarnationId) -> Result<bool, Error> {
    Ok(step.kv.get(&keys::tombstone(incarnation.as_str()))?.is_some())
}

fn bury(step: &mut Step<'_, '_>, incarnation: &IncarnationId) -> Result<(), Error> {
    step.kv.delete(&keys::member(incarnation.as_str()))?;
    let now = step.now;
    step.put(&keys::tombstone(incarnation.as_str()), &now)
}

pub(super) fn bury_all(step: &mut Step<'_, '_>) -> Result<usize, Error> {
    let mut count = 0;
    loop {
        let page = step.kv.scan(keys::MEMBERS, None, limits::LISTING)?;
        if page.is_empty() {
            return Ok(count);
        }
        for (key, value) in page {
            let member: Member = decode(&key, &value)?;
            bury(step, &member.incarnation)?;
            count += 1;
        }
    }
}

pub(super) fn register(
    step: &mut Step<'_, '_>,
    incarnation: IncarnationId,
    info: MemberInfo,
    ttl: Duration,
) -> Result<Reply, Error> {
    check_info(&info)?;
    if buried(step, &incarnation)? {
        return Err(gone(&incarnation));
    }
    let key = keys::member(incarnation.as_str());
    let until = step.now.plus(ttl);
    let member = match step.get::<Member>(&key)? {
        // The answer was lost and the call is repeated: nothing but the lease moves.
        Some(member) if member.info == info => Member { lease_until: member.lease_until.max(until), ..member },
        Some(_) => {
            return Err(Error::Conflict(format!("incarnation {incarnation} is registered with another description")));
        }
        None => Member {
            incarnation,
            info,
            status: Status::Joining,
            beats: 0,
            lease_until: until,
            tombstone: false,
            schedules: String::new(),
        },
    };
    step.put(&key, &member)?;
    Ok(Reply::Done)
}

pub(super) fn heartbeat(
    step: &mut Step<'_, '_>,
    incarnation: &IncarnationId,
    ttl: Duration,
    floor: Term,
) -> Result<Reply, Error> {
    if floor.0 > limits::TERM {
        return Err(Error::Invalid(format!("floor {floor}; at most {}", limits::TERM)));
    }
    let mut member = live(step, incarnation)?;
    member.beats += 1;
    // Never shorter than what its holder already counts on.
    member.lease_until = member.lease_until.max(step.now.plus(ttl));
    step.put(&keys::member(incarnation.as_str()), &member)?;
    let highest = step.get::<Term>(keys::TERM)?.unwrap_or_default();
    if floor > highest {
        step.put(keys::TERM, &floor)?;
    }
    let floor = floor.max(highest);
    Ok(Reply::Beat { beats: member.beats, floor })
}

pub(super) fn expire(
    step: &mut Step<'_, '_>,
    incarnation: &IncarnationId,
    stood_still: Option<u64>,
) -> Result<Reply, Error> {
    if buried(step, incarnation)? {
        return Ok(Reply::Expired(true));
    }
    let lives = |member: Member| member.lease_until >= step.now && stood_still != Some(member.beats);
    if find(step, incarnation)?.is_some_and(lives) {
        return Ok(Reply::Expired(false));
    }
    bury(step, incarnation)?;
    Ok(Reply::Expired(true))
}

pub(super) fn set_status(step: &mut Step<'_, '_>, incarnation: &IncarnationId, status: Status) -> Result<Reply, Error> {
    let member = live(step, incarnation)?;
    step.put(&keys::member(incarnation.as_str()), &Member { status, ..member })?;
    Ok(Reply::Done)
}

pub(super) fn set_schedules(
    step: &mut Step<'_, '_>,
    incarnation: &IncarnationId,
    hash: String,
) -> Result<Reply, Error> {
    limits::at_most("hash of schedules", hash.len(), limits::TEXT_BYTES, "bytes")?;
    let member = live(step, incarnation)?;
    step.put(&keys::member(incarnation.as_str()), &Member { schedules: hash, ..member })?;
    Ok(Reply::Done)
}

pub(super) fn list(step: &Step<'_, '_>) -> Result<Reply, Error> {
    let mut members: Vec<Member> = Vec::new();
    loop {
        let after = members.last().map(|member| keys::member(member.incarnation.as_str()));
        let page: Vec<Member> = step.list(keys::MEMBERS, after.as_deref(), limits::LISTING)?;
        let last = page.len() < limits::LISTING;
        members.extend(page);
        if last {
            return Ok(Reply::Members(members));
        }
    }
}

pub(super) fn deregister(step: &mut Step<'_, '_>, incarnation: &IncarnationId) -> Result<Reply, Error> {
    if !buried(step, incarnation)? {
        bury(step, incarnation)?;
    }
    Ok(Reply::Done)
}

pub(super) fn agree(step: &mut Step<'_, '_>, name: String, value: String, or_get: bool) -> Result<Reply, Error> {
    limits::text("name of an agreement", &name, limits::TEXT_BYTES)?;
    limits::text("value of an agreement", &value, limits::TEXT_BYTES)?;
    let key = keys::agreed(&name);
    match step.get::<String>(&key)? {
        None => {
            step.put(&key, &value)?;
            Ok(Reply::Agreed(value))
        }
        Some(agreed) if or_get || agreed == value => Ok(Reply::Agreed(agreed)),
        Some(_) if name == AGREED_LINKS && !anybody_lives(step)? => {
            step.put(&key, &value)?;
            Ok(Reply::Agreed(value))
        }
        Some(agreed) => Err(Error::Disagreement { name, agreed, proposed: value }),
    }
}

pub(super) fn reagree(step: &mut Step<'_, '_>, name: String, agreed: &str, value: String) -> Result<Reply, Error> {
    limits::text("name of an agreement", &name, limits::TEXT_BYTES)?;
    limits::text("value of an agreement", &value, limits::TEXT_BYTES)?;
    let key = keys::agreed(&name);
    match step.get::<String>(&key)? {
        // A repeat of what was carried out.
        Some(is) if is == value => Ok(Reply::Agreed(value)),
        Some(is) if is == agreed => {
            step.put(&key, &value)?;
            Ok(Reply::Agreed(value))
        }
        is => Err(Error::Disagreement { name, agreed: is.unwrap_or_else(|| "nothing".to_owned()), proposed: value }),
    }
}

/// Whether any member has a lease that has not lapsed.
fn anybody_lives(step: &Step<'_, '_>) -> Result<bool, Error> {
    let Reply::Members(members) = list(step)? else { return Ok(true) };
    Ok(members.iter().any(|member| member.lease_until >= step.now))
}

fn check_info(info: &MemberInfo) -> Result<(), Error> {
    let MemberInfo { node, roles, version, revision: _, link, public_url, zone_data } = info;
    limits::text("node name", node, limits::TEXT_BYTES)?;
    limits::at_most("roles of a member", roles.len(), limits::ROLES, "roles")?;
    let rest = [("version", version), ("link address", link), ("public URL", public_url), ("zone data", zone_data)];
    for (what, text) in rest.into_iter().chain(roles.iter().map(|role| ("role", role))) {
        limits::at_most(what, text.len(), limits::TEXT_BYTES, "bytes")?;
    }
    Ok(())
}
