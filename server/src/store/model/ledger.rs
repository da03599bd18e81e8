//! Ledgers: a grant is applied once per identity; caps, balances, identity and history change in one step (H6).

use std::collections::BTreeMap;
use std::sync::Arc;

use tenure_shared::PlayerId;

use super::{
    Step, check, keys, limits,
    rows::{CapRow, GrantedRow, LedgerRow},
};
use crate::store::{Applied, Cap, Error, Grant, LedgerEntry, Reply, model::Kv as _};

pub(super) fn apply(step: &mut Step<'_, '_>, grant: &Grant) -> Result<Reply, Error> {
    check::grant(grant)?;
    let player = &grant.player;
    let identity = keys::granted(player, &grant.id);
    if let Some(row) = step.get::<GrantedRow>(&identity)? {
        let applied = match row.applied {
            Applied::Given(given) | Applied::Already(given) => Applied::Already(given),
            Applied::Insufficient => Applied::Insufficient,
        };
        return Ok(Reply::Applied { applied, balances: balances(step, player)? });
    }
    // Its identity may have been applied and forgotten since: to be parked by the caller, never applied.
    if grant.scheduled_for.is_some_and(|at| at < step.horizon()) {
        let days = step.rules.keep_identities.as_secs() / 86_400;
        return Err(Error::Conflict(format!(
            "grant {} was due longer ago than identities are kept ({days} days)",
            grant.id.0
        )));
    }
    let applied = change(step, grant)?;
    step.put(&identity, &GrantedRow { applied: applied.clone() })?;
    line(step, grant, &applied)?;
    forget(step, player)?;
    Ok(Reply::Applied { applied, balances: balances(step, player)? })
}

/// Changes the balances, all of them or none.
fn change(step: &mut Step<'_, '_>, grant: &Grant) -> Result<Applied, Error> {
    let player = &grant.player;
    let mut cap = match &grant.cap {
        Some(cap) => step.get::<CapRow>(&keys::cap(player, &grant.source, cap.since))?.unwrap_or_default(),
        None => CapRow::default(),
    };
    let mut given: BTreeMap<Arc<str>, i64> = BTreeMap::new();
    let mut after = Vec::with_capacity(grant.amounts.len());
    for (currency, amount) in &grant.amounts {
        let balance = step.get::<i64>(&keys::balance(player, currency))?;
        let held = balance.unwrap_or_default();
        let gives = if *amount > 0 {
            let left = capped(grant.cap.as_ref(), &mut cap, currency, *amount);
            left.min(limits::BALANCE - held).max(0)
        } else {
            *amount
        };
        // `held` is never negative, so this cannot wrap.
        if held + gives < 0 {
            return Ok(Applied::Insufficient);
        }
        if gives > 0 && grant.cap.is_some() {
            *cap.given.entry(currency.clone()).or_default() += gives;
        }
        given.insert(currency.clone(), gives);
        if gives != 0 {
            after.push((currency, balance.is_none(), held + gives));
        }
    }
    if after.iter().any(|(_, new, _)| *new) {
        let held = step.kv.scan(&keys::balances(player), None, limits::LEDGER_CURRENCIES + 1)?.len();
        let held = held + after.iter().filter(|(_, new, _)| *new).count();
        limits::at_most(&format!("ledger of {player}"), held, limits::LEDGER_CURRENCIES, "currencies")?;
    }
    for (currency, _, balance) in after {
        step.put(&keys::balance(player, currency), &balance)?;
    }
    if let Some(Cap { since, .. }) = &grant.cap {
        step.put(&keys::cap(player, &grant.source, *since), &cap)?;
    }
    Ok(Applied::Given(given))
}

fn capped(cap: Option<&Cap>, row: &mut CapRow, currency: &Arc<str>, amount: i64) -> i64 {
    match cap.and_then(|cap| cap.limits.get(currency)) {
        Some(limit) => amount.min(limit - row.given.get(currency).copied().unwrap_or_default()).max(0),
        None => amount,
    }
}

fn line(step: &mut Step<'_, '_>, grant: &Grant, applied: &Applied) -> Result<(), Error> {
    let key = keys::ledger(&grant.player);
    let mut row = step.get::<LedgerRow>(&key)?.unwrap_or_default();
    row.lines += 1;
    let given = match applied {
        Applied::Given(given) | Applied::Already(given) => given.clone(),
        Applied::Insufficient => BTreeMap::new(),
    };
    let entry = LedgerEntry {
        id: grant.id.clone(),
        source: grant.source.clone(),
        scheduled_for: grant.scheduled_for,
        given,
        insufficient: *applied == Applied::Insufficient,
        at: step.now,
    };
    step.put(&keys::ledger_line(&grant.player, row.lines), &entry)?;
    step.put(&key, &row)?;
    cut(step, &grant.player, row.lines.saturating_sub(limits::LEDGER_LINES))
}

/// Cuts a line that the readable history no longer reaches down to what forgets its identity in time.
fn cut(step: &mut Step<'_, '_>, player: &PlayerId, line: u64) -> Result<(), Error> {
    let key = keys::ledger_line(player, line);
    match step.get::<LedgerEntry>(&key)? {
        Some(entry) => step.put(&key, &LedgerEntry { scheduled_for: None, given: BTreeMap::new(), ..entry }),
        None => Ok(()),
    }
}

/// Forgets lines, identities and caps past their retention, a few at a time.
fn forget(step: &mut Step<'_, '_>, player: &PlayerId) -> Result<(), Error> {
    let horizon = step.horizon();
    let key = keys::ledger(player);
    let mut row = step.get::<LedgerRow>(&key)?.unwrap_or_default();
    let lines = keys::ledger_lines(player);
    for (line, value) in step.kv.scan(&lines, None, limits::TRIM)? {
        let entry: LedgerEntry = super::rows::decode(&line, &value)?;
        if entry.at >= horizon {
            break;
        }
        step.kv.delete(&keys::granted(player, &entry.id))?;
        step.kv.delete(&line)?;
        row.trimmed += 1;
        let caps = keys::caps(player, &entry.source);
        let end = keys::number(horizon.0);
        for (cap, _) in step.kv.scan(&caps, None, limits::TRIM)? {
            if cap[caps.len()..] < *end.as_bytes() {
                step.kv.delete(&cap)?;
            }
        }
    }
    step.put(&key, &row)
}

pub(super) fn balances(step: &Step<'_, '_>, player: &PlayerId) -> Result<Vec<(String, i64)>, Error> {
    let prefix = keys::balances(player);
    let rows = step.kv.scan(&prefix, None, limits::LEDGER_CURRENCIES)?;
    rows.iter()
        .map(|(key, value)| {
            let currency = String::from_utf8_lossy(&key[prefix.len()..]).into_owned();
            Ok((currency, super::rows::decode(key, value)?))
        })
        .collect()
}

pub(super) fn lines(step: &Step<'_, '_>, player: &PlayerId, limit: usize) -> Result<Reply, Error> {
    let row = step.get::<LedgerRow>(&keys::ledger(player))?.unwrap_or_default();
    let first = row.lines.saturating_sub((limit as u64).min(limits::LEDGER_LINES)).max(row.trimmed);
    let mut entries = Vec::new();
    for line in ((first + 1)..=row.lines).rev() {
        entries.extend(step.get::<LedgerEntry>(&keys::ledger_line(player, line))?);
    }
    Ok(Reply::Ledger(entries))
}
