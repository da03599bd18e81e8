//! Checks of ledgers.

use std::{collections::BTreeMap, sync::Arc};

use super::{Outcome, Subject, equal, grant, ok, player, refused};
use crate::{
    runtime::Wall,
    store::{Applied, Cap, Command, Grant, Store, model::limits},
};

fn amounts(of: &[(&str, i64)]) -> BTreeMap<Arc<str>, i64> {
    of.iter().map(|(currency, amount)| ((*currency).into(), *amount)).collect()
}

fn held(of: &[(&str, i64)]) -> Vec<(String, i64)> {
    of.iter().map(|(currency, amount)| ((*currency).to_owned(), *amount)).collect()
}

async fn apply(store: &Store, grant: &Grant) -> Result<(Applied, Vec<(String, i64)>), String> {
    ok("apply", store.apply(grant.clone()).await)
}

pub(super) async fn a_grant_is_applied_once(subject: Subject) -> Outcome {
    let store = &subject.store;
    let one = grant("g1", "p", &[("gold", 5), ("gems", 1)])?;
    let given = amounts(&[("gold", 5), ("gems", 1)]);
    let after = held(&[("gems", 1), ("gold", 5)]);
    equal("given", apply(store, &one).await?, (Applied::Given(given.clone()), after.clone()))?;
    equal("repeat", apply(store, &one).await?, (Applied::Already(given.clone()), after.clone()))?;
    // Another content under the same identity is the same grant.
    let forged = grant("g1", "p", &[("gold", 500)])?;
    equal("same identity", apply(store, &forged).await?, (Applied::Already(given), after.clone()))?;
    equal("balances", ok("balances", store.balances(&player("p")?).await)?, after)?;
    // Identities belong to a ledger.
    let other = apply(store, &grant("g1", "q", &[("gold", 1)])?).await?;
    equal("another player", other.1, held(&[("gold", 1)]))?;
    let lines = ok("ledger", store.ledger(&player("p")?, 10).await)?;
    equal("one line", lines.len(), 1)
}

pub(super) async fn a_charge_is_all_or_nothing(subject: Subject) -> Outcome {
    let store = &subject.store;
    apply(store, &grant("g1", "p", &[("gold", 10), ("wood", 2)])?).await?;
    let (applied, after) = apply(store, &grant("c1", "p", &[("gold", -4), ("wood", -3)])?).await?;
    equal("one part is short", applied, Applied::Insufficient)?;
    equal("nothing changed", after, held(&[("gold", 10), ("wood", 2)]))?;
    let mixed = grant("c2", "p", &[("gold", -11), ("sword", 1)])?;
    equal("nothing is given for it", apply(store, &mixed).await?.1, held(&[("gold", 10), ("wood", 2)]))?;
    let buy = grant("c3", "p", &[("gold", -10), ("sword", 1)])?;
    equal("down to zero", apply(store, &buy).await?.1, held(&[("gold", 0), ("sword", 1), ("wood", 2)]))?;
    let unknown = grant("c4", "p", &[("pearls", -1)])?;
    equal("of nothing", apply(store, &unknown).await?.0, Applied::Insufficient)?;
    let huge = grant("c5", "p", &[("gold", i64::MIN)])?;
    equal("the lowest number", apply(store, &huge).await?.0, Applied::Insufficient)
}

pub(super) async fn an_insufficient_charge_stays_refused(subject: Subject) -> Outcome {
    // Its answer was shown: the same charge must not succeed later because money came in between.
    let store = &subject.store;
    let charge = grant("c1", "p", &[("gold", -5)])?;
    equal("poor", apply(store, &charge).await?.0, Applied::Insufficient)?;
    apply(store, &grant("g1", "p", &[("gold", 50)])?).await?;
    equal("repeat", apply(store, &charge).await?.0, Applied::Insufficient)?;
    let lines = ok("ledger", store.ledger(&player("p")?, 10).await)?;
    let lines: Vec<_> = lines.into_iter().map(|line| (line.id.0.to_string(), line.insufficient)).collect();
    equal("history, newest first", lines, vec![("g1".to_owned(), false), ("c1".to_owned(), true)])
}

pub(super) async fn a_cap_counts_per_source_and_period(subject: Subject) -> Outcome {
    let store = &subject.store;
    let capped = |name: &str, gold: i64, since: u64| -> Result<Grant, String> {
        let cap = Cap { since: Wall(since), limits: amounts(&[("gold", 10)]) };
        Ok(Grant { cap: Some(cap), ..grant(name, "p", &[("gold", gold), ("gems", 1)])? })
    };
    let gold = async |grant: Grant| -> Result<i64, String> {
        match apply(store, &grant).await?.0 {
            Applied::Given(given) | Applied::Already(given) => Ok(given.get("gold").copied().unwrap_or(-1)),
            Applied::Insufficient => Err("insufficient".to_owned()),
        }
    };
    equal("within", gold(capped("1", 7, 100)?).await?, 7)?;
    equal("the rest", gold(capped("2", 7, 100)?).await?, 3)?;
    equal("nothing more", gold(capped("3", 7, 100)?).await?, 0)?;
    equal("a repeat says what was given", gold(capped("2", 7, 100)?).await?, 3)?;
    equal("a new period", gold(capped("4", 7, 200)?).await?, 7)?;
    // A late grant of the former day counts where it belongs.
    equal("a late one", gold(capped("5", 7, 100)?).await?, 0)?;
    let other = Grant { source: "quest".into(), ..capped("6", 7, 100)? };
    equal("another source", gold(other).await?, 7)?;
    let balances = ok("balances", store.balances(&player("p")?).await)?;
    equal("balances", balances, held(&[("gems", 6), ("gold", 24)]))
}

pub(super) async fn a_grant_older_than_its_identity_is_refused(subject: Subject) -> Outcome {
    let store = &subject.store;
    let now = store.execute(Command::Members).await.at;
    let keep = crate::store::model::Rules::default().keep_identities.as_micros() as u64;
    let at = |age: u64| -> Result<Grant, String> {
        Ok(Grant { scheduled_for: Some(Wall(now.0 - age)), ..grant(&format!("g{age}"), "p", &[("gold", 1)])? })
    };
    refused("too old", "Conflict", store.apply(at(keep + 60_000_000)?).await)?;
    equal("just in time", apply(store, &at(keep - 60_000_000)?).await?.1, held(&[("gold", 1)]))
}

pub(super) async fn a_line_that_is_cut_leaves_its_identity(subject: Subject) -> Outcome {
    let store = &subject.store;
    let lines = limits::LEDGER_LINES + 3;
    for n in 0..lines {
        apply(store, &grant(&format!("g{n}"), "p", &[("gold", 1)])?).await?;
    }
    let history = ok("ledger", store.ledger(&player("p")?, usize::MAX).await)?;
    equal("lines", history.len() as u64, limits::LEDGER_LINES)?;
    equal("the oldest one kept", history.last().map(|line| line.id.0.to_string()), Some("g3".to_owned()))?;
    let (again, after) = apply(store, &grant("g0", "p", &[("gold", 1)])?).await?;
    equal("once (H6)", again, Applied::Already(amounts(&[("gold", 1)])))?;
    equal("balance", after, held(&[("gold", lines as i64)]))
}

pub(super) async fn balances_and_history_are_bounded(subject: Subject) -> Outcome {
    let store = &subject.store;
    apply(store, &grant("g1", "p", &[("gold", i64::MAX)])?).await?;
    let (applied, after) = apply(store, &grant("g2", "p", &[("gold", i64::MAX)])?).await?;
    equal("no more fits", applied, Applied::Given(amounts(&[("gold", 0)])))?;
    equal("highest balance", after, held(&[("gold", limits::BALANCE)]))?;
    for n in 1..limits::LEDGER_CURRENCIES {
        apply(store, &grant(&format!("n{n}"), "p", &[(&format!("c{n}"), 1)])?).await?;
    }
    refused("one currency too many", "Invalid", store.apply(grant("x", "p", &[("more", 1)])?).await)?;
    let wide: Vec<_> = (0..=limits::GRANT_CURRENCIES).map(|n| format!("c{n}")).collect();
    let wide: Vec<_> = wide.iter().map(|name| (name.as_str(), 1)).collect();
    refused("a wide grant", "Invalid", store.apply(grant("y", "p", &wide)?).await)?;
    let lines = ok("ledger", store.ledger(&player("p")?, 3).await)?;
    let names: Vec<_> = lines.into_iter().map(|line| line.id.0.to_string()).collect();
    equal("the newest lines", names, vec!["n63".to_owned(), "n62".to_owned(), "n61".to_owned()])
}
