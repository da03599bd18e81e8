//! Region coordinators, the stock daemons: one for each of `daemons.regions`. Each finds rooms for players, keeps the list of its region's
//! rooms, and sweeps its slice of the shards for overdue work.
//!
//! | file | what lives there |
//! |---|---|
//! | `book`, `list` | which rooms there are, seats that are kept, who was told what; pages of rooms; pure |
//! | `reading` | the store, read again and again beside the questions; the sweep |
//! | `herald` | a node tells the coordinators what its rooms are |
//! | `reach` | the way of a gateway's question to the coordinator, on the node that has it |
//!
//! A coordinator makes no rooms and takes no seats: it names a room, and the room's owner lets the player in or not. So it awaits nothing
//! while players wait, and nothing that it remembers must outlive it: where it starts it reads the store, before it answers anybody, and
//! the nodes tell it the rest.

mod book;
mod herald;
mod list;
mod reach;
mod reading;

use std::{collections::BTreeMap, sync::Arc};

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use tenure_shared::ShardId;

use self::{
    book::{Book, Rule},
    reading::{Reading, Swept},
};
pub use self::{
    book::{KEEP_FOR, LISTED, TICKETS},
    herald::Herald,
    reach::Reach,
};
use super::{Context, Daemon, Fault, Singleton};
use crate::{
    link::lobby::{Answer, Question},
    plugin::RoomKind,
    room::host::RoomNews,
    runtime::Wall,
};

/// Messages that may wait for a coordinator: what comes in a second of a busy evening, and once more while it moves.
const MAILBOX: usize = 4_096;

/// What a coordinator is told and asked.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum RegionQuestion {
    /// For a client.
    Client(Question),
    /// What rooms of a node are now.
    News(Vec<RoomNews>),
    /// What the last sweep of its slice found.
    Sweep,
}

/// What it answers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum RegionAnswer {
    /// To a client's question.
    Client(Answer),
    /// The news are noted; another number than before: this is another coordinator, which wants to hear everything.
    Noted(u64),
    /// The last sweep.
    Sweep {
        /// When, by the store's clock; [`Wall`] 0: not yet.
        at: Wall,
        /// Shards looked at.
        shards: u32,
        /// Those with late work, whose owners were woken.
        late: Vec<ShardId>,
    },
}

/// The coordinator of one region.
#[derive(Debug)]
pub struct Region {
    region: Arc<str>,
    /// Its place among the regions, and how many there are: whose shards it sweeps.
    slice: (u32, u32),
    book: Arc<Mutex<Book>>,
    swept: Arc<Mutex<Swept>>,
    reading: Option<Reading>,
}

/// The name of a region's coordinator.
pub fn region_daemon(region: &str) -> String {
    format!("region-{region}")
}

/// The coordinators of these regions, for these kinds of rooms.
pub fn coordinators(regions: &[String], kinds: &[Arc<RoomKind>]) -> Vec<Singleton> {
    let rules: Arc<BTreeMap<String, Rule>> =
        Arc::new(kinds.iter().map(|kind| (kind.name().to_owned(), Rule::of(kind))).collect());
    let count = u32::try_from(regions.len()).unwrap_or(u32::MAX);
    let one = |(place, region): (u32, &String)| {
        let name = region_daemon(region);
        let (region, rules): (Arc<str>, _) = (region.as_str().into(), rules.clone());
        let make = move || Region {
            region: region.clone(),
            slice: (place, count),
            book: Arc::new(Mutex::new(Book::new(&region, rules.clone()))),
            swept: Arc::default(),
            reading: None,
        };
        Singleton::new(&name, make).mailbox(MAILBOX)
    };
    (0..count).zip(regions).map(one).collect()
}

impl Daemon for Region {
    type Message = RegionQuestion;
    type Answer = RegionAnswer;

    async fn start(&mut self, ctx: &mut Context) -> Result<(), Fault> {
        let reader = reading::Reader::new(ctx, &self.region, self.slice, self.book.clone(), self.swept.clone());
        // Whoever asks meanwhile waits: an answer from half a list would make rooms that are there already.
        tokio::select! {
            biased;
            () = ctx.stopping() => return Ok(()),
            read = reader.read_all(ctx) => read?,
        }
        self.reading = Some(reader.go_on());
        Ok(())
    }

    async fn on_message(&mut self, ctx: &mut Context, question: RegionQuestion) -> Result<RegionAnswer, Fault> {
        let now = ctx.clock().now();
        Ok(match question {
            RegionQuestion::Client(Question::Seek(seek)) => {
                metrics::counter!("tenure_match_questions_total").increment(1);
                RegionAnswer::Client(self.book.lock().seek(seek, now))
            }
            RegionQuestion::Client(Question::Rooms { kind, filter, open, after, limit }) => {
                RegionAnswer::Client(self.book.lock().list(kind.as_deref(), (&filter, open), after, limit))
            }
            RegionQuestion::News(news) => {
                let mut book = self.book.lock();
                news.into_iter().for_each(|one| book.note(one, now));
                RegionAnswer::Noted(ctx.term().0)
            }
            RegionQuestion::Sweep => {
                let Swept { at, shards, late } = self.swept.lock().clone();
                RegionAnswer::Sweep { at, shards, late }
            }
        })
    }

    fn check(&mut self, _ctx: &Context) -> Result<(), Fault> {
        match &self.reading {
            Some(reading) if reading.is_over() => Err(Fault::new("nobody reads the store any more")),
            _ => Ok(()),
        }
    }
}
