//! Asking a room's owner for a seat that this connection does not have: whom, how often, and when to give up.
//!
//! A client that resumes says what it was shown. Nothing older may follow (H7), so an owner below that is not shown; but it is the client's
//! word alone: it moves nobody but the own directory, which is read anew and waited for.

use std::time::Duration;

use bytes::Bytes;
use tenure_shared::{RoomId, SeatId, Seq, Term, Tick, codes::ErrorCode, wire::ServerMessage};

use super::{Effect, Machine, Phase, View, find::Wish};
use crate::{
    gateway::{conn::encode, router::pause},
    link::{Attach, Mode},
    runtime::Mono,
    store::Session,
};

/// How long the node may take for an answer.
pub(super) const ANSWER: Duration = Duration::from_secs(10);
/// How long it is tried to give the attach to a node whose queue is full.
const BUSY: Duration = Duration::from_secs(1);
/// How long a resume that claims to have seen a higher term than the directory's waits for the directory, before the owner is asked.
const ROUTE_TIME: Duration = Duration::from_secs(2);
/// How often it looks.
const ROUTE_LOOK: Duration = Duration::from_millis(50);

/// What is tried when the node refuses.
#[derive(Debug)]
pub(super) enum Then {
    /// The client is told.
    Tell,
    /// The named room does not exist: it is created.
    Create,
    /// The room that was found is full or gone: another.
    FindAnother(Wish),
    /// The room that the coordinator named is full or gone: it is asked again.
    SeekAnother(Wish),
    /// The room that the coordinator named for another is not there yet: it is made; else the same.
    MakeOrSeek(Wish),
    /// The generated name exists: another.
    AnotherName(Wish),
}

/// The node is asked for a seat.
#[derive(Debug)]
pub(super) struct Attaching {
    pub(super) id: u32,
    pub(super) room: RoomId,
    pub(super) options: Bytes,
    /// What the room begins with if it is made for this.
    pub(super) metadata: Bytes,
    /// Session and token with which it is resumed.
    pub(super) resume: Option<(Session, String)>,
    pub(super) shown: (Term, Tick),
    pub(super) first: Seq,
    /// The client's count of its resumes, 0 if it joins or does not count.
    pub(super) resumes: u32,
    pub(super) then: Then,
    pub(super) mode: Mode,
    /// Number of the attach, for its answer.
    pub(super) attempt: u32,
    /// When the first of them was sent.
    pub(super) begun: Mono,
    /// Attaches that nobody took or that an owner refused who is none.
    pub(super) tries: u32,
    /// When the next one is sent, if none is open.
    pub(super) again_at: Option<Mono>,
    /// Until when the directory is waited for, which is behind what the client says it was shown.
    pub(super) route_by: Option<Mono>,
    /// An owner answered that is behind what the client says it was shown.
    pub(super) behind: bool,
}

/// What a node says of an attach that it refuses.
#[derive(Clone, Copy)]
pub(super) struct Refusal<'a> {
    pub(super) code: ErrorCode,
    /// The game's own word in its place.
    pub(super) word: Option<&'a str>,
    pub(super) message: &'a str,
    pub(super) retry_after: Option<u32>,
}

impl Refusal<'_> {
    /// The answer to the request.
    pub(super) fn error(&self, id: u32) -> Effect {
        let Refusal { code, word, message, retry_after } = *self;
        let code = word.unwrap_or(code.as_str());
        Effect::Send(encode(&ServerMessage::Error { id, code, message, retry_after }))
    }
}

impl Machine {
    /// Asks for a seat, for the first time.
    pub(super) fn attach(&mut self, view: &View<'_>, attaching: Attaching, mode: Mode, out: &mut Vec<Effect>) {
        self.deadline = Some(view.now.plus(ANSWER));
        let mut attaching = Attaching { mode, begun: view.now, tries: 0, again_at: None, ..attaching };
        // An owner that is no longer one would seat the player in a world that is over.
        attaching.route_by = attaching.is_ahead(view).then(|| view.now.plus(ROUTE_TIME));
        self.attach_or_look(view, Box::new(attaching), out);
    }

    /// Asks for a seat, unless the directory is behind and still waited for.
    pub(super) fn attach_or_look(&mut self, view: &View<'_>, mut attaching: Box<Attaching>, out: &mut Vec<Effect>) {
        if attaching.route_by.is_some_and(|by| view.now < by) && attaching.is_ahead(view) {
            view.directory.refresh();
            attaching.again_at = Some(view.now.plus(ROUTE_LOOK));
            self.phase = Phase::Attaching(attaching);
        } else {
            attaching.route_by = None;
            self.attach_now(view, attaching, out);
        }
    }

    /// Asks for a seat, for the first time or once more.
    fn attach_now(&mut self, view: &View<'_>, mut attaching: Box<Attaching>, out: &mut Vec<Effect>) {
        let Some(known) = &self.known else { return };
        self.attempt = self.attempt.wrapping_add(1);
        (attaching.attempt, attaching.again_at) = (self.attempt, None);
        let attach = Attach {
            gateway: view.gateway,
            conn: view.conn,
            attempt: attaching.attempt,
            room: attaching.room.clone(),
            mode: attaching.mode,
            player: known.player.clone(),
            options: attaching.options.clone(),
            metadata: attaching.metadata.clone(),
            seat: attaching.resume.as_ref().map(|(session, _)| SeatId(session.seat)),
            rejoin: false,
            generation: tenure_shared::Generation(0),
            resumes: attaching.resumes,
            first: attaching.first,
            shown: attaching.shown,
            table: known.table,
        };
        out.push(Effect::Attach { attach: Box::new(attach), again: false });
        self.phase = Phase::Attaching(attaching);
    }

    /// The attach of this number will not be answered, or not by an owner that can be. `lost`: it may have been carried out.
    pub(in crate::gateway) fn again(&mut self, view: &View<'_>, attempt: u32, lost: bool, out: &mut Vec<Effect>) {
        let Phase::Attaching(attaching) = &mut self.phase else {
            return self.between_again(view, attempt, Duration::ZERO);
        };
        if attaching.attempt != attempt || attaching.again_at.is_some() {
            return;
        }
        if lost && attaching.mode == Mode::Create {
            // Asked again, the room that it made would be in its own way.
            return self.not_taken(out);
        }
        attaching.again_at = Some(view.now.plus(pause(attaching.tries, view.rng)));
        attaching.tries = attaching.tries.saturating_add(1);
    }

    /// The owner that answered the attach of this number is behind what was shown. Of a seat that changes hands the gateway knows that
    /// itself, and has told the owner; a client that resumes only says so, which moves nobody but the own directory.
    pub(in crate::gateway) fn behind(&mut self, view: &View<'_>, attempt: u32, out: &mut Vec<Effect>) {
        if let Phase::Attaching(attaching) = &mut self.phase
            && attaching.attempt == attempt
        {
            attaching.behind = true;
            view.directory.refresh();
        }
        self.again(view, attempt, false, out);
    }

    /// What the client says it was shown is above what nodes and directory know, to the last: nothing of that time can be found.
    pub(super) fn is_unheard_of(&self, view: &View<'_>) -> bool {
        matches!(&self.phase, Phase::Attaching(attaching) if attaching.behind && attaching.is_ahead(view))
    }

    /// Nobody took the attach of this number. `busy`: its owner is reached, and has no room for it.
    pub(in crate::gateway) fn not_attached(
        &mut self,
        view: &View<'_>,
        attempt: u32,
        busy: bool,
        out: &mut Vec<Effect>,
    ) {
        match &self.phase {
            Phase::Attaching(attaching) if busy && view.now.since(attaching.begun) >= BUSY => self.not_taken(out),
            _ => self.again(view, attempt, false, out),
        }
    }
}

impl Attaching {
    pub(super) fn new(id: u32, room: RoomId, options: Bytes, then: Then) -> Self {
        Self {
            id,
            room,
            options,
            metadata: Bytes::new(),
            resume: None,
            shown: (Term(0), Tick(0)),
            first: Seq(1),
            resumes: 0,
            then,
            mode: Mode::Join,
            attempt: 0,
            begun: Mono(0),
            tries: 0,
            again_at: None,
            route_by: None,
            behind: false,
        }
    }

    /// Whether the directory knows no term as high as the client says it was shown. One without terms (0) knows nothing.
    fn is_ahead(&self, view: &View<'_>) -> bool {
        let owner = view.directory.owner(self.room.shard(view.directory.shards()));
        owner.is_some_and(|owner| owner.term != Term(0) && owner.term < self.shown.0)
    }
}
