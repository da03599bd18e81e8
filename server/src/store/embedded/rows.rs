//! The rules' view of a redb transaction, and what redb's faults mean to callers.

use std::cell::RefCell;

use redb::{ReadOnlyTable, ReadableTable, Table, TableDefinition};

use crate::store::{
    Error,
    model::{Kv, Rows, start},
};

type Bytes = &'static [u8];

/// The one table: all rows of the store.
pub(super) const TABLE: TableDefinition<'_, &[u8], &[u8]> = TableDefinition::new("tenure");

/// A fault of the file. Whatever passes (a full disk, an I/O error) may be tried again; damage may not.
pub(super) fn fault(error: impl Into<redb::Error>) -> Error {
    match error.into() {
        redb::Error::Io(error) => Error::Unavailable(format!("the data file: {error}")),
        redb::Error::PreviousIo => Error::Unavailable("the data file met an I/O error and is opened anew".to_owned()),
        error => Error::Broken(format!("the data file: {error}")),
    }
}

fn get(table: &impl ReadableTable<Bytes, Bytes>, key: &[u8]) -> Result<Option<Vec<u8>>, Error> {
    Ok(table.get(key).map_err(fault)?.map(|value| value.value().to_vec()))
}

fn scan(
    table: &impl ReadableTable<Bytes, Bytes>,
    prefix: &[u8],
    after: Option<&[u8]>,
    limit: usize,
) -> Result<Rows, Error> {
    let mut rows = Rows::new();
    for row in table.range::<&[u8]>(start(prefix, after)).map_err(fault)?.take(limit) {
        let (key, value) = row.map_err(fault)?;
        if !key.value().starts_with(prefix) {
            break;
        }
        rows.push((key.value().to_vec(), value.value().to_vec()));
    }
    Ok(rows)
}

/// The first fault of a transaction. After one it must not be committed, and the file is opened anew.
#[derive(Default)]
pub(super) struct Fault(RefCell<Option<Error>>);

impl Fault {
    fn note<T>(&self, result: Result<T, Error>) -> Result<T, Error> {
        if let Err(error) = &result {
            self.0.borrow_mut().get_or_insert_with(|| error.clone());
        }
        result
    }

    /// Fails if there was a fault.
    pub(super) fn check(&self) -> Result<(), Error> {
        self.0.borrow().clone().map_or(Ok(()), Err)
    }
}

/// A write transaction.
pub(super) struct WriteRows<'txn> {
    table: Table<'txn, Bytes, Bytes>,
    pub(super) written: bool,
    pub(super) fault: Fault,
}

impl<'txn> WriteRows<'txn> {
    pub(super) fn new(table: Table<'txn, Bytes, Bytes>) -> Self {
        Self { table, written: false, fault: Fault::default() }
    }
}

impl Kv for WriteRows<'_> {
    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, Error> {
        self.fault.note(get(&self.table, key))
    }

    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<(), Error> {
        self.written = true;
        self.fault.note(self.table.insert(key, value).map(|_| ()).map_err(fault))
    }

    fn delete(&mut self, key: &[u8]) -> Result<(), Error> {
        self.written = true;
        self.fault.note(self.table.remove(key).map(|_| ()).map_err(fault))
    }

    fn scan(&self, prefix: &[u8], after: Option<&[u8]>, limit: usize) -> Result<Rows, Error> {
        self.fault.note(scan(&self.table, prefix, after, limit))
    }
}

/// A read transaction.
pub(super) struct ReadRows {
    table: ReadOnlyTable<Bytes, Bytes>,
    pub(super) fault: Fault,
}

impl ReadRows {
    pub(super) fn new(table: ReadOnlyTable<Bytes, Bytes>) -> Self {
        Self { table, fault: Fault::default() }
    }
}

impl Kv for ReadRows {
    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, Error> {
        self.fault.note(get(&self.table, key))
    }

    fn put(&mut self, _: &[u8], _: &[u8]) -> Result<(), Error> {
        self.fault.note(Err(Error::Broken("a verb that reads tried to write".to_owned())))
    }

    fn delete(&mut self, key: &[u8]) -> Result<(), Error> {
        self.put(key, &[])
    }

    fn scan(&self, prefix: &[u8], after: Option<&[u8]>, limit: usize) -> Result<Rows, Error> {
        self.fault.note(scan(&self.table, prefix, after, limit))
    }
}
