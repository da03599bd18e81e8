//! Into a room: join, resume; attach, then store the session, then say `joined`.

use std::time::Duration;

use bytes::Bytes;
use tenure_shared::{
    RoomId, SeatId, Seq, Term, Tick,
    codes::{CloseCode, ErrorCode},
    limits,
    wire::{Joined, ServerMessage},
};

use super::{
    Ask, Effect, Machine, Phase, RESUMES, Stored, Tokens, View, error,
    find::{TRIES, Wish},
    room::InRoom,
};
use crate::{
    gateway::conn::{Expected, encode},
    link::{Attach, Attached, Mode, ToNode},
    store::Session,
};

/// How long the node may take for an answer.
pub(super) const ANSWER: Duration = Duration::from_secs(10);
/// When a passing fault may be tried again.
pub(super) const RETRY_MS: u32 = 500;
/// A session record is being read.
#[derive(Debug)]
pub(super) struct Loading {
    id: u32,
    token: String,
    room: RoomId,
    shown: (Term, Tick),
    first: Seq,
}

/// What is tried when the node refuses.
#[derive(Debug)]
pub(super) enum Then {
    /// The client is told.
    Tell,
    /// The named room does not exist: it is created.
    Create,
    /// The room that was found is full or gone: another.
    FindAnother(Wish),
    /// The generated name exists: another.
    AnotherName(Wish),
}

/// The node is asked for a seat.
#[derive(Debug)]
pub(super) struct Attaching {
    id: u32,
    room: RoomId,
    options: Bytes,
    /// Session and token with which it is resumed.
    resume: Option<(Session, String)>,
    shown: (Term, Tick),
    first: Seq,
    then: Then,
    /// Number of the attach, for its answer.
    attempt: u32,
}

/// The session record is being written.
#[derive(Debug)]
pub(super) struct Storing {
    id: u32,
    attached: Attached,
    resumed: bool,
}

impl Storing {
    pub(super) fn detach(&self) -> Effect {
        detach(&self.attached)
    }
}

pub(super) fn detach(attached: &Attached) -> Effect {
    let (room, seat, generation) = (attached.room.clone(), attached.seat, attached.generation);
    Effect::Node(ToNode::Detach { room, seat, generation, consented: false })
}

/// A duration for `retry_after`, at least 1 ms.
pub(super) fn millis(wait: Duration) -> u32 {
    u32::try_from(wait.as_millis()).unwrap_or(u32::MAX).max(1)
}

impl Machine {
    /// Whether a request for a room may begin now; else it is refused.
    pub(super) fn may_enter(&mut self, view: &View<'_>, id: u32, options: &[u8], out: &mut Vec<Effect>) -> bool {
        if self.check_login(view, out).is_none() {
            return false;
        }
        if !matches!(self.phase, Phase::Lobby) {
            Self::bad_state(id, "another room, or a request for one, is open on this socket", out);
            return false;
        }
        if options.len() > limits::JOIN_OPTIONS_BYTES {
            let text = format!("options of {} bytes; at most {}", options.len(), limits::JOIN_OPTIONS_BYTES);
            out.push(error(id, ErrorCode::Limit, &text, None));
            return false;
        }
        true
    }

    pub(super) fn join(&mut self, view: &View<'_>, id: u32, room: RoomId, options: Bytes, out: &mut Vec<Effect>) {
        if self.may_enter(view, id, &options, out) {
            self.attach(view, Attaching::new(id, room, options, Then::Tell), Mode::Join, out);
        }
    }

    #[expect(clippy::too_many_arguments, reason = "the fields of one message")]
    pub(super) fn resume(
        &mut self,
        view: &View<'_>,
        id: u32,
        room: RoomId,
        session: &str,
        shown: (Term, Tick),
        first: Seq,
        out: &mut Vec<Effect>,
    ) {
        if !self.may_enter(view, id, &[], out) {
            return;
        }
        let Some(known) = &self.known else { return };
        let (player, token) = (known.player.clone(), session.to_owned());
        out.push(Effect::Ask(Ask::Load { player, room: room.clone(), token: token.clone() }));
        self.phase = Phase::Loading(Loading { id, token, room, shown, first });
    }

    pub(super) fn attach(&mut self, view: &View<'_>, attaching: Attaching, mode: Mode, out: &mut Vec<Effect>) {
        let Some(known) = &self.known else { return };
        self.attempt = self.attempt.wrapping_add(1);
        let attempt = self.attempt;
        let attaching = Attaching { attempt, ..attaching };
        out.push(Effect::Expect(Expected { room: attaching.room.clone(), floor: attaching.shown, attempt }));
        out.push(Effect::Node(ToNode::Attach(Attach {
            gateway: view.gateway,
            conn: view.conn,
            attempt,
            room: attaching.room.clone(),
            mode,
            player: known.player.clone(),
            options: attaching.options.clone(),
            seat: attaching.resume.as_ref().map(|(session, _)| SeatId(session.seat)),
            rejoin: false,
            generation: tenure_shared::Generation(0),
            first: attaching.first,
            shown: attaching.shown,
            table: known.table,
        })));
        self.deadline = Some(view.now.plus(ANSWER));
        self.phase = Phase::Attaching(Box::new(attaching));
    }

    pub(super) fn attached(&mut self, attached: Attached, out: &mut Vec<Effect>) {
        let attaching = match std::mem::replace(&mut self.phase, Phase::Lobby) {
            Phase::Attaching(attaching) if attaching.attempt == attached.attempt => attaching,
            other => {
                self.phase = other;
                return out.push(detach(&attached));
            }
        };
        self.deadline = None;
        if (attached.term, attached.tick) < attaching.shown {
            // An owner that is behind what this seat has seen (H7): another, or the same a little later.
            out.push(detach(&attached));
            out.push(Effect::Forget);
            let text = "the room's owner is behind what was shown";
            return out.push(error(attaching.id, ErrorCode::MayRetry, text, Some(RETRY_MS)));
        }
        let Some(known) = &self.known else { return };
        let resumed = attaching.resume.is_some();
        out.push(Effect::Ask(match attaching.resume {
            Some((session, token)) => Ask::Turn { session, token, seat: attached.seat },
            None => Ask::Open {
                player: known.player.clone(),
                room: attached.room.clone(),
                seat: attached.seat,
                options: attaching.options,
            },
        }));
        self.phase = Phase::Storing(Box::new(Storing { id: attaching.id, attached, resumed }));
    }

    pub(super) fn refused(
        &mut self,
        view: &View<'_>,
        attempt: u32,
        (code, message, retry_after): (ErrorCode, &str, Option<u32>),
        out: &mut Vec<Effect>,
    ) {
        let attaching = match std::mem::replace(&mut self.phase, Phase::Lobby) {
            Phase::Attaching(attaching) if attaching.attempt == attempt => attaching,
            // The answer to an attempt that was given up.
            other => return self.phase = other,
        };
        out.push(Effect::Forget);
        self.deadline = None;
        let Attaching { id, room, options, then, .. } = *attaching;
        match (then, code) {
            (Then::Create, ErrorCode::NoSuchRoom) => {
                if self.may_create(view, id, out) {
                    self.attach(view, Attaching::new(id, room, options, Then::Tell), Mode::JoinOrCreate, out);
                }
            }
            (Then::FindAnother(wish), ErrorCode::NoSuchRoom | ErrorCode::RoomFull | ErrorCode::RoomError) => {
                let wish = Wish { tries: wish.tries + 1, ..wish };
                if wish.tries < TRIES {
                    self.find(view, wish, out);
                } else if self.may_create(view, id, out) {
                    self.create_some(view, Wish { tries: 0, ..wish }, out);
                }
            }
            (Then::AnotherName(wish), ErrorCode::RoomExists) if wish.tries + 1 < TRIES => {
                self.create_some(view, Wish { tries: wish.tries + 1, ..wish }, out);
            }
            (Then::Tell | Then::Create | Then::FindAnother(_) | Then::AnotherName(_), code) => {
                out.push(error(id, code, message, retry_after));
            }
        }
    }

    /// The open request for a room is refused, and nothing else is tried.
    pub(super) fn refused_for_good(
        &mut self,
        code: ErrorCode,
        message: &str,
        retry_after: Option<u32>,
        out: &mut Vec<Effect>,
    ) {
        let id = match std::mem::replace(&mut self.phase, Phase::Lobby) {
            Phase::Finding(wish) => wish.id,
            Phase::Attaching(attaching) => attaching.id,
            other => return self.phase = other,
        };
        self.deadline = None;
        out.push(error(id, code, message, retry_after));
    }

    /// The store's answer.
    pub(in crate::gateway) fn stored(&mut self, view: &View<'_>, stored: Stored, out: &mut Vec<Effect>) {
        match (std::mem::replace(&mut self.phase, Phase::Lobby), stored) {
            // Whatever goes on now: the answer to an acknowledgement is nobody's but its own.
            (phase, Stored::Acknowledged) => self.phase = phase,
            (Phase::Loading(loading), Stored::Loaded(session)) => self.loaded(view, loading, session, out),
            (Phase::Loading(loading), _) => {
                out.push(error(loading.id, ErrorCode::MayRetry, "the store does not answer", Some(RETRY_MS)));
            }
            (Phase::Storing(storing), Stored::Kept { current, next }) => self.enter(*storing, current, next, out),
            (Phase::Storing(storing), _) => {
                out.push(storing.detach());
                out.push(Effect::Forget);
                out.push(error(storing.id, ErrorCode::MayRetry, "the store does not answer", Some(RETRY_MS)));
            }
            (Phase::Deleting { id }, _) => out.push(Effect::Send(encode(&ServerMessage::Left { id }))),
            (phase, _) => self.phase = phase,
        }
    }

    fn loaded(&mut self, view: &View<'_>, loading: Loading, session: Option<Session>, out: &mut Vec<Effect>) {
        let Some(session) = session else {
            self.failed_resumes += 1;
            out.push(error(loading.id, ErrorCode::ResumeFailed, "the session is unknown, or its token is wrong", None));
            if self.failed_resumes >= RESUMES {
                self.close(CloseCode::ResumeFailed, "too many resumes failed", out);
            }
            return;
        };
        let Loading { id, token, room, shown, first } = loading;
        let options = session.options.clone();
        let attaching =
            Attaching { shown, first, resume: Some((session, token)), ..Attaching::new(id, room, options, Then::Tell) };
        self.attach(view, attaching, Mode::Join, out);
    }

    fn enter(&mut self, storing: Storing, current: String, next: Option<String>, out: &mut Vec<Effect>) {
        let Storing { id, attached, resumed } = storing;
        let (term, tick) = (attached.term, attached.tick);
        let tokens = Tokens { current, next: next.clone() };
        let mut joined = Vec::with_capacity(256);
        ServerMessage::Joined(Joined {
            id,
            room: attached.room.clone(),
            seat: attached.seat,
            generation: attached.generation,
            session: tokens.current.clone(),
            term,
            tick,
            owed: attached.owed,
            tick_rate: attached.tick_rate,
            hash: attached.hash,
            table: attached.table.as_deref().cloned(),
        })
        .encode(&mut joined);
        if attached.rolled_back {
            ServerMessage::RolledBack { term, tick }.encode(&mut joined);
        }
        let mut room = InRoom::new(&attached, tokens, resumed);
        let offer = next.as_deref().map(|session| encode(&ServerMessage::Session { session }));
        out.push(Effect::Enter {
            resumed,
            joined: joined.into(),
            snapshot: attached.snapshot,
            after: offer.unwrap_or_default(),
        });
        room.unacknowledged = next;
        if let Some(known) = &mut self.known {
            // The client has this table now.
            known.table = Some(attached.hash);
        }
        self.phase = Phase::Room(room);
    }
}

impl Attaching {
    pub(super) fn new(id: u32, room: RoomId, options: Bytes, then: Then) -> Self {
        Self { id, room, options, resume: None, shown: (Term(0), Tick(0)), first: Seq(1), then, attempt: 0 }
    }
}
