//! Into a room: join, resume; attach, then store the session, then say `joined`.

use std::time::Duration;

use bytes::Bytes;
use tenure_shared::{
    RoomId, Seq, Term, Tick,
    codes::{CloseCode, ErrorCode},
    limits,
    wire::{Joined, ServerMessage},
};

use super::{
    Ask, Effect, Machine, Phase, RESUMES, Stored, Tokens, View,
    attaching::{Attaching, Refusal, Then},
    between::Between,
    error,
    find::{TRIES, Wish},
    room::InRoom,
};
use crate::{
    gateway::conn::encode,
    link::{Attached, Mode, ToNode},
    store::Session,
};

/// When a passing fault may be tried again.
pub(super) const RETRY_MS: u32 = 500;

/// A session record is being read.
#[derive(Debug)]
pub(super) struct Loading {
    pub(super) id: u32,
    pub(super) token: String,
    pub(super) room: RoomId,
    pub(super) shown: (Term, Tick),
    pub(super) first: Seq,
    /// The client's count of its resumes.
    pub(super) resumes: u32,
}

/// The session record is being written.
#[derive(Debug)]
pub(super) struct Storing {
    id: u32,
    attached: Attached,
    options: Bytes,
    resumed: bool,
    /// The client's count of its resumes, 0 if it joined or does not count.
    resumes: u32,
    /// The seat is no longer where it was attached.
    pub(super) off: bool,
}

impl Storing {
    pub(super) fn detach(&self) -> Effect {
        Effect::GiveUp(detach(&self.attached))
    }
}

pub(in crate::gateway) fn detach(attached: &Attached) -> ToNode {
    let (room, seat, generation) = (attached.room.clone(), attached.seat, attached.generation);
    ToNode::Detach { room, seat, generation, consented: false }
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
            let options = self.with_claims(options);
            self.attach(view, Attaching::new(id, room, options, Then::Tell), Mode::Join, out);
        }
    }

    /// Join options with what the login token claims behind them: a room and a session record keep both as one.
    pub(super) fn with_claims(&self, options: Bytes) -> Bytes {
        match &self.known {
            Some(known) if !known.claims.is_empty() => [&options[..], &known.claims[..]].concat().into(),
            _ => options,
        }
    }

    pub(super) fn resume(&mut self, view: &View<'_>, loading: Loading, out: &mut Vec<Effect>) {
        if !self.may_enter(view, loading.id, &[], out) {
            return;
        }
        let Some(known) = &self.known else { return };
        let (player, room, token) = (known.player.clone(), loading.room.clone(), loading.token.clone());
        out.push(Effect::Ask(Ask::Load { player, room, token }));
        self.phase = Phase::Loading(loading);
    }

    pub(super) fn attached(&mut self, attached: Attached, out: &mut Vec<Effect>) {
        if self.between_over(&attached, out) {
            return;
        }
        let attaching = match std::mem::replace(&mut self.phase, Phase::Lobby) {
            Phase::Attaching(attaching) if attaching.attempt == attached.attempt && attaching.again_at.is_none() => {
                attaching
            }
            other => {
                self.phase = other;
                return out.push(Effect::GiveBack(detach(&attached)));
            }
        };
        self.deadline = None;
        let Some(known) = &self.known else { return };
        let (resumed, resumes) = (attaching.resume.is_some(), attaching.resumes);
        let options = attaching.options;
        out.push(Effect::Ask(match attaching.resume {
            Some((session, token)) => Ask::Turn { session, token, seat: attached.seat },
            None => Ask::Open {
                player: known.player.clone(),
                room: attached.room.clone(),
                seat: attached.seat,
                options: options.clone(),
            },
        }));
        self.phase =
            Phase::Storing(Box::new(Storing { id: attaching.id, attached, options, resumed, resumes, off: false }));
    }

    pub(super) fn refused(&mut self, view: &View<'_>, attempt: u32, refusal: Refusal<'_>, out: &mut Vec<Effect>) {
        let Refusal { code, message, retry_after, .. } = refusal;
        if self.between_refused(view, attempt, (code, message, retry_after), out) {
            return;
        }
        let attaching = match std::mem::replace(&mut self.phase, Phase::Lobby) {
            Phase::Attaching(attaching) if attaching.attempt == attempt && attaching.again_at.is_none() => attaching,
            // The answer to an attempt that was given up.
            other => return self.phase = other,
        };
        out.push(Effect::Forget);
        self.deadline = None;
        let Attaching { id, room, options, metadata, then, .. } = *attaching;
        match (then, refusal.code) {
            (Then::Create, ErrorCode::NoSuchRoom) => {
                if self.may_create(view, id, out) {
                    let attaching = Attaching { metadata, ..Attaching::new(id, room, options, Then::Tell) };
                    self.attach(view, attaching, Mode::JoinOrCreate, out);
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
            (Then::MakeOrSeek(wish), ErrorCode::NoSuchRoom) => {
                if self.may_create(view, id, out) {
                    let then = Then::SeekAnother(wish);
                    let attaching = Attaching { metadata, ..Attaching::new(id, room, options, then) };
                    self.attach(view, attaching, Mode::JoinOrCreate, out);
                }
            }
            (
                Then::SeekAnother(wish) | Then::MakeOrSeek(wish),
                ErrorCode::NoSuchRoom | ErrorCode::RoomFull | ErrorCode::RoomError | ErrorCode::Limit,
            ) => self.seek_another(view, wish, (room, code), out),
            (Then::AnotherName(wish), ErrorCode::RoomExists) if wish.tries + 1 < TRIES => {
                self.create_some(view, Wish { tries: wish.tries + 1, ..wish }, out);
            }
            _ => out.push(refusal.error(id)),
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
            Phase::Finding(finding) => finding.wish.id,
            Phase::Seeking(seeking) => seeking.wish.id,
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
            (Phase::Storing(storing), Stored::Kept { current, next }) => self.enter(view, *storing, current, next, out),
            (Phase::Storing(storing), _) => {
                out.push(storing.detach());
                out.push(Effect::Forget);
                out.push(error(storing.id, ErrorCode::MayRetry, "the store does not answer", Some(RETRY_MS)));
            }
            (Phase::Deleting { id }, _) => out.push(Effect::Send(encode(&ServerMessage::Left { id }))),
            (phase, _) => self.phase = phase,
        }
    }

    pub(super) fn failed_resume(&mut self, out: &mut Vec<Effect>) {
        self.failed_resumes += 1;
        if self.failed_resumes >= RESUMES {
            self.close(CloseCode::ResumeFailed, "too many resumes failed", out);
        }
    }

    fn loaded(&mut self, view: &View<'_>, loading: Loading, session: Option<Session>, out: &mut Vec<Effect>) {
        let Some(session) = session else {
            out.push(error(loading.id, ErrorCode::ResumeFailed, "the session is unknown, or its token is wrong", None));
            return self.failed_resume(out);
        };
        let Loading { id, token, room, shown, first, resumes } = loading;
        let options = session.options.clone();
        let resume = Some((session, token));
        let attaching = Attaching { shown, first, resumes, resume, ..Attaching::new(id, room, options, Then::Tell) };
        self.attach(view, attaching, Mode::Join, out);
    }

    fn enter(
        &mut self,
        view: &View<'_>,
        storing: Storing,
        current: String,
        next: Option<String>,
        out: &mut Vec<Effect>,
    ) {
        let Storing { id, attached, options, resumed, resumes, off } = storing;
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
        let mut room = InRoom::new(&attached, &options, tokens, resumed.then_some(resumes));
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
        room.between = off.then(|| Between::new(view));
        self.phase = Phase::Room(room);
    }
}
