//! The daemon of these tests: it counts under its fence, does what it is told, and leaves a record of everything it stored.

use std::{
    collections::BTreeMap,
    sync::{Arc, atomic::AtomicUsize},
    time::Duration,
};

use bytes::Bytes;
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use tenure::{
    daemon::{Context, Daemon, Fault, ShardedDaemonProcess},
    store::Error,
};
use tenure_shared::Term;

/// What is told.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum Order {
    /// Say who you are and how far you have counted.
    Report,
    Panic,
    Fail,
    End,
    /// Await for ever.
    Hang,
    /// Take so long, in milliseconds.
    Work(u64),
    /// Block the thread until the channel of the records is closed.
    Block,
    /// Tell this index to report.
    Pass(u32),
}

/// What it says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Report {
    pub(crate) index: u32,
    pub(crate) count: u32,
    pub(crate) generation: u64,
    pub(crate) term: u64,
    pub(crate) counted: u64,
}

/// One stored number.
type Stored = (u64, Term);

/// What all daemons stored, and what may be wrong about it (H10).
#[derive(Clone, Default)]
pub(crate) struct Records(Arc<Inside>);

#[derive(Default)]
struct Inside {
    /// By set, generation and index.
    stored: Mutex<BTreeMap<(String, u64, u32), Vec<Stored>>>,
    pub(crate) handled: Mutex<Vec<(u32, String)>>,
    starts: AtomicUsize,
    /// Indices that panic when they start, so often.
    bad: Mutex<BTreeMap<u32, usize>>,
    block: Mutex<Option<std::sync::mpsc::Receiver<()>>>,
    checked: Mutex<BTreeMap<(String, u64, u32), usize>>,
    /// The newest generation of each set that stored anything, and what an older one stored after it (C31).
    newest: Mutex<BTreeMap<String, u64>>,
    late: Mutex<Vec<String>>,
}

impl Records {
    /// A set of counters.
    pub(crate) fn counters(&self, name: &str, count: u32) -> ShardedDaemonProcess {
        let records = self.clone();
        ShardedDaemonProcess::new(name, count).factory(move |_| Counter { records: records.clone(), counted: 0 })
    }

    pub(crate) fn counter(&self) -> Counter {
        Counter { records: self.clone(), counted: 0 }
    }

    pub(crate) fn handled(&self) -> Vec<(u32, String)> {
        self.0.handled.lock().clone()
    }

    pub(crate) fn starts(&self) -> usize {
        self.0.starts.load(std::sync::atomic::Ordering::SeqCst)
    }

    /// This index panics at its next `times` starts.
    pub(crate) fn panics(&self, index: u32, times: usize) {
        self.0.bad.lock().insert(index, times);
    }

    /// Blocks whoever is told to until the other end is dropped.
    pub(crate) fn blocks(&self) -> std::sync::mpsc::Sender<()> {
        let (sender, receiver) = std::sync::mpsc::channel();
        *self.0.block.lock() = Some(receiver);
        sender
    }

    /// A process ended: nothing to do, the records are those of the store.
    pub(crate) fn gone(&self, _node: &str) {}

    /// How far an index has counted.
    pub(crate) fn counted(&self, set: &str, generation: u64, index: u32) -> u64 {
        let stored = self.0.stored.lock();
        stored.get(&(set.to_owned(), generation, index)).and_then(|rows| rows.last()).map_or(0, |(count, _)| *count)
    }

    /// Of a set: the generations that ever stored anything.
    pub(crate) fn generations(&self, set: &str) -> Vec<u64> {
        let mut all: Vec<u64> = self.0.stored.lock().keys().filter(|(name, ..)| name == set).map(|key| key.1).collect();
        all.dedup();
        all
    }

    /// H10 by a counter under the fence: every number is stored once, in order, and never under a lower term than the one before.
    pub(crate) fn check(&self) {
        assert_eq!(*self.0.late.lock(), Vec::<String>::new(), "C31: two generations never work together");
        let mut checked = self.0.checked.lock();
        for (key, rows) in self.0.stored.lock().iter() {
            let from = checked.entry(key.clone()).or_insert(1);
            for at in (*from).max(1)..rows.len() {
                let (before, after) = (rows[at - 1], rows[at]);
                assert_eq!(after.0, before.0 + 1, "H10: {key:?} counted {after:?} after {before:?}");
                assert!(after.1 >= before.1, "H10: {key:?} stored {after:?} after {before:?}");
            }
            *from = rows.len().max(1);
        }
    }
}

/// Counts.
pub(crate) struct Counter {
    records: Records,
    counted: u64,
}

impl Counter {
    async fn count(&mut self, ctx: &mut Context) -> Result<(), Error> {
        let next = self.counted + 1;
        ctx.save(Bytes::copy_from_slice(&next.to_le_bytes())).await?;
        self.counted = next;
        assert!(ctx.show("counted", i64::try_from(next).unwrap_or(i64::MAX)), "there is room for a figure");
        let (name, generation) = (ctx.name().to_owned(), ctx.generation());
        let mut newest = self.records.0.newest.lock();
        let newest = newest.entry(name.clone()).or_insert(generation);
        if generation < *newest {
            let late = format!("{name}@{generation}/{} worked after generation {newest} had begun to", ctx.index());
            self.records.0.late.lock().push(late);
        }
        *newest = generation.max(*newest);
        let key = (name, generation, ctx.index());
        self.records.0.stored.lock().entry(key).or_default().push((next, ctx.term()));
        Ok(())
    }

    fn report(&self, ctx: &Context) -> Report {
        let (index, count, generation) = (ctx.index(), ctx.count(), ctx.generation());
        Report { index, count, generation, term: ctx.term().0, counted: self.counted }
    }
}

impl Daemon for Counter {
    type Message = Order;
    type Answer = Report;

    async fn start(&mut self, ctx: &mut Context) -> Result<(), Fault> {
        self.records.0.starts.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
        let bad = self.records.0.bad.lock().get_mut(&ctx.index()).is_some_and(|left| {
            let bad = *left > 0;
            *left = left.saturating_sub(1);
            bad
        });
        assert!(!bad, "told to panic at the start");
        self.counted = match ctx.state() {
            Some(state) => u64::from_le_bytes(state.as_ref().try_into().map_err(Fault::from)?),
            None => 0,
        };
        assert!(ctx.every("count", Duration::from_millis(200)), "there is room for a timer");
        Ok(())
    }

    async fn on_message(&mut self, ctx: &mut Context, order: Order) -> Result<Report, Fault> {
        self.records.0.handled.lock().push((ctx.index(), format!("{order:?}")));
        match order {
            Order::Report => {}
            Order::Panic => panic!("told to"),
            Order::Fail => return Err(Fault::new("told to fail")),
            Order::End => ctx.end(),
            Order::Hang => std::future::pending().await,
            Order::Work(millis) => ctx.clock().sleep(Duration::from_millis(millis)).await,
            Order::Block => {
                let block = self.records.0.block.lock().take();
                // Ends when the other end is dropped.
                assert!(block.is_none_or(|block| block.recv().is_err()), "nothing is ever sent");
            }
            Order::Pass(to) => {
                let name = ctx.name().to_owned();
                let answer = ctx.daemons().ask::<Counter>(&name, to, &Order::Report, Duration::from_secs(3)).await?;
                return Ok(answer);
            }
        }
        Ok(self.report(ctx))
    }

    async fn on_timer(&mut self, ctx: &mut Context, timer: &str) -> Result<(), Fault> {
        assert_eq!(timer, "count");
        Ok(self.count(ctx).await?)
    }

    /// Its last number: whatever works after it would be seen to have worked too early.
    async fn stop(&mut self, ctx: &mut Context) {
        drop(self.count(ctx).await);
    }
}
