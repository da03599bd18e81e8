//! Report on a player: balances and the newest lines of the ledger.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use tenure_shared::PlayerId;

use crate::{
    runtime::Wall,
    store::{Error, Store},
};

/// Most lines of a report: what one call of the store gives.
const LINES: usize = 1_000;

/// A line of a ledger for people.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LedgerLine {
    /// Identity of the grant.
    pub id: String,
    /// Schedule, job or reason.
    pub source: String,
    /// When it was due.
    pub scheduled_for: Option<Wall>,
    /// What was given or taken.
    pub given: BTreeMap<String, i64>,
    /// Whether a charge was refused.
    pub insufficient: bool,
    /// When the ledger took it.
    pub at: Wall,
}

/// A player's ledger.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LedgerReport {
    /// Whose.
    pub player: String,
    /// Balances.
    pub balances: BTreeMap<String, i64>,
    /// Lines, newest first.
    pub lines: Vec<LedgerLine>,
}

/// Reads a player's balances and at most `limit` lines. A player nobody has heard of has an empty ledger.
///
/// # Errors
/// The store's.
pub async fn show_ledger(store: &Store, player: &PlayerId, limit: usize) -> Result<LedgerReport, Error> {
    let balances = store.balances(player).await?;
    let entries = store.ledger(player, limit.min(LINES)).await?;
    let lines = entries.into_iter().map(|entry| LedgerLine {
        id: entry.id.0.to_string(),
        source: entry.source.to_string(),
        scheduled_for: entry.scheduled_for,
        given: entry.given.into_iter().map(|(currency, amount)| (currency.to_string(), amount)).collect(),
        insufficient: entry.insufficient,
        at: entry.at,
    });
    Ok(LedgerReport { player: player.to_string(), balances: balances.into_iter().collect(), lines: lines.collect() })
}
