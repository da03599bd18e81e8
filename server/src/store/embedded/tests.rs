//! What the embedded store does when the disk fails, when it is full, and when the file was written by a newer build.

use std::{
    io,
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering},
    },
};

use redb::{StorageBackend, backends::InMemoryBackend};

use super::{Embedded, OpenError, Options, rows::fault, writer::Open};
use crate::{
    runtime::{Clock, Wall},
    store::{
        Error, Store, embedded,
        model::{FORMAT, Rules},
    },
};

const START: Wall = Wall(1_764_446_400_123_456);

/// A disk that fails once `left` writes were done, until it is given more; what is on it stays, as on a real one.
#[derive(Clone, Debug)]
struct Disk {
    bytes: Arc<InMemoryBackend>,
    left: Arc<AtomicI64>,
    /// Whether it panics instead.
    panics: bool,
}

impl Disk {
    fn spend(&self) -> Result<(), io::Error> {
        if self.left.fetch_sub(1, Ordering::SeqCst) <= 0 {
            assert!(!self.panics, "the disk panics");
            return Err(io::ErrorKind::StorageFull.into());
        }
        Ok(())
    }
}

impl StorageBackend for Disk {
    fn len(&self) -> Result<u64, io::Error> {
        self.bytes.len()
    }
    fn read(&self, offset: u64, out: &mut [u8]) -> Result<(), io::Error> {
        self.bytes.read(offset, out)
    }
    fn set_len(&self, len: u64) -> Result<(), io::Error> {
        self.spend()?;
        self.bytes.set_len(len)
    }
    fn sync_data(&self) -> Result<(), io::Error> {
        self.spend()?;
        self.bytes.sync_data()
    }
    fn write(&self, offset: u64, data: &[u8]) -> Result<(), io::Error> {
        self.spend()?;
        self.bytes.write(offset, data)
    }
}

fn on(disk: &Disk) -> Open {
    let disk = disk.clone();
    Box::new(move || redb::Database::builder().create_with_backend(disk.clone()).map_err(fault))
}

#[tokio::test]
async fn a_disk_that_fails_refuses_and_poisons_nothing() {
    fail(false).await;
}

#[tokio::test]
async fn a_panic_refuses_and_poisons_nothing() {
    fail(true).await;
}

async fn fail(panics: bool) {
    let disk = Disk { bytes: Arc::new(InMemoryBackend::new()), left: Arc::new(AtomicI64::new(i64::MAX)), panics };
    let (clock, _hand) = Clock::manual(START);
    let start = || Embedded::start(on(&disk), Rules::default(), clock.clone(), None).expect("starts");
    let store = Store::new(start(), clock.clone());
    let mut agreed = Vec::new();
    let mut refused = 0;
    // The fault comes at each step of a commit in turn: a write, the change of length, a sync.
    for n in 0..200_i64 {
        disk.left.store(n % 12, Ordering::SeqCst);
        let name = format!("constant-{n}");
        match store.agree(&name, "yes").await {
            Ok(()) => agreed.push(name),
            Err(Error::Unavailable(_)) if !panics => refused += 1,
            Err(Error::Broken(_)) if panics => refused += 1,
            Err(error) => panic!("{name}: {error}"),
        }
        disk.left.store(i64::MAX, Ordering::SeqCst);
        let names = [format!("after-{n}"), format!("with-{n}")];
        let (one, two) = tokio::join!(store.agree(&names[0], "yes"), store.agree(&names[1], "yes"));
        one.and(two).expect("the next group tries again and succeeds");
        agreed.extend(names);
    }
    assert!(refused > 20, "the disk hardly failed: {refused}");
    drop(store);
    let store = Store::new(start(), clock.clone());
    for name in agreed {
        let value = store.agree_or_get(&name, "no").await.expect("reads");
        assert_eq!(value, "yes", "{name} was acknowledged and is lost");
    }
}

#[tokio::test]
async fn a_newer_format_is_refused_with_both_versions() {
    let folder = tempfile::tempdir().expect("folder");
    let (clock, _hand) = Clock::manual(START);
    drop(embedded(folder.path(), clock.clone(), Options::default()).expect("opens"));
    {
        let database = redb::Database::open(folder.path().join(super::FILE)).expect("opens");
        let txn = database.begin_write().expect("begins");
        {
            let mut rows = super::rows::WriteRows::new(txn.open_table(super::rows::TABLE).expect("table"));
            crate::store::model::set_format(&mut rows, FORMAT + 6).expect("writes");
        }
        txn.commit().expect("commits");
    }
    let error = embedded(folder.path(), clock, Options::default()).expect_err("is refused");
    let text = error.to_string();
    assert!(text.contains(&format!("format {}", FORMAT + 6)) && text.contains(&format!("up to {FORMAT}")), "{text}");
    assert!(matches!(error, OpenError::Unreadable { .. }));
}
