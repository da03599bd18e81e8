//! Bots that come and go all the time: how each of them goes, how many are in a room at once, and the seats that they gave up.
//!
//! Of two bots of a room one keeps its seat through all the sockets that it cuts, so that its inputs can be counted at the end; the other gives
//! its seat up in one way or another.

use std::{
    collections::VecDeque,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicU32, AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use rand::{RngExt, rngs::StdRng};
use tenure_shared::{codes::ErrorCode, wire::ClientMessage};
use tokio::time::sleep;

use super::{Bot, End, Phase, leaving::send, state};
use crate::{net::Socket, scenario::churn::GRACE};
pub(crate) use state::going::Ended;

/// How long a bot is away at least and at most: within the grace of a seat, with time to spare for a busy machine.
const AWAY: (f64, f64) = (0.05, 0.3);
/// How long a socket stays open whose bot is gone: longer than most are away, shorter than a grace.
const HELD_OPEN: Duration = Duration::from_secs(2);
/// Seats given up that are remembered, of each way; the oldest make room.
const ENDED: usize = 24;

/// How a bot goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Way {
    /// It says so, and comes back to another seat.
    Leave,
    /// Its socket is cut, and it resumes its seat.
    Cut,
    /// Its socket is cut, and it comes back without its session while its seat is in the grace: to the same seat.
    Return,
    /// Its socket is cut, and it never comes back. Somebody else comes.
    Vanish,
}

impl Way {
    pub(crate) const ALL: [(Way, &'static str); 4] = [
        (Way::Leave, "left"),
        (Way::Cut, "cut, resumed"),
        (Way::Return, "cut, joined anew"),
        (Way::Vanish, "vanished"),
    ];
}

/// What all of them share.
#[derive(Debug)]
pub(crate) struct Churn {
    /// From one coming to the next, on average.
    cycle: Duration,
    rooms: u32,
    /// Bots with a seat and a socket, by room: now and at most.
    here: Vec<(AtomicU32, AtomicU32)>,
    went: [AtomicU64; Way::ALL.len()],
    ended: Mutex<[VecDeque<Ended>; Way::ALL.len()]>,
}

impl Churn {
    /// So many bots in so many rooms, of which `per_second` come in a second.
    pub(crate) fn new(players: u32, rooms: u32, per_second: u32) -> Self {
        Self {
            cycle: Duration::from_secs_f64(f64::from(players) / f64::from(per_second.max(1))),
            rooms,
            here: (0..rooms).map(|_| (AtomicU32::new(0), AtomicU32::new(0))).collect(),
            went: Default::default(),
            ended: Mutex::default(),
        }
    }

    /// Whether a bot keeps its seat.
    pub(crate) fn keeps(&self, bot: u32) -> bool {
        (bot / self.rooms).is_multiple_of(2)
    }

    fn way(&self, bot: u32, rng: &mut StdRng) -> Way {
        if self.keeps(bot) {
            return Way::Cut;
        }
        match rng.random_range(0..4) {
            0 | 1 => Way::Leave,
            2 => Way::Return,
            _ => Way::Vanish,
        }
    }

    /// How long a bot stays this time.
    fn stay(&self, rng: &mut StdRng) -> Duration {
        self.cycle.mul_f64(rng.random_range(0.5..1.5))
    }

    fn enter(&self, bot: u32) {
        if let Some((now, most)) = self.here.get((bot % self.rooms) as usize) {
            most.fetch_max(now.fetch_add(1, Ordering::Relaxed) + 1, Ordering::Relaxed);
        }
    }

    fn exit(&self, bot: u32) {
        if let Some((now, _)) = self.here.get((bot % self.rooms) as usize) {
            now.fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// How many went in each way.
    pub(crate) fn went(&self) -> [u64; Way::ALL.len()] {
        std::array::from_fn(|way| self.went.get(way).map_or(0, |went| went.load(Ordering::Relaxed)))
    }

    /// Most bots that were in one room at once, each with a seat of its own.
    pub(crate) fn most_here(&self) -> u32 {
        self.here.iter().map(|(_, most)| most.load(Ordering::Relaxed)).max().unwrap_or(0)
    }

    /// Seats that were given up, each with the way in which.
    pub(crate) fn ended(&self) -> Vec<(Way, Ended)> {
        let ended = self.ended.lock().unwrap_or_else(PoisonError::into_inner);
        let of =
            |(way, ended): (Way, &VecDeque<Ended>)| ended.iter().map(move |one| (way, one.clone())).collect::<Vec<_>>();
        Way::ALL.iter().map(|(way, _)| *way).zip(ended.iter()).flat_map(of).collect()
    }

    fn note(&self, way: Way, ended: Option<Ended>) {
        if let Some(went) = self.went.get(way as usize) {
            went.fetch_add(1, Ordering::Relaxed);
        }
        let mut all = self.ended.lock().unwrap_or_else(PoisonError::into_inner);
        if let (Some(of), Some(ended), true) = (all.get_mut(way as usize), ended, way != Way::Cut) {
            of.push_back(ended);
            if of.len() > ENDED {
                of.pop_front();
            }
        }
    }
}

impl Bot {
    /// It has a seat on this connection now.
    pub(super) fn entered(&mut self) {
        if let Some(churn) = self.plan.churn.as_ref().filter(|_| !self.inside) {
            churn.enter(self.index);
            self.inside = true;
        }
    }

    /// Its seat may be another's from now on: told before it is given up, so that no two are counted for one.
    pub(super) fn exits(&mut self) {
        if let Some(churn) = self.plan.churn.as_ref().filter(|_| self.inside) {
            churn.exit(self.index);
            self.inside = false;
        }
    }

    /// Goes when it has been here long enough.
    pub(super) async fn come_and_go(&mut self, socket: &mut Socket, now: Instant) -> Result<(), End> {
        let plan = self.plan.clone();
        let Some(churn) = plan.churn.as_ref().filter(|_| self.state.playing && !self.leaving) else { return Ok(()) };
        let stays = churn.stay(&mut self.rng);
        if now < *self.leaves.get_or_insert(now + stays) || plan.reached(Phase::Settle) {
            return Ok(());
        }
        let way = churn.way(self.index, &mut self.rng);
        churn.note(way, self.state.ended());
        self.exits();
        if way == Way::Leave {
            self.leaving = true;
            return send(socket, state::encoded(&ClientMessage::Leave { id: 2 })).await;
        }
        Err(End::Went(way))
    }

    /// Every other socket is not closed when its bot goes: nobody reads it any more, and it is gone a while later, when the seat has another.
    pub(super) fn hold_open(&mut self, socket: Socket) {
        if self.rng.random() {
            tokio::task::spawn_local(async move {
                sleep(HELD_OPEN).await;
                drop(socket);
            });
        }
    }

    /// What it comes back as, and when.
    pub(super) fn goes(&mut self, way: Way) -> Duration {
        (self.leaves, self.leaving) = (None, false);
        if way != Way::Cut {
            self.state.begin_anew(way == Way::Vanish);
        }
        GRACE.mul_f64(self.rng.random_range(AWAY.0..AWAY.1))
    }

    /// A room without a free seat is what they come and go for: it is tried again, except by whoever has a seat there.
    pub(super) fn may_wait(&self, end: End) -> End {
        match end {
            End::GaveUp(code)
                if self.plan.churn.is_some() && code == ErrorCode::RoomFull.as_str() && self.state.seat.is_none() =>
            {
                End::Again(Duration::ZERO)
            }
            end => end,
        }
    }
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng as _;

    use super::*;

    #[test]
    fn half_of_a_room_keep_their_seats_and_the_others_go_in_every_way() {
        let churn = Churn::new(40, 4, 10);
        assert_eq!(churn.cycle, Duration::from_secs(4));
        let mut rng = StdRng::seed_from_u64(1);
        let keep = (0..40).filter(|bot| churn.keeps(*bot)).count();
        assert_eq!((keep, churn.way(0, &mut rng)), (20, Way::Cut));
        let mut ways: Vec<Way> = (0..100).map(|_| churn.way(4, &mut rng)).collect();
        ways.sort();
        ways.dedup();
        assert_eq!(ways, [Way::Leave, Way::Return, Way::Vanish]);
    }

    #[test]
    fn the_most_of_a_room_and_the_last_seats_of_each_way_are_remembered() {
        let churn = Churn::new(8, 2, 1);
        (0..5).for_each(|bot| churn.enter(bot));
        churn.exit(0);
        churn.enter(6);
        assert_eq!(churn.most_here(), 3);
        let ended = |n: usize| Ended {
            room: tenure_shared::RoomId::new("arena/local/load-0").expect("valid"),
            session: n.to_string(),
            token: None,
        };
        (0..ENDED + 2).for_each(|n| churn.note(Way::Vanish, Some(ended(n))));
        churn.note(Way::Cut, Some(ended(0)));
        let all = churn.ended();
        assert_eq!((all.len(), all[0].1.session.as_str()), (ENDED, "2"));
        assert_eq!(churn.went(), [0, 1, 0, ENDED as u64 + 2]);
    }
}
