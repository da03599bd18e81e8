//! Everything that a game can have going when its room moves, by chance: a room that moves is compared with one that stays.

use std::time::Duration;

use proptest::prelude::*;
use serde::{Deserialize, Serialize};
use tenure::{
    plugin::{Answer, ReplyTo, Request, params::Replies},
    prelude::*,
    test::{TestRoom, TestSeat},
};

#[derive(Component, Clone, Debug, Serialize, Deserialize)]
struct Body(u64);

/// What the game noted, with the tick and the room's time at which it did.
#[derive(Resource, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
struct Log(Vec<(u64, u64, String)>);

/// Requests that are answered when a timer fires.
#[derive(Resource, Clone, Debug, Default, Serialize, Deserialize)]
struct Asked(Vec<(u64, ReplyTo)>);

#[derive(Clone, Debug, Serialize, Deserialize)]
struct Do(u8, u64);

fn who(seats: &Seats, seat: Entity) -> String {
    seats.get(seat).map_or_else(|| "?".to_owned(), |seat| seat.player().to_string())
}

fn act(
    inbox: Inbox<Do>,
    (mut timers, mut due, mut grants, mut rng): (Timers, Due, Grants, RoomRng),
    (seats, tick): (Seats, Tick),
    mut commands: Commands,
    mut log: ResMut<Log>,
    mut bodies: Query<&mut Body>,
) {
    let mut note = |text: String| log.0.push((tick.n, tick.now.as_nanos() as u64, text));
    for (seat, Do(what, n)) in inbox.iter() {
        let name = who(&seats, seat);
        note(format!("{name} does {what} {n}"));
        match what % 7 {
            0 => timers.after_with("bell", *n, Duration::from_millis(40 * n), &rng.next_u64()),
            1 => timers.every("beat", *n, Duration::from_millis(70 * (n + 1))),
            2 => drop(timers.cancel("beat", *n)),
            3 => due.schedule_in("job", &n.to_string(), Duration::from_millis(60 * n), n),
            4 => {
                let seat = seats.get(seat).expect("a seat");
                // Each gift is another one.
                let gold = (tick.n * 1_000 + *n) as i64;
                grants.give(seat.player(), "gift", &[("gold", gold)]);
            }
            5 => drop(commands.spawn(Body(rng.next_u64()))),
            _ => bodies.iter_mut().for_each(|mut body| body.0 = body.0.rotate_left(*n as u32 % 64)),
        }
    }
}

fn news(
    (added, changed, seats): (Query<(), Added<Body>>, Query<(), Changed<Body>>, Query<(), Added<Seat>>),
    mut log: ResMut<Log>,
    tick: Tick,
) {
    let news = [added.iter().count(), changed.iter().count(), seats.iter().count()];
    if news != [0, 0, 0] {
        log.0.push((tick.n, tick.now.as_nanos() as u64, format!("{news:?}")));
    }
}

macro_rules! note {
    ($room:expr, $hook:ident, $of:ident: $type:ty, $text:expr) => {
        $room.$hook(|In($of): In<$type>, seats: Seats, tick: Tick, mut log: ResMut<Log>| {
            let text: fn(&$type, &Seats) -> String = $text;
            log.0.push((tick.n, tick.now.as_nanos() as u64, text(&$of, &seats)));
        })
    };
}

fn game(room: &mut RoomBuilder) {
    room.tick_rate(20).reconnect_grace(Duration::from_secs(2));
    room.component::<Body>("body").replicated().persisted();
    room.resource::<Log>("log").replicated().persisted();
    room.resource::<Asked>("asked").persisted();
    room.message::<Do>("do");
    room.request("ask", |In(request): In<Request<Do>>, mut asked: ResMut<Asked>, mut timers: Timers| {
        asked.0.push((request.body.1, request.reply));
        timers.after("answer", request.body.1, Duration::from_millis(50 * request.body.1));
        Ok::<Answer<u64>, Refuse>(Answer::Later)
    });
    room.timer("answer", |In(fired): In<Fired>, mut asked: ResMut<Asked>, mut replies: Replies| {
        for (_, to) in asked.0.extract_if(.., |(key, _)| *key == fired.key) {
            replies.answer(to, Ok::<u64, Refuse>(fired.due.as_millis() as u64));
        }
    });
    room.timer("bell", |In(fired): In<Fired>, tick: Tick, mut rng: RoomRng, mut log: ResMut<Log>| {
        let payload = fired.payload::<u64>().expect("a payload");
        log.0.push((tick.n, tick.now.as_nanos() as u64, format!("bell {} {payload} {}", fired.key, rng.next_u64())));
    });
    room.timer("beat", |In(fired): In<Fired>, tick: Tick, mut log: ResMut<Log>| {
        log.0.push((tick.n, tick.now.as_nanos() as u64, format!("beat {} at {:?}", fired.key, fired.due)));
    });
    room.work::<u64, _>("job", |In(work): In<Work<u64>>, tick: Tick, mut log: ResMut<Log>| {
        log.0.push((tick.n, tick.now.as_nanos() as u64, format!("job {} {}", work.key, work.body)));
        Ok::<(), Refuse>(())
    });
    note!(room, on_drop, seat: Entity, |seat, seats| format!("{} drops", who(seats, *seat)));
    note!(room, on_reconnect, seat: Entity, |seat, seats| format!("{} is back", who(seats, *seat)));
    note!(room, on_leave, leave: Leave, |leave, seats| format!("{} leaves", who(seats, leave.seat)));
    note!(room, on_granted, granted: Granted, |granted, _| format!("{} {:?}", granted.source, granted.outcome));
    room.on_join(|In(join): In<Join>, tick: Tick, mut log: ResMut<Log>| -> Result<(), Refuse> {
        log.0.push((tick.n, tick.now.as_nanos() as u64, format!("{} joins", join.player)));
        Ok(())
    });
    room.observe(|_: On<Add<Body>>, mut log: ResMut<Log>| log.0.push((0, 0, "a body".to_owned())));
    room.systems(Apply, act).systems(Collect, news);
}

/// One deed of a player, or of the network.
#[derive(Clone, Copy, Debug)]
enum Deed {
    Do(usize, u8, u64),
    Ask(usize, u64),
    Drop(usize),
    Back(usize),
    Join,
    Nothing,
}

fn deed() -> impl Strategy<Value = Deed> {
    prop_oneof![
        6 => (0..3usize, 0..7u8, 0..12u64).prop_map(|(seat, what, n)| Deed::Do(seat, what, n)),
        2 => (0..3usize, 0..12u64).prop_map(|(seat, n)| Deed::Ask(seat, n)),
        1 => (0..3usize).prop_map(Deed::Drop),
        1 => (0..3usize).prop_map(Deed::Back),
        1 => Just(Deed::Join),
        3 => Just(Deed::Nothing),
    ]
}

struct Play {
    room: TestRoom,
    seats: Vec<TestSeat>,
    gone: Vec<bool>,
    /// Whose socket was lost, ever.
    lost: Vec<bool>,
    requests: Vec<(TestSeat, u32)>,
    /// Rewards that each was shown.
    shown: Vec<Vec<String>>,
}

impl Play {
    fn new() -> Self {
        let mut room = TestRoom::new("all", game);
        let seats: Vec<_> = ["ada", "bob", "cem"].iter().map(|name| room.join(name)).collect();
        let shown = vec![Vec::new(); seats.len()];
        let nobody = vec![false; seats.len()];
        Self { room, gone: nobody.clone(), lost: nobody, seats, requests: Vec::new(), shown }
    }

    fn is_there(&self, n: usize) -> bool {
        !self.gone[n] && self.room.closed(self.seats[n]).is_none()
    }

    fn tick(&mut self, deed: Deed) {
        match deed {
            Deed::Do(n, what, key) if self.is_there(n) => self.room.send(self.seats[n], "do", &Do(what, key)),
            Deed::Ask(n, key) if self.is_there(n) => {
                let id = self.room.request(self.seats[n], "ask", &Do(0, key));
                self.requests.push((self.seats[n], id));
            }
            Deed::Drop(n) if self.is_there(n) => {
                (self.gone[n], self.lost[n]) = (true, true);
                self.room.drop_socket(self.seats[n]);
            }
            Deed::Back(n) if self.gone[n] => {
                // One whose grace is over joins as somebody new would.
                let name = ["ada", "bob", "cem"][n];
                self.seats[n] = self.room.join(name);
                self.gone[n] = false;
            }
            Deed::Join => drop(self.room.try_join("dan", &())),
            _ => {}
        }
        self.room.tick(1);
        for (seat, shown) in self.seats.iter().zip(&mut self.shown) {
            shown.extend(self.room.granted(*seat).iter().map(|reward| format!("{reward:?}")));
        }
    }

    /// What each was shown in the end, when all are back. Not compared tick by tick: what somebody missed is asked of his ledger, and an owner
    /// that has just begun asks anew. Nor is it how often, of one whose socket was lost: what it was told just before is shown again.
    fn shown(mut self) -> Vec<Vec<String>> {
        (0..3).for_each(|n| self.tick(Deed::Back(n)));
        (0..5).for_each(|_| self.tick(Deed::Nothing));
        for (shown, lost) in self.shown.iter_mut().zip(&self.lost) {
            shown.sort();
            if *lost {
                shown.dedup();
            }
        }
        self.shown
    }

    /// All that a game or a client can tell, but for numbers of seats.
    fn seen(&mut self) -> impl PartialEq + std::fmt::Debug + use<> {
        let clients: Vec<_> = (0..3)
            .filter(|n| self.is_there(*n))
            .map(|n| {
                let state = self.room.state(self.seats[n]);
                let log = state.resource::<Log>("log");
                (n, state.entities(), state.hash(), log)
            })
            .collect();
        let (room, requests) = (&mut self.room, &self.requests);
        let answers: Vec<_> = requests.iter().map(|(seat, id)| room.reply::<u64>(*seat, *id)).collect();
        let gold: Vec<_> = ["ada", "bob", "cem"].iter().map(|name| self.room.balance(name, "gold")).collect();
        (clients, answers, gold)
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, ..ProptestConfig::default() })]
    #[test]
    fn a_room_that_moves_is_tick_by_tick_the_same_as_one_that_stays(
        deeds in proptest::collection::vec((deed(), proptest::bool::weighted(0.1)), 1..150),
    ) {
        let (mut stays, mut moves) = (Play::new(), Play::new());
        // A room moves after a tick: what came since the last one has had one of its own.
        for play in [&mut stays, &mut moves] {
            play.tick(Deed::Nothing);
        }
        for (n, (deed, move_now)) in deeds.into_iter().enumerate() {
            if move_now {
                moves.room.move_now();
            }
            stays.tick(deed);
            moves.tick(deed);
            prop_assert_eq!(stays.seen(), moves.seen(), "after {} ticks", n + 1);
        }
        prop_assert_eq!(stays.room.take_errors(), moves.room.take_errors());
        prop_assert_eq!(stays.shown(), moves.shown());
    }
}
