//! The keys that say how much: `grant`, `cap`, `day_starts_at`.

use std::{collections::BTreeMap, sync::Arc};

use toml::de::DeValue;

use super::section::{self, Section};
use crate::{
    config::{nearest, quoted},
    timers::schedule::DailyCap,
};

/// Most currencies of a schedule.
const MAX_CURRENCIES: usize = 16;

/// Longest name of a currency, bytes.
const MAX_CURRENCY_BYTES: usize = 32;

/// Largest amount: the largest whole number that a browser shows exactly.
const MAX_AMOUNT: i64 = (1 << 53) - 1;

/// Currency → amount.
type Amounts = BTreeMap<Arc<str>, i64>;

impl Section<'_, '_, '_> {
    pub(super) fn grant(&mut self) -> Option<Amounts> {
        if !self.has("grant") {
            self.missing("grant", "what each player gets, such as `grant = { gold = 100 }`");
            return None;
        }
        self.amounts("grant")
    }

    pub(super) fn cap(&mut self) -> Option<DailyCap> {
        let starts_at = self.time_of_day("day_starts_at", false);
        if !self.has("cap") {
            if self.has("day_starts_at") {
                self.error("day_starts_at", "no cap that it belongs to", "it only beside `cap`");
            }
            return None;
        }
        let limits = self.amounts("cap")?;
        if let Some(DeValue::Table(grant)) = self.value("grant")
            && !grant.is_empty()
        {
            for currency in limits.keys().filter(|currency| !grant.contains_key(currency.as_ref())) {
                let hint = nearest(currency, grant.keys().map(|known| known.get_ref().as_ref())).map(str::to_owned);
                let found = format!("{}, which is not granted", quoted(currency));
                self.error_at(self.at("cap"), &format!("cap.{currency}"), found, "a currency of `grant`", hint);
            }
        }
        if self.value("cap").and_then(DeValue::as_table).is_some_and(|table| table.is_empty()) {
            self.error("cap", "an empty cap", "most per player and day, such as `cap = { gold = 500 }`");
        }
        Some(DailyCap { limits, starts_at: starts_at.unwrap_or(0) })
    }

    fn amounts(&mut self, key: &str) -> Option<Amounts> {
        let Some(DeValue::Table(table)) = self.value(key) else {
            self.mismatch(key, "currencies and amounts, such as { gold = 100 }");
            return None;
        };
        if table.len() > MAX_CURRENCIES {
            self.error(key, format!("{} currencies", table.len()), format!("at most {MAX_CURRENCIES}"));
            return None;
        }
        let mut amounts = Amounts::new();
        for (currency, value) in table {
            let name = currency.get_ref().as_ref();
            let path = format!("{key}.{name}");
            let allowed = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || matches!(byte, b'_' | b'-');
            if name == "day_starts_at" {
                let expected = "it beside `cap`, as a key of the schedule";
                self.error_at(currency.span().start, &path, "a key of the schedule", expected, None);
            } else if name.is_empty() || name.len() > MAX_CURRENCY_BYTES || !name.bytes().all(allowed) {
                let expected = format!("a currency of 1 to {MAX_CURRENCY_BYTES} characters of [a-z0-9_-]");
                self.error_at(currency.span().start, &path, quoted(name), expected, None);
            } else {
                match section::integer(value.get_ref()) {
                    Some(amount) if (1..=MAX_AMOUNT).contains(&amount) => drop(amounts.insert(name.into(), amount)),
                    _ => {
                        let found = section::describe(value.get_ref());
                        let expected = format!("a whole number from 1 to {MAX_AMOUNT}");
                        self.error_at(value.span().start, &path, found, expected, None);
                    }
                }
            }
        }
        Some(amounts)
    }
}
