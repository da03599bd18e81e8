//! Taking a seat: for the first time, again after a lost socket, and again because the room moved. A player has at most one; the higher
//! generation wins (C49, C50).

use tenure_shared::{
    Generation, SeatId, Seq,
    codes::{CloseCode, ErrorCode},
    limits,
};

use super::{AttachRefused, RoomWorld, inputs::LAST_SEQ, seats::SeatState};
use crate::{
    link::{Attach, Attached, ToGateway},
    plugin::{
        Join, LeaveCause, Seat,
        params::{ControlState, ReplyBook},
        run,
    },
    runtime::Wall,
};

/// Highest attachment number that a sender may name: far below the one at which a checkpoint counts as damaged.
const LAST_GENERATION: u32 = u32::MAX / 8 * 3;

/// The number above which the attachments of a room made at `born` begin. A room that is deleted and made again begins above all that its
/// former life can have given, so that a late message of an old socket names nobody (quarters of milliseconds, coming round after
/// three days: no message is that late).
fn first_generation(born: Wall) -> Generation {
    Generation(u32::try_from((born.0 >> 8) & 0x3FFF_FFFF).unwrap_or(0))
}

impl RoomWorld {
    /// A player takes a seat, between ticks. A player has at most one seat: he takes his own again, with a higher generation, and the
    /// socket that had it is closed by a message in [`take_messages`](Self::take_messages).
    ///
    /// # Errors
    /// When the room is full or locked, or the game refuses; when the socket comes after its room moved and another one has its seat, or the
    /// seat is over.
    pub fn attach(&mut self, attach: &Attach) -> Result<Attached, AttachRefused> {
        if attach.first > LAST_SEQ || attach.generation.0.max(attach.resumes) > LAST_GENERATION {
            return Err(refused(ErrorCode::Refused, "a number is past its end".to_owned()));
        }
        let known = self.seat_of(&attach.player);
        if known.is_some_and(|id| self.is_late(id, attach)) {
            let close = Some(CloseCode::Superseded);
            return Err(AttachRefused { close, ..refused(ErrorCode::Refused, TAKEN.to_owned()) });
        }
        if known.is_some_and(|id| self.is_outdated(id, attach)) {
            return Err(refused(ErrorCode::MayRetry, "the same socket has asked again since".to_owned()));
        }
        if known.is_some_and(|id| self.is_overtaken(id, attach)) {
            return Err(refused(ErrorCode::MayRetry, "the seat was resumed again since".to_owned()));
        }
        if attach.seat.is_some_and(|id| known != Some(id) && self.is_over(id)) {
            // What its sender has not heard to be saved may have been applied to that seat: on another one it would be again (H4).
            return Err(refused(ErrorCode::ResumeFailed, "the seat is over".to_owned()));
        }
        // A player has one seat: one given after this one says that this one had ended, and the store forgot that. It keeps its numbers, and
        // what the later one sends is new: taken for its own, it would be ignored (H4).
        let ended = known.filter(|known| attach.seat.is_some_and(|id| id > *known));
        if let Some(id) = ended {
            self.end_again(id, attach)?;
        }
        (self.dirty, self.unseen) = (true, true);
        let (id, fresh) = match known.filter(|_| ended.is_none()) {
            Some(id) => (id, false),
            None => (self.new_seat(attach, ended.is_some())?, true),
        };
        if attach.seat.is_none() {
            // A client that starts anew has no open requests: an old answer must not meet a new number.
            if let Some(mut replies) = self.world.get_resource_mut::<ReplyBook>() {
                replies.pending.retain(|_, pending| pending.seat != id);
            }
            self.seats.entry(id).and_modify(|seat| seat.tail.clear());
        }
        // Whoever takes the seat from another socket has missed nothing.
        if !self.is_linked(id) {
            self.seat_is_back(id, attach);
        }
        self.known.touch(&attach.player, self.wall);
        self.balances_wanted.insert(attach.player.clone());
        self.empty_since = None;
        if let Some(entity) = self.seats.get(&id).map(|seat| seat.entity).filter(|_| !fresh) {
            self.back(entity);
        }
        let rolled_back = self.renumber(id, attach.first) | self.lost.contains(attach.shown);
        let snapshot = self.snapshot(id);
        // Last: game code, which may panic, has had its say. Until here the seat is its last socket's, and so it stays if the room is
        // restored now.
        let Some((generation, owed)) = self.link(id, attach) else {
            return Err(refused(ErrorCode::MayRetry, "the seat is gone".to_owned()));
        };
        let table = (attach.table != Some(self.kind.table_hash())).then(|| self.kind.table().clone());
        Ok(Attached {
            conn: attach.conn,
            attempt: attach.attempt,
            room: self.room.clone(),
            seat: id,
            generation,
            term: self.term,
            tick: self.tick,
            owed,
            tick_rate: self.kind.tick_rate(),
            hash: self.kind.table_hash(),
            table,
            snapshot,
            rolled_back,
        })
    }

    /// Whether a seat of this number was here and has ended. One that was given after a checkpoint that the room was restored from is none.
    fn is_over(&self, id: SeatId) -> bool {
        let forgotten = self.forgotten.iter().any(|(from, to)| (*from..*to).contains(&id.0));
        id.0 < self.next_seat && !forgotten && !self.seats.contains_key(&id)
    }

    /// Ends a seat whose end the store forgot. Whoever took it since is superseded, unless the one who asks is only moving: then it was
    /// taken after his.
    fn end_again(&mut self, id: SeatId, attach: &Attach) -> Result<(), AttachRefused> {
        let Some(seat) = self.seats.get_mut(&id) else { return Ok(()) };
        if attach.rejoin && seat.link.is_some() {
            let close = Some(CloseCode::Superseded);
            return Err(AttachRefused { close, ..refused(ErrorCode::Refused, TAKEN.to_owned()) });
        }
        let (link, left) = (seat.link.take(), seat.leaving.take());
        self.end_seat(id, LeaveCause::Forgotten);
        let closed = link.map(|(gateway, conn)| {
            (gateway, ToGateway::Close { conn, code: CloseCode::Superseded, reason: TAKEN.to_owned() })
        });
        self.messages.extend(closed);
        self.messages.extend(left.map(|(gateway, conn)| (gateway, ToGateway::Left { conn })));
        Ok(())
    }

    /// Whether the socket held the seat once and another one has taken it since: its room moved before it heard of that. Not so if it took
    /// it by the later resume: then this world had forgotten that one, and the earlier came late.
    fn is_late(&self, id: SeatId, attach: &Attach) -> bool {
        let here = Some((attach.gateway, attach.conn));
        let late = |seat: &SeatState| attach.generation < seat.held && attach.resumes <= seat.resumes;
        attach.rejoin && self.seats.get(&id).is_some_and(|seat| seat.link != here && late(seat))
    }

    /// Whether the client has resumed the seat again since, or joined anew: this question waited on the link of a gateway that it has left.
    /// Of two tabs that resume with one session both may count the same: then the later one has the seat, as with those that do not count.
    fn is_overtaken(&self, id: SeatId, attach: &Attach) -> bool {
        let counts = !attach.rejoin && attach.seat == Some(id) && attach.resumes > 0;
        counts && self.seats.get(&id).is_some_and(|seat| attach.resumes < seat.resumes)
    }

    /// Whether the socket that has the seat has asked again since: this question waited, on a link that has ended for its gateway or is about
    /// to, while the later one was answered. Gateways number sockets from a random start, so that this is the same socket.
    fn is_outdated(&self, id: SeatId, attach: &Attach) -> bool {
        let before = |than: u32| attach.attempt != than && than.wrapping_sub(attach.attempt) < u32::MAX / 2;
        self.seats
            .get(&id)
            .is_some_and(|seat| seat.link.is_some_and(|(_, conn)| conn == attach.conn) && before(seat.attempt))
    }

    /// The seat is this socket's from now on: its generation, and the number wanted next. The socket that had it is told.
    fn link(&mut self, id: SeatId, attach: &Attach) -> Option<(Generation, Seq)> {
        let link = (attach.gateway, attach.conn);
        let seat = self.seats.get_mut(&id)?;
        // Whoever knows the newest attachment holds it: the same socket, on another link.
        let same = attach.rejoin && attach.generation == seat.generation;
        let resumes = if attach.rejoin { 0 } else { attach.resumes };
        seat.generation = Generation(seat.generation.max(attach.generation).0.max(resumes) + 1);
        // Clients count on from the number of an attachment: whoever takes the seat without a count is later than all resumes until now.
        seat.resumes = match (attach.rejoin, attach.resumes) {
            (false, 0) => seat.generation.0,
            (_, count) => seat.resumes.max(count),
        };
        seat.held = if attach.rejoin { attach.generation } else { seat.generation };
        (seat.gone_since, seat.attempt) = (None, attach.attempt);
        let (superseded, left) = (seat.link.replace(link), seat.leaving.take());
        let given = (seat.generation, Seq(seat.applied.0 + 1));
        if let Some((gateway, conn)) = left {
            self.messages.push((gateway, ToGateway::Left { conn }));
        }
        if let Some((gateway, conn)) = superseded.filter(|before| *before != link && !same) {
            let close = ToGateway::Close { conn, code: CloseCode::Superseded, reason: TAKEN.to_owned() };
            self.messages.push((gateway, close));
        }
        Some(given)
    }

    /// `had`: the player had a seat until now.
    fn new_seat(&mut self, attach: &Attach, had: bool) -> Result<SeatId, AttachRefused> {
        if attach.options.len() > limits::JOIN_RECORD_BYTES {
            let length = attach.options.len();
            let message = format!("join options have {length} bytes; at most {}", limits::JOIN_RECORD_BYTES);
            return Err(refused(ErrorCode::Refused, message));
        }
        // Whoever had a seat here is let in again: only the store forgot it.
        let locked = self.world.get_resource::<ControlState>().is_some_and(|control| control.locked);
        if locked && !attach.rejoin && !had {
            return Err(refused(ErrorCode::RoomFull, "the room is locked".to_owned()));
        }
        if self.seats() >= self.kind.max_seats() {
            return Err(refused(ErrorCode::RoomFull, format!("all {} seats are taken", self.kind.max_seats())));
        }
        let id = SeatId(self.next_seat);
        self.next_seat = self.next_seat.saturating_add(1);
        let player = attach.player.clone();
        let seat = Seat { id, player: player.clone(), connected: true, since: self.now };
        let entity = self.world.spawn(seat).id();
        self.index(id, &player, entity);
        self.seats.insert(id, SeatState::new(entity, player.clone(), first_generation(self.born)));
        let join = Join::new(entity, player, &attach.options);
        let marks = self.effect_marks();
        let mut hooks = std::mem::take(&mut self.handlers.on_join);
        let mut answer = Ok(());
        for hook in &mut hooks {
            answer = match run(hook, &mut self.world, join.clone()) {
                Ok(Ok(())) => continue,
                Ok(Err(refuse)) => {
                    let word = self.word_of(&refuse);
                    Err(AttachRefused { word, ..refused(ErrorCode::Refused, refuse.reason().to_owned()) })
                }
                Err(e) => {
                    self.error(format!("on_join: {e}"));
                    Err(refused(ErrorCode::RoomError, "the room cannot take players".to_owned()))
                }
            };
            break;
        }
        self.handlers.on_join = hooks;
        if let Err(refused) = answer {
            self.effect_rollback(marks);
            self.remove_seat(id);
            return Err(refused);
        }
        self.came(&attach.player, true);
        Ok(id)
    }

    /// What the seat sends next; whether the world is owed a lower number than the sender still has.
    fn renumber(&mut self, id: SeatId, first: Seq) -> bool {
        self.drop_inputs(id);
        let Some(seat) = self.seats.get_mut(&id) else { return false };
        let rolled_back = first.0 > seat.applied.0 + 1;
        if rolled_back {
            // The store forgot a save: what is between is lost, and the client is told (F13).
            seat.applied = Seq(first.0 - 1);
        }
        seat.queued = seat.applied;
        seat.overrun = false;
        seat.marks_moved = true;
        rolled_back
    }
}

/// Said to the socket that loses its seat to another one.
const TAKEN: &str = "another socket took this seat";

fn refused(code: ErrorCode, message: String) -> AttachRefused {
    let retry_after = matches!(code, ErrorCode::MayRetry).then_some(1_000);
    AttachRefused { code, word: None, message, retry_after, close: None }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use tenure_shared::{PlayerId, RoomId, Term, Tick};

    use super::*;
    use crate::{
        link::{ConnId, GatewayId, Mode},
        plugin::RoomBuilder,
        room::test_room::TestRoom,
    };

    fn game() -> TestRoom {
        TestRoom::new("arena", |room: &mut RoomBuilder| {
            room.tick_rate(20);
        })
    }

    /// Through a gateway of its own.
    fn resume(conn: u32, seat: Option<SeatId>, resumes: u32) -> Attach {
        Attach {
            gateway: GatewayId(conn),
            conn: ConnId(u64::from(conn)),
            attempt: 1,
            room: RoomId::new("arena/test/room").expect("id"),
            mode: Mode::Join,
            player: PlayerId::new("anna").expect("id"),
            options: Bytes::from_static(&[0xc0]),
            metadata: Bytes::new(),
            seat,
            rejoin: false,
            generation: Generation(0),
            resumes,
            first: Seq(1),
            shown: (Term(0), Tick(0)),
            table: None,
        }
    }

    #[test]
    fn a_question_that_waited_does_not_take_the_seat_from_the_later_one() {
        let mut game = game();
        let world = game.world();
        let ask = |link: u32, attempt: u32, held: u32| Attach {
            gateway: GatewayId(link),
            attempt,
            rejoin: held > 0,
            generation: Generation(held),
            ..resume(7, None, 0)
        };
        // Its first one waits on a link; the second is answered through another.
        let seated = world.attach(&ask(2, 2, 0)).expect("a seat");
        let refusal = world.attach(&ask(1, 1, 0)).expect_err("it is late");
        assert_eq!((refusal.code, refusal.close), (ErrorCode::MayRetry, None));
        // The same between owners: both say that they held what was held last.
        let held = seated.generation.0;
        let again = world.attach(&ask(4, 4, held)).expect("the seat");
        assert!(world.attach(&ask(3, 3, held)).is_err());
        assert_eq!(world.take_messages(), [], "nobody is superseded");
        assert!(world.detach(again.seat, again.generation, false), "the later one has it");
        // Numbers come round.
        assert!(world.attach(&ask(5, u32::MAX, 0)).is_ok());
        assert!(world.attach(&ask(6, 1, 0)).is_ok());
    }

    #[test]
    fn a_resume_that_waited_does_not_take_the_seat_from_a_later_one() {
        let mut game = game();
        let joined = game.world().attach(&resume(1, None, 0)).expect("a seat");
        let (seat, count) = (Some(joined.seat), joined.generation.0);
        // The first resume waits; the second, through another gateway, is answered.
        let second = game.world().attach(&resume(3, seat, count + 2)).expect("the seat");
        assert!(second.generation.0 > count + 2, "whoever joins anew counts on above all that were seen");
        game.world().take_messages();
        let late = game.world().attach(&resume(2, seat, count + 1)).expect_err("it is overtaken");
        assert_eq!((late.code, late.close), (ErrorCode::MayRetry, None));
        assert_eq!(game.world().take_messages(), [], "nobody is superseded");
        // A move keeps the count, and who held the seat by the later resume holds it still.
        game.move_now();
        assert!(game.world().attach(&resume(2, seat, count + 1)).is_err());
        let rejoin = Attach { rejoin: true, generation: second.generation, ..resume(3, seat, count + 2) };
        game.world().attach(&rejoin).expect("the seat");
        // The same count from another socket: a second tab with the same session. It takes the seat, and the first hears of it.
        game.world().take_messages();
        game.world().attach(&resume(4, seat, count + 2)).expect("the seat");
        let close = ToGateway::Close { conn: ConnId(3), code: CloseCode::Superseded, reason: TAKEN.to_owned() };
        assert_eq!(game.world().take_messages(), [(GatewayId(3), close)]);
        // Without a count: clients of earlier builds, and those who join anew. Their attachment counts, and nothing before it.
        let anew = game.world().attach(&resume(5, None, 0)).expect("the seat");
        assert!(game.world().attach(&resume(2, seat, count + 3)).is_err());
        game.world().attach(&resume(6, seat, anew.generation.0 + 1)).expect("the seat");
        game.world().attach(&resume(7, seat, 0)).expect("the seat");
        assert!(game.world().attach(&resume(8, seat, u32::MAX)).is_err(), "past its end");
    }

    #[test]
    fn a_world_that_forgot_a_resume_gives_the_seat_back_to_whoever_had_it_by_that() {
        let mut game = game();
        let joined = game.world().attach(&resume(1, None, 0)).expect("a seat");
        let (seat, count) = (Some(joined.seat), joined.generation.0);
        game.save();
        let held = game.world().attach(&resume(3, seat, count + 2)).expect("the seat").generation;
        game.crash();
        // The first one, which waited, comes before the gateway of the second.
        game.world().attach(&resume(2, seat, count + 1)).expect("nobody knows better");
        game.world().take_messages();
        let back = Attach { rejoin: true, generation: held, ..resume(3, seat, count + 2) };
        game.world().attach(&back).expect("it had the seat by the later resume");
        let close = ToGateway::Close { conn: ConnId(2), code: CloseCode::Superseded, reason: TAKEN.to_owned() };
        assert_eq!(game.world().take_messages(), [(GatewayId(2), close)]);
    }

    #[test]
    fn attachments_of_a_later_life_are_above_those_of_a_former_one() {
        let at = |micros: u64| first_generation(Wall(1_764_446_400_000_000 + micros)).0;
        // A thousand attachments of one seat in a life of a second.
        assert!(at(1_000_000) > at(0) + 1_000);
        assert!(at(60_000_000) > at(1_000_000));
        assert!(first_generation(Wall(u64::MAX)).0 <= LAST_GENERATION);
    }
}
