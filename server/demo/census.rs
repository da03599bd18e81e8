//! The census: daemons that count the rooms and seats of the cluster, each those of its slice of the shards. Each also keeps a book, under
//! its fence, of when it ran and how far it had counted: a second one of an index, or one of a former number, would be seen in it.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use tenure::{
    ShardId,
    daemon::{Context, Daemon, Fault, ShardedDaemonProcess},
    store::Error,
};

/// Between two looks at a shard.
const LOOK: Duration = Duration::from_secs(5);
/// Between two entries in the book, unless told otherwise.
const ENTRY: Duration = Duration::from_secs(15);
const SHORTEST_ENTRY: Duration = Duration::from_millis(20);
/// Rooms of a shard that are read at a time.
const PAGE: usize = 200;
/// Spells that a book keeps.
const SPELLS: usize = 128;
/// Most books of a former number that are looked into.
const FORMER: u32 = 64;

/// The daemons of the census.
pub(crate) fn census(count: u32) -> ShardedDaemonProcess {
    ShardedDaemonProcess::new("census", count).factory(|_| Census::default())
}

/// What it is told.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Order {
    /// Say what the book says.
    Report,
    /// Make an entry so often from now on, milliseconds.
    Every(u64),
}

/// One activation, as far as it counted.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct Spell {
    term: u64,
    /// Its first and its last number.
    first: u64,
    last: u64,
    /// When it stored these, by the store's clock, microseconds.
    from: u64,
    until: u64,
}

/// What is stored.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Book {
    every: Duration,
    counted: u64,
    /// Oldest first; only the last ones.
    spells: Vec<Spell>,
    /// When the last one of the former number made its last entry.
    former: u64,
}

/// What it answers.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Report {
    index: u32,
    count: u32,
    generation: u64,
    rooms: u64,
    seats: u64,
    book: Book,
    /// The last books of the former number: its own index's, and those of the indices that this number divides down to it.
    former: Vec<(u32, Book)>,
}

/// One of them.
#[derive(Debug, Default)]
pub(crate) struct Census {
    book: Book,
    /// Where the reading is: of how many of its shards, rooms and seats were counted in this round.
    place: (u32, u64, u64),
    /// Of the last whole round.
    whole: (u64, u64),
}

impl Census {
    /// One more number, under the fence: it counts when it is stored.
    async fn enter(&mut self, ctx: &mut Context) -> Result<(), Error> {
        let mut next = self.book.clone();
        let (term, now) = (ctx.term().0, ctx.wall().0);
        next.counted += 1;
        match next.spells.last_mut().filter(|spell| spell.term == term) {
            Some(spell) => (spell.last, spell.until) = (next.counted, now),
            None => {
                next.spells.push(Spell { term, first: next.counted, last: next.counted, from: now, until: now });
                let more = next.spells.len().saturating_sub(SPELLS);
                next.spells.drain(..more);
            }
        }
        let body = rmp_serde::to_vec(&next).map_err(|error| Error::Invalid(error.to_string()))?;
        ctx.save(body.into()).await?;
        self.book = next;
        self.show(ctx);
        Ok(())
    }

    fn show(&self, ctx: &Context) {
        let figure = |value: u64| i64::try_from(value).unwrap_or(i64::MAX);
        for (name, value) in [("rooms", self.whole.0), ("seats", self.whole.1), ("entries", self.book.counted)] {
            ctx.show(name, figure(value));
        }
    }

    /// Counts the rooms of the next shard of its slice.
    async fn look(&mut self, ctx: &Context) -> Result<(), Error> {
        let (own, all, count) = (ctx.index(), ctx.ownership().shards_in_all(), ctx.count().max(1));
        let shard = own.saturating_add(self.place.0.saturating_mul(count));
        if shard >= all {
            self.whole = (self.place.1, self.place.2);
            self.place = (0, 0, 0);
            self.show(ctx);
            return Ok(());
        }
        let mut after = None;
        loop {
            let page = ctx.store().rooms(ShardId(shard), after.take(), PAGE).await?;
            self.place.1 += page.len() as u64;
            self.place.2 += page.iter().map(|room| u64::from(room.seats)).sum::<u64>();
            match page.last().filter(|_| page.len() == PAGE) {
                Some(last) => after = Some(last.room.clone()),
                None => break,
            }
            ctx.progress();
        }
        self.place.0 += 1;
        Ok(())
    }
}

/// The last entry of all books of the former number, and how often that one made entries.
async fn former(ctx: &Context) -> Result<(u64, Option<Duration>), Error> {
    let (mut until, mut every) = (0, None);
    for index in 0..FORMER {
        let Some(body) = ctx.former_state(index).await? else { break };
        let Ok(book) = rmp_serde::from_slice::<Book>(&body) else { continue };
        until = book.spells.last().map_or(until, |spell| until.max(spell.until));
        every = every.or(Some(book.every));
    }
    Ok((until, every))
}

impl Daemon for Census {
    type Message = Order;
    type Answer = Report;

    async fn start(&mut self, ctx: &mut Context) -> Result<(), Fault> {
        match ctx.state() {
            Some(state) => self.book = rmp_serde::from_slice(state)?,
            None => {
                let (until, every) = former(ctx).await?;
                (self.book.former, self.book.every) = (until, every.unwrap_or(ENTRY));
            }
        }
        // The first entry says that it lives.
        self.enter(ctx).await?;
        ctx.every("look", LOOK);
        ctx.every("enter", self.book.every.max(SHORTEST_ENTRY));
        Ok(())
    }

    async fn on_message(&mut self, ctx: &mut Context, order: Order) -> Result<Report, Fault> {
        if let Order::Every(millis) = order {
            self.book.every = Duration::from_millis(millis).max(SHORTEST_ENTRY);
            ctx.every("enter", self.book.every);
            self.enter(ctx).await?;
        }
        let mut former = Vec::new();
        for index in (ctx.index()..FORMER).step_by(ctx.count().max(1) as usize) {
            let Some(body) = ctx.former_state(index).await? else { break };
            former.push((index, rmp_serde::from_slice(&body)?));
        }
        let ((rooms, seats), book) = (self.whole, self.book.clone());
        Ok(Report { index: ctx.index(), count: ctx.count(), generation: ctx.generation(), rooms, seats, book, former })
    }

    async fn on_timer(&mut self, ctx: &mut Context, timer: &str) -> Result<(), Fault> {
        let done = if timer == "enter" { self.enter(ctx).await } else { self.look(ctx).await };
        match done {
            // The store is away for a moment: the next timer tries again.
            Err(error) if error.may_retry() => Ok(()),
            done => Ok(done?),
        }
    }

    async fn stop(&mut self, ctx: &mut Context) {
        // Whoever is next reads it; refused, another is next already.
        drop(self.enter(ctx).await);
    }
}
