//! What the rules run on: an ordered key-value transaction, and an overlay that makes a refused command change nothing.

use std::collections::BTreeMap;

use crate::store::Error;

/// Rows that a scan gave: key and value, in order of the keys.
pub type Rows = Vec<(Vec<u8>, Vec<u8>)>;

/// One transaction over ordered rows. The rules see nothing else of a backend.
pub trait Kv {
    /// The value of a key.
    ///
    /// # Errors
    /// What the backend met; the transaction must not be committed then.
    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, Error>;

    /// Sets the value of a key.
    ///
    /// # Errors
    /// As [`Kv::get`].
    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<(), Error>;

    /// Deletes a key; one that is not there is no fault.
    ///
    /// # Errors
    /// As [`Kv::get`].
    fn delete(&mut self, key: &[u8]) -> Result<(), Error>;

    /// Rows whose key starts with `prefix` and comes after the key `after`, in order, at most `limit`.
    ///
    /// # Errors
    /// As [`Kv::get`].
    fn scan(&self, prefix: &[u8], after: Option<&[u8]>, limit: usize) -> Result<Rows, Error>;
}

impl Kv for BTreeMap<Vec<u8>, Vec<u8>> {
    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, Error> {
        Ok(BTreeMap::get(self, key).cloned())
    }

    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<(), Error> {
        self.insert(key.to_vec(), value.to_vec());
        Ok(())
    }

    fn delete(&mut self, key: &[u8]) -> Result<(), Error> {
        self.remove(key);
        Ok(())
    }

    fn scan(&self, prefix: &[u8], after: Option<&[u8]>, limit: usize) -> Result<Rows, Error> {
        let rows = self.range::<[u8], _>(start(prefix, after));
        let rows = rows.take_while(|(key, _)| key.starts_with(prefix)).take(limit);
        Ok(rows.map(|(key, value)| (key.clone(), value.clone())).collect())
    }
}

/// Where a scan starts.
pub(in crate::store) fn start<'a>(
    prefix: &'a [u8],
    after: Option<&'a [u8]>,
) -> (std::ops::Bound<&'a [u8]>, std::ops::Bound<&'a [u8]>) {
    use std::ops::Bound;
    match after {
        Some(after) if after >= prefix => (Bound::Excluded(after), Bound::Unbounded),
        _ => (Bound::Included(prefix), Bound::Unbounded),
    }
}

/// Keeps a command's writes until it is known that it is granted.
pub(super) struct Overlay<'a> {
    base: &'a mut dyn Kv,
    writes: BTreeMap<Vec<u8>, Option<Vec<u8>>>,
}

impl<'a> Overlay<'a> {
    pub(super) fn new(base: &'a mut dyn Kv) -> Self {
        Self { base, writes: BTreeMap::new() }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.writes.is_empty()
    }

    /// Puts the writes into the transaction below.
    pub(super) fn apply(self) -> Result<(), Error> {
        for (key, value) in self.writes {
            match value {
                Some(value) => self.base.put(&key, &value)?,
                None => self.base.delete(&key)?,
            }
        }
        Ok(())
    }
}

impl Kv for Overlay<'_> {
    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, Error> {
        match self.writes.get(key) {
            Some(value) => Ok(value.clone()),
            None => self.base.get(key),
        }
    }

    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<(), Error> {
        self.writes.insert(key.to_vec(), Some(value.to_vec()));
        Ok(())
    }

    fn delete(&mut self, key: &[u8]) -> Result<(), Error> {
        self.writes.insert(key.to_vec(), None);
        Ok(())
    }

    fn scan(&self, prefix: &[u8], after: Option<&[u8]>, limit: usize) -> Result<Rows, Error> {
        let own = self.writes.range::<[u8], _>(start(prefix, after)).take_while(|(key, _)| key.starts_with(prefix));
        let own: Vec<_> = own.collect();
        if own.is_empty() {
            return self.base.scan(prefix, after, limit);
        }
        // Each write here takes at most one row of the base away, so this many are enough.
        let base = self.base.scan(prefix, after, limit.saturating_add(own.len()))?;
        let mut rows: BTreeMap<Vec<u8>, Vec<u8>> = base.into_iter().collect();
        for (key, value) in own {
            match value {
                Some(value) => rows.insert(key.clone(), value.clone()),
                None => rows.remove(key),
            };
        }
        Ok(rows.into_iter().take(limit).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_overlay_reads_its_own_writes_and_leaves_the_base_alone() {
        let mut base = BTreeMap::new();
        for key in ["a/1", "a/2", "a/3", "b/1"] {
            Kv::put(&mut base, key.as_bytes(), b"old").expect("put");
        }
        let before = base.clone();
        let mut over = Overlay::new(&mut base);
        over.delete(b"a/1").expect("delete");
        over.put(b"a/2", b"new").expect("put");
        over.put(b"a/25", b"new").expect("put");
        let rows = over.scan(b"a/", None, 2).expect("scan");
        assert_eq!(rows, vec![(b"a/2".to_vec(), b"new".to_vec()), (b"a/25".to_vec(), b"new".to_vec())]);
        let rows = over.scan(b"a/", Some(b"a/25"), 9).expect("scan");
        assert_eq!(rows, vec![(b"a/3".to_vec(), b"old".to_vec())]);
        assert_eq!(over.get(b"a/1").expect("get"), None);
        drop(over);
        assert_eq!(base, before);
    }
}
