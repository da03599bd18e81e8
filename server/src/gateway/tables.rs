//! Name tables that rooms have told: a client's numbers are translated when its room goes on under another build of the game.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

use parking_lot::Mutex;
use tenure_shared::wire::{Space, TableRow};

/// Tables that are kept; there are as many as builds of games in use.
const TABLES: usize = 64;

/// Tables by their hash.
#[derive(Debug, Default)]
pub(super) struct Tables(Mutex<HashMap<u64, Arc<Vec<TableRow>>>>);

/// Numbers of messages and requests of one table, in another.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Kinds(BTreeMap<(bool, u16), u16>);

impl Tables {
    /// A table came with an attach.
    pub(super) fn learn(&self, hash: u64, table: Option<&Arc<Vec<TableRow>>>) {
        let Some(table) = table else { return };
        let mut all = self.0.lock();
        if all.contains_key(&hash) {
            return;
        }
        if all.len() >= TABLES {
            // Any: what is still in use comes again with the next attach.
            let one = all.keys().next().copied();
            one.map(|hash| all.remove(&hash));
        }
        all.insert(hash, table.clone());
    }

    /// How to translate from one table to another. What is not in it cannot be said in the other table, as far as is known here.
    pub(super) fn between(&self, from: u64, to: u64) -> Kinds {
        let all = self.0.lock();
        let (Some(from), Some(to)) = (all.get(&from), all.get(&to)) else { return Kinds::default() };
        let upward = |row: &&TableRow| matches!(row.space, Space::Message | Space::Request);
        let there: HashMap<_, _> =
            to.iter().filter(upward).map(|row| ((row.space, row.name.as_str(), row.version), row.number)).collect();
        let mut kinds = BTreeMap::new();
        for row in from.iter().filter(upward) {
            if let Some(number) = there.get(&(row.space, row.name.as_str(), row.version)) {
                kinds.insert((row.space == Space::Request, row.number), *number);
            }
        }
        Kinds(kinds)
    }
}

impl Kinds {
    /// The number in the other table.
    pub(super) fn get(&self, is_request: bool, number: u16) -> Option<u16> {
        self.0.get(&(is_request, number)).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(rows: &[(Space, u16, &str, u32)]) -> Arc<Vec<TableRow>> {
        let row = |&(space, number, name, version): &(Space, u16, &str, u32)| TableRow {
            space,
            number,
            name: name.to_owned(),
            version,
            fields: None,
        };
        Arc::new(rows.iter().map(row).collect())
    }

    #[test]
    fn numbers_are_translated_by_name_and_version() {
        let tables = Tables::default();
        let old = table(&[
            (Space::Message, 0, "steer", 1),
            (Space::Message, 1, "wave", 1),
            (Space::Request, 0, "buy", 1),
            (Space::Request, 1, "sell", 1),
        ]);
        let new =
            table(&[(Space::Message, 3, "steer", 1), (Space::Request, 5, "buy", 1), (Space::Request, 1, "sell", 2)]);
        tables.learn(1, Some(&old));
        tables.learn(2, Some(&new));
        let kinds = tables.between(1, 2);
        assert_eq!([kinds.get(false, 0), kinds.get(false, 1)], [Some(3), None]);
        assert_eq!([kinds.get(true, 0), kinds.get(true, 1)], [Some(5), None], "another version is another form");
        assert_eq!(tables.between(1, 9), Kinds::default(), "not known here");
    }

    #[test]
    fn the_number_of_tables_is_bounded() {
        let tables = Tables::default();
        for n in 0..10 * TABLES as u64 {
            tables.learn(n, Some(&table(&[])));
        }
        assert_eq!(tables.0.lock().len(), TABLES);
    }
}
