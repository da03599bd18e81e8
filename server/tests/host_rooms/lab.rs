//! A game for tests: it counts what happens to it, fails on demand, pays, and shows its insides to the test.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
    time::Duration,
};

use bevy_ecs::prelude::*;
use serde::{Deserialize, Serialize};
use tenure::plugin::{
    Charged, Granted, Join, Refuse, RewardDue, RoomBuilder, RoomKind, Seat, Stage, Work,
    params::{Due, Grants, Inbox, RoomControl, RoomInfo, Seats, Tick},
};

/// What the game keeps; it travels in the checkpoint.
#[derive(Resource, Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq)]
pub struct Book {
    /// Numbers of messages in the order they were applied, per player.
    pub applied: BTreeMap<String, Vec<u64>>,
    /// Work done, by key.
    pub done: Vec<String>,
    /// Ledger answers for gifts seen, by identity.
    pub granted: Vec<String>,
    /// Things bought.
    pub bought: u64,
    /// Times startup ran, `Added<Thing>` and the observer fired, and `Changed<Thing>` was seen.
    pub started: u64,
    pub added: u64,
    pub observed: u64,
    pub changed: u64,
    /// Times `Added<Seat>` was seen.
    pub seats: u64,
    /// Occurrences of the schedule `paged` whose decision began, µs.
    pub decided: Vec<u64>,
}

/// Something that must not look new after a restart (H12).
#[derive(Component, Serialize, Deserialize, Clone, Debug)]
#[serde(from = "u64")]
pub struct Thing(u64);

/// A thing panics when it is read.
pub static CURSED_THING: std::sync::atomic::AtomicBool = std::sync::atomic::AtomicBool::new(false);

impl From<u64> for Thing {
    fn from(n: u64) -> Self {
        assert!(!CURSED_THING.load(std::sync::atomic::Ordering::SeqCst), "a cursed thing");
        Thing(n)
    }
}

/// A thing does not let go until this is false; and how many did so.
pub static STUBBORN_THING: std::sync::atomic::AtomicBool = std::sync::atomic::AtomicBool::new(false);
pub static STUBBORN_THINGS: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(0);

impl Drop for Thing {
    fn drop(&mut self) {
        use std::sync::atomic::Ordering::SeqCst;
        if STUBBORN_THING.load(SeqCst) {
            STUBBORN_THINGS.fetch_add(1, SeqCst);
        }
        while STUBBORN_THING.load(SeqCst) {
            std::thread::yield_now();
        }
    }
}

/// What the test sees of each room: its book and tick, and the players connected.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct View {
    pub book: Book,
    pub tick: u64,
    pub seats: usize,
    pub connected: usize,
}

/// The views by room, written at the end of each tick.
pub type Views = Arc<Mutex<BTreeMap<String, View>>>;

#[derive(Serialize, Deserialize, Clone, Debug)]
pub enum Say {
    /// A number to keep.
    Keep(u64),
    /// The system panics.
    Boom,
    /// The next ticks all panic, also after a restore: the room keeps failing.
    Curse,
    /// Gold for the sender.
    Gift(i64),
    /// Something for so much gold.
    Buy(i64),
    /// Durable work after so many milliseconds.
    Later(String, u64),
    /// The room ends.
    End,
    /// Nobody new is let in.
    Lock,
    /// The tick does not return until the gate opens.
    Hang,
}

/// Who hears of ticks of rooms.
pub type Watch = Box<dyn Fn(&tenure_shared::RoomId) + Send + Sync>;

/// Outside of all worlds: what a room may find when it looks.
#[derive(Default)]
pub struct Outside {
    /// Hears of each tick.
    pub watch: Option<Watch>,
    pub cursed: std::sync::atomic::AtomicBool,
    pub work_fails: std::sync::atomic::AtomicU64,
    pub work_panics: std::sync::atomic::AtomicU64,
    pub drop_panics: std::sync::atomic::AtomicU64,
    /// Times the game was told that a seat's socket is gone, and that it is back.
    pub drops: std::sync::atomic::AtomicU64,
    pub backs: std::sync::atomic::AtomicU64,
    /// Seconds of grace beyond three.
    pub more_grace: std::sync::atomic::AtomicU64,
    /// A world that is restored starts again, as none may (H12).
    pub starts_again: std::sync::atomic::AtomicBool,
    pub gate: (Mutex<bool>, std::sync::Condvar),
    /// When which tick ran, if anybody wants to know.
    pub ticks: Mutex<Option<Vec<(u64, std::time::Instant)>>>,
}

/// The kind `lab`, 50 ticks a second.
pub fn kind(views: &Views, outside: &Arc<Outside>) -> Arc<RoomKind> {
    build_of(views, outside, 1)
}

/// The same in a build whose book has this version.
pub fn build_of(views: &Views, outside: &Arc<Outside>, version: u32) -> Arc<RoomKind> {
    let (views, outside) = (views.clone(), outside.clone());
    let build = move |room: &mut RoomBuilder| build(room, &views, &outside, version);
    RoomKind::new("lab", build).expect("a valid game")
}

fn build(room: &mut RoomBuilder, views: &Views, outside: &Arc<Outside>, version: u32) {
    let more = outside.more_grace.load(std::sync::atomic::Ordering::SeqCst);
    room.filter_by(&["mode"]);
    room.tick_rate(50).max_seats(4).reconnect_grace(Duration::from_secs(3 + more));
    let book = room.resource::<Book>("book").persisted().version(version);
    if version > 1 {
        let _book = book.migrate_from(1, |book: Book| book);
    }
    room.component::<Thing>("thing").persisted();
    room.message::<Say>("say");
    room.startup(|mut commands: Commands, mut book: ResMut<Book>| {
        commands.spawn(Thing(1));
        book.started += 1;
    });
    room.observe(|_: On<Add<Thing>>, mut book: ResMut<Book>| book.observed += 1);
    room.on_join(|In(join): In<Join>| match join.player.as_str() {
        "nobody" => Err(Refuse::from("not you")),
        "stranger" => Err(Refuse::code("not_invited", "not you")),
        _ => Ok(()),
    });
    let seen = outside.clone();
    room.on_drop(move |_: In<Entity>| {
        use std::sync::atomic::Ordering::SeqCst;
        seen.drops.fetch_add(1, SeqCst);
        let left = seen.drop_panics.fetch_update(SeqCst, SeqCst, |n| n.checked_sub(1));
        assert!(left.is_err(), "a hook panics");
    });
    let seen = outside.clone();
    room.on_reconnect(move |_: In<Entity>| {
        seen.backs.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
    });
    room.on_granted(|In(granted): In<Granted>, mut book: ResMut<Book>| book.granted.push(granted.id.to_string()));
    room.reward("paged", |In(due): In<RewardDue>, mut book: ResMut<Book>| {
        if due.first {
            book.decided.push(due.scheduled_for.0);
        }
        due.recipients
    });
    room.charge::<u64, _>("buy", |In(charged): In<Charged<u64>>, mut book: ResMut<Book>| {
        if charged.paid {
            book.bought += charged.purchase;
        }
    });
    let seen = outside.clone();
    room.work::<u64, _>("job", move |In(work): In<Work<u64>>, mut book: ResMut<Book>| job(&seen, &work, &mut book));
    let seen = outside.clone();
    room.systems(
        Stage::Apply,
        move |inbox: Inbox<Say>,
              seats: Query<&Seat>,
              mut book: ResMut<Book>,
              mut grants: Grants,
              mut due: Due,
              mut control: RoomControl| {
            for (seat, say) in inbox.iter() {
                let Ok(seat) = seats.get(seat) else { continue };
                match say {
                    Say::Keep(n) => book.applied.entry(seat.player().to_string()).or_default().push(*n),
                    Say::Boom => panic!("boom"),
                    Say::Curse => seen.cursed.store(true, std::sync::atomic::Ordering::SeqCst),
                    Say::Gift(gold) => grants.give(seat.player(), "gift", &[("gold", *gold)]),
                    Say::Buy(gold) => grants.charge(seat.player(), "buy", &[("gold", *gold)], &1u64),
                    Say::Later(key, ms) => due.schedule_in("job", key, Duration::from_millis(*ms), &7u64),
                    Say::End => control.dispose(),
                    Say::Lock => control.set_locked(true),
                    Say::Hang => {
                        let gate = seen.gate.0.lock().expect("gate");
                        drop(seen.gate.1.wait_while(gate, |open| !*open).expect("gate"));
                    }
                }
            }
            assert!(!seen.cursed.load(std::sync::atomic::Ordering::SeqCst), "cursed");
        },
    );
    room.systems(
        Stage::Simulate,
        |added: Query<(), Added<Thing>>,
         changed: Query<(), Changed<Thing>>,
         seats: Query<(), Added<Seat>>,
         mut book: ResMut<Book>| {
            let seats = seats.iter().count() as u64;
            if seats > 0 {
                book.seats += seats;
            }
            let (added, changed) = (added.iter().count() as u64, changed.iter().count() as u64);
            if added + changed > 0 {
                book.added += added;
                book.changed += changed;
            }
        },
    );
    if outside.starts_again.load(std::sync::atomic::Ordering::SeqCst) {
        room.systems(Stage::Receive, |mut ran: Local<bool>, mut book: ResMut<Book>| {
            // What was added is counted at the end of a room's first tick.
            book.started += u64::from(!std::mem::replace(&mut *ran, true) && book.added > 0);
        });
    }
    let (views, seen) = (views.clone(), outside.clone());
    room.systems(Stage::Send, move |book: Res<Book>, seats: Seats, info: RoomInfo, tick: Tick| {
        let view = View { book: book.clone(), tick: tick.n, seats: seats.len(), connected: seats.connected().count() };
        views.lock().expect("views").insert(info.id().to_string(), view);
        if let Some(watch) = &seen.watch {
            watch(info.id());
        }
        if let Some(ticks) = seen.ticks.lock().expect("ticks").as_mut() {
            #[expect(clippy::disallowed_methods, reason = "the pause that players see is one of real time")]
            ticks.push((tick.n, std::time::Instant::now()));
        }
    });
}

fn job(outside: &Outside, work: &Work<u64>, book: &mut Book) -> Result<(), Refuse> {
    use std::sync::atomic::Ordering::SeqCst;
    let take = |left: &std::sync::atomic::AtomicU64| left.fetch_update(SeqCst, SeqCst, |n| n.checked_sub(1)).is_ok();
    assert!(!take(&outside.work_panics), "work panics");
    if take(&outside.work_fails) {
        return Err("not yet".into());
    }
    assert_eq!(work.body, 7);
    book.done.push(work.key.to_string());
    Ok(())
}
