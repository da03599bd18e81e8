//! The judge of the census: the book of each index says when which activation ran and how far it counted under its fence.

use std::{collections::BTreeSet, time::Duration};

use anyhow::Context as _;
use serde_json::Value;

use crate::stats::Times;

#[derive(Clone, Copy, Debug)]
struct Spell {
    term: u64,
    first: u64,
    last: u64,
    from: u64,
    until: u64,
}

#[derive(Clone, Debug)]
struct Book {
    every: Duration,
    counted: u64,
    spells: Vec<Spell>,
    former: u64,
}

fn number(value: &Value, key: &str) -> anyhow::Result<u64> {
    value[key].as_u64().with_context(|| format!("no {key} in {value}"))
}

impl Book {
    fn read(value: &Value) -> anyhow::Result<Self> {
        let spell = |spell: &Value| -> anyhow::Result<Spell> {
            let [term, first, last, from, until] =
                ["term", "first", "last", "from", "until"].map(|key| number(spell, key));
            Ok(Spell { term: term?, first: first?, last: last?, from: from?, until: until? })
        };
        let spells = value["spells"].as_array().context("no spells")?.iter().map(spell);
        let nanos = u32::try_from(number(&value["every"], "nanos")?)?;
        Ok(Self {
            every: Duration::new(number(&value["every"], "secs")?, nanos),
            counted: number(value, "counted")?,
            spells: spells.collect::<anyhow::Result<_>>()?,
            former: number(value, "former")?,
        })
    }
}

/// What all books said.
#[derive(Debug, Default)]
pub(super) struct Books {
    /// Activations.
    pub(super) spells: u64,
    pub(super) entries: u64,
    /// Between the last entry of one and the first of the next, beyond the time between two.
    pub(super) gaps: Times,
    /// Spells that are counted: a book is read more than once.
    seen: BTreeSet<(u64, u32, u64)>,
}

impl Books {
    /// Takes one in; what is wrong with it.
    ///
    /// # Errors
    /// When it cannot be read.
    pub(super) fn take(&mut self, report: &Value) -> anyhow::Result<Vec<String>> {
        let (index, generation) = (u32::try_from(number(report, "index")?)?, number(report, "generation")?);
        let book = Book::read(&report["book"])?;
        let mut wrong = self.book(generation, index, &book);
        for row in report["former"].as_array().context("no former")? {
            let index = row[0].as_u64().context("an index")?;
            wrong.extend(self.book(generation - 1, u32::try_from(index)?, &Book::read(&row[1])?));
        }
        // Nothing of the new number before the end of all of the former one (C31).
        if let Some(first) = book.spells.first().filter(|spell| spell.first == 1 && spell.from < book.former) {
            wrong.push(format!(
                "census@{generation}/{index} began at {} and the former number ended at {}",
                first.from, book.former
            ));
        }
        Ok(wrong)
    }

    fn book(&mut self, generation: u64, index: u32, book: &Book) -> Vec<String> {
        let (name, mut wrong) = (format!("census@{generation}/{index}"), Vec::new());
        for pair in book.spells.windows(2) {
            let [before, after] = pair else { continue };
            if after.term <= before.term || after.first != before.last + 1 || after.from < before.until {
                wrong.push(format!("{name}: {after:?} behind {before:?}"));
            }
            if self.seen.contains(&(generation, index, after.term)) {
                continue;
            }
            self.gaps.record(Duration::from_micros(after.from.saturating_sub(before.until)).saturating_sub(book.every));
        }
        for spell in &book.spells {
            if self.seen.insert((generation, index, spell.term)) {
                self.spells += 1;
            }
            if spell.last < spell.first || spell.until < spell.from {
                wrong.push(format!("{name}: {spell:?}"));
            }
        }
        if book.spells.last().map_or(0, |spell| spell.last) != book.counted {
            wrong.push(format!("{name} counted {} and its last spell says {:?}", book.counted, book.spells.last()));
        }
        // Entries of a book that is read again are counted again: the last reading has the most.
        self.entries = self.entries.max(book.counted);
        wrong
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn report(spells: &Value, former_until: u64) -> Value {
        let counted = spells.as_array().and_then(|all| all.last()?["last"].as_u64());
        let every = json!({ "secs": 0, "nanos": 100_000_000 });
        json!({ "index": 3, "count": 8, "generation": 2, "rooms": 0, "seats": 0, "former": [],
            "book": { "every": every, "counted": counted, "spells": spells, "former": former_until } })
    }

    #[test]
    fn what_is_doubled_or_too_early_is_noticed() {
        let spell = |term: u64, first: u64, last: u64, from: u64, until: u64| json!({ "term": term, "first": first, "last": last, "from": from, "until": until });
        let wrong =
            |spells: &[Value], former| Books::default().take(&report(&json!(spells), former)).expect("read").len();
        let one = spell(10, 1, 50, 1_000, 5_000);
        assert_eq!(wrong(&[one.clone(), spell(20, 51, 60, 6_000, 7_000)], 900), 0);
        assert_eq!(wrong(&[one.clone(), spell(10, 51, 60, 6_000, 7_000)], 900), 1, "one term, two activations");
        assert_eq!(wrong(&[one.clone(), spell(20, 50, 60, 6_000, 7_000)], 900), 1, "a number twice");
        assert_eq!(wrong(&[one.clone(), spell(20, 52, 60, 6_000, 7_000)], 900), 1, "a number left out");
        assert_eq!(wrong(&[one.clone(), spell(20, 51, 60, 4_999, 7_000)], 900), 1, "two at a time");
        assert_eq!(wrong(&[one], 1_001), 1, "before the former number had ended");
        let mut books = Books::default();
        let two = json!([spell(10, 1, 50, 0, 5_000_000), spell(20, 51, 60, 8_100_000, 9_000_000)]);
        books.take(&report(&two, 0)).expect("read");
        books.take(&report(&two, 0)).expect("read");
        assert_eq!((books.spells, books.gaps.count()), (2, 1), "each is counted once");
        assert!((2_900.0..3_100.0).contains(&books.gaps.max_ms()), "{}", books.gaps.max_ms());
    }
}
