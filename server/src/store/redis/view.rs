//! What a command sees of Redis: rows that were read before, and a note of everything it looked at and wrote.
//!
//! A row that was not read is answered as absent and noted as missing: then the command's outcome is void, the row is read, and the
//! command is carried out again. An absent row is always a state that the rules can meet, so this ends with all that it needs at once.

use std::{cell::RefCell, collections::BTreeMap};

use super::slots::{self, Tag};
use crate::{
    runtime::Wall,
    store::{
        Error,
        model::{self, Kv, Needs, Rows, Scan},
    },
};

/// Rows read for one command.
#[derive(Debug, Default)]
pub(super) struct Cache {
    /// The clock of the server that has the command's own slot.
    pub(super) now: Wall,
    pub(super) rows: BTreeMap<Vec<u8>, Option<Vec<u8>>>,
    pub(super) scans: Vec<(Scan, Rows)>,
}

impl Cache {
    fn scan(&self, prefix: &[u8], after: Option<&[u8]>, limit: usize) -> Option<Rows> {
        let same = |scan: &Scan| scan.prefix == prefix && scan.after.as_deref() == after;
        let (_, rows) = self
            .scans
            .iter()
            // A scan that ended before its limit has all there is.
            .find(|(scan, rows)| same(scan) && (limit <= scan.limit || rows.len() < scan.limit))?;
        Some(rows.iter().take(limit).cloned().collect())
    }
}

/// What was looked at in the command's own slot: compared with what is there when it is applied.
#[derive(Debug, Default)]
pub(super) struct Reads {
    pub(super) equal: Vec<(Vec<u8>, Vec<u8>)>,
    pub(super) absent: Vec<Vec<u8>>,
    pub(super) scans: Vec<(Scan, Rows)>,
}

/// What one pass over the rows looked at and wrote.
#[derive(Debug, Default)]
pub(super) struct Seen {
    pub(super) missing: Needs,
    pub(super) reads: Reads,
    pub(super) writes: Vec<(Vec<u8>, Option<Vec<u8>>)>,
}

#[derive(Debug, Default)]
struct Looked {
    missing: Needs,
    rows: BTreeMap<Vec<u8>, Option<Vec<u8>>>,
    scans: Vec<(Scan, Rows)>,
}

/// The rows as the model asks for them.
#[derive(Debug)]
pub(super) struct View<'a> {
    cache: &'a Cache,
    home: &'a Tag,
    looked: RefCell<Looked>,
    writes: BTreeMap<Vec<u8>, Option<Vec<u8>>>,
}

impl<'a> View<'a> {
    pub(super) fn new(cache: &'a Cache, home: &'a Tag) -> Self {
        Self { cache, home, looked: RefCell::default(), writes: BTreeMap::new() }
    }

    /// Ends the pass.
    pub(super) fn end(self) -> Seen {
        let Looked { missing, rows, scans } = self.looked.into_inner();
        let mut reads = Reads { scans, ..Reads::default() };
        for (key, value) in rows {
            match value {
                Some(value) => reads.equal.push((key, value)),
                None => reads.absent.push(key),
            }
        }
        Seen { missing, reads, writes: self.writes.into_iter().collect() }
    }

    fn own(&self, row: &[u8]) -> bool {
        Tag::of(row, self.home) == *self.home
    }

    fn write(&mut self, key: &[u8], value: Option<&[u8]>) -> Result<(), Error> {
        // The highest time is kept by the script itself.
        if key == model::TIME {
            return Ok(());
        }
        if !self.own(key) {
            let name = String::from_utf8_lossy(key).replace('\0', "|");
            return Err(Error::Broken(format!("a command of {} would write row {name} of another slot", self.home)));
        }
        self.writes.insert(key.to_vec(), value.map(<[u8]>::to_vec));
        Ok(())
    }
}

impl Kv for View<'_> {
    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, Error> {
        let found = self.cache.rows.get(key);
        let mut looked = self.looked.borrow_mut();
        match found {
            // Time only moves on; no outcome may be refused because it did. Bodies are only ever read by a command that writes nothing.
            Some(_) if key == model::TIME || slots::is_body(key) || !self.own(key) => {}
            Some(value) => {
                looked.rows.insert(key.to_vec(), value.clone());
            }
            None if looked.missing.keys.iter().any(|missing| missing == key) => {}
            None => looked.missing.keys.push(key.to_vec()),
        }
        Ok(found.cloned().flatten())
    }

    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<(), Error> {
        self.write(key, Some(value))
    }

    fn delete(&mut self, key: &[u8]) -> Result<(), Error> {
        self.write(key, None)
    }

    fn scan(&self, prefix: &[u8], after: Option<&[u8]>, limit: usize) -> Result<Rows, Error> {
        let scan = Scan { prefix: prefix.to_vec(), after: after.map(<[u8]>::to_vec), limit, with: None };
        let mut looked = self.looked.borrow_mut();
        match self.cache.scan(prefix, after, limit) {
            Some(rows) => {
                if self.own(prefix) {
                    looked.scans.push((scan, rows.clone()));
                }
                Ok(rows)
            }
            None => {
                looked.missing.scans.push(scan);
                Ok(Rows::new())
            }
        }
    }
}
