//! What a connection does, without I/O: messages, notes of the node and answers of the store go in, effects come out.
//!
//! ```text
//! hello ─► lobby ─► finding ─► attaching ─► storing ─► room ─► leaving ─► lobby
//!            └─► loading (resume) ──┘ ▲                 │ ▲
//!                                     │         between owners
//!                                     └── refused: lobby, or the next thing to try
//! ```
//! One request of a room is open at a time; a ping is answered in every state. `joined` is sent only after the session record
//! is stored. The driver ([`super::task`]) carries out the effects in order and hands back what comes of them.

mod attaching;
mod between;
mod effect;
mod enter;
mod find;
mod room;
mod seek;

use bytes::Bytes;
use tenure_shared::{
    PlayerId,
    codes::{CloseCode, ErrorCode},
    limits, msgpack,
    wire::{ClientMessage, ClientMessages, ServerMessage, Welcome},
};

use attaching::{Attaching, Refusal};
pub(super) use effect::{Ask, Effect, Stored, Tokens};
pub(super) use enter::detach;
use enter::{Loading, Storing};
use find::Finding;
use room::InRoom;
use seek::{ListWish, Listing, Seeking};

use super::{
    auth::Auth,
    conn::encode,
    rate::{Creates, Gcra},
};
use crate::{
    link::{ConnId, Directory, GatewayId, ToGateway},
    runtime::{Mono, Rng, Wall},
};

/// Failed resumes after which a socket is closed with 4003.
const RESUMES: u32 = 3;

/// What is the same for all connections of a gateway.
pub(super) struct Rules {
    /// Node name, shown in `welcome`.
    pub(super) server: String,
    /// Region of rooms that are asked for without one.
    pub(super) region: String,
    /// Regions that have a coordinator.
    pub(super) coordinated: Vec<String>,
    pub(super) ping_ms: u32,
    pub(super) idle_ms: u32,
    pub(super) client_message: u32,
    pub(super) rate: u32,
    pub(super) form: msgpack::Bounds,
}

/// What a step may look at beside its event.
pub(super) struct View<'a> {
    pub(super) rules: &'a Rules,
    pub(super) auth: &'a Auth,
    pub(super) creates: &'a Creates,
    pub(super) rng: &'a Rng,
    pub(super) directory: &'a dyn Directory,
    pub(super) gateway: GatewayId,
    pub(super) conn: ConnId,
    /// Whether the client is on this machine.
    pub(super) loopback: bool,
    pub(super) now: Mono,
    pub(super) wall: Wall,
}

/// Who is at the other end.
#[derive(Clone, Debug)]
struct Known {
    player: PlayerId,
    /// Seconds since 1970 after which the token opens nothing more.
    expires: Option<u64>,
    /// What his token claims, for the game; empty for a guest.
    claims: Bytes,
    /// Hash of the name table that the client has.
    table: Option<u64>,
}

#[derive(Debug)]
enum Phase {
    /// Nothing was said yet.
    Hello,
    /// Logged in, in no room.
    Lobby,
    /// Nodes are asked for a room.
    Finding(Box<Finding>),
    /// The coordinator is asked for a room.
    Seeking(Box<Seeking>),
    /// The session record is being read.
    Loading(Loading),
    /// The node is asked for the seat.
    Attaching(Box<Attaching>),
    /// The session record is being written.
    Storing(Box<Storing>),
    /// In a room.
    Room(InRoom),
    /// The node is told that the player leaves.
    Leaving { id: u32, room: InRoom },
    /// The session record is being deleted.
    Deleting { id: u32 },
    /// Closed by us; nothing counts any more.
    Over,
}

/// A connection's state.
#[derive(Debug)]
pub(super) struct Machine {
    phase: Phase,
    known: Option<Known>,
    failed_resumes: u32,
    /// Number of the last attach.
    attempt: u32,
    /// When the request that is open is given up.
    deadline: Option<Mono>,
    /// A list of rooms that the client waits for, in whatever phase.
    listing: Option<Listing>,
    lists: Gcra,
    wishes: Gcra,
}

impl Machine {
    pub(super) fn new() -> Self {
        Self {
            phase: Phase::Hello,
            known: None,
            failed_resumes: 0,
            attempt: 0,
            deadline: None,
            listing: None,
            lists: seek::list_rate(),
            wishes: seek::wish_rate(),
        }
    }

    /// When [`Machine::timeout`] is to be called.
    pub(super) fn deadline(&self) -> Option<Mono> {
        let due = match &self.phase {
            Phase::Finding(finding) => Some(finding.due()),
            Phase::Seeking(seeking) => Some(seeking.due()),
            Phase::Attaching(attaching) => attaching.again_at,
            Phase::Room(room) | Phase::Leaving { room, .. } => room.between.as_ref().map(between::Between::due),
            _ => None,
        };
        let listing = self.listing.as_ref().map(Listing::due);
        [self.deadline, due, listing].into_iter().flatten().min()
    }

    /// A WebSocket message: one or more messages back to back, each counted. Answers how many there were.
    pub(super) fn receive(&mut self, view: &View<'_>, rate: &mut Gcra, bytes: &Bytes, out: &mut Vec<Effect>) -> u64 {
        let mut count = 0;
        for message in ClientMessages::new(bytes, &view.rules.form) {
            count += 1;
            if rate.take(view.now, 1).is_err() {
                self.too_fast("messages", out);
                break;
            }
            match message {
                Ok(message) => self.message(view, message, bytes, out),
                Err(error) => self.broken(&error.to_string(), out),
            }
            if matches!(self.phase, Phase::Over) {
                break;
            }
        }
        if count == 0 {
            self.broken("an empty message", out);
        }
        count
    }

    /// The client sends more than its limits allow.
    pub(super) fn too_fast(&mut self, what: &str, out: &mut Vec<Effect>) {
        self.close(CloseCode::RateLimited, &format!("too many {what} per second"), out);
    }

    fn message(&mut self, view: &View<'_>, message: ClientMessage<'_>, whole: &Bytes, out: &mut Vec<Effect>) {
        if !matches!(message, ClientMessage::Hello { .. }) && self.known.is_none() {
            return self.broken("hello must come first", out);
        }
        match message {
            ClientMessage::Hello { protocol, token, table } => self.hello(view, protocol, token, table, out),
            ClientMessage::JoinOrCreate { id, wanted, options } => {
                self.join_or_create(view, id, &wanted, whole.slice_ref(options), out);
            }
            ClientMessage::Create { id, wanted, options } => {
                self.create(view, id, &wanted, whole.slice_ref(options), out);
            }
            ClientMessage::Join { id, room, options } => self.join(view, id, room, whole.slice_ref(options), out),
            ClientMessage::Resume { id, room, session, shown, first, resumes } => {
                let token = session.to_owned();
                self.resume(view, Loading { id, token, room, shown, first, resumes }, out);
            }
            ClientMessage::Leave { id } => self.leave(id, view, out),
            ClientMessage::Message { seq, kind, payload } => {
                self.input(seq, None, kind, whole.slice_ref(payload), out);
            }
            ClientMessage::Request { seq, id, kind, payload } => {
                self.input(seq, Some(id), kind, whole.slice_ref(payload), out);
            }
            ClientMessage::Ping { id } => {
                out.push(Effect::Send(encode(&ServerMessage::Pong { id, time: view.wall.millis() })));
            }
            ClientMessage::SessionAck { session } => self.acknowledge(session, out),
            ClientMessage::Resync => self.resync(view, out),
            ClientMessage::Table { hash } => self.speaks(hash, out),
            ClientMessage::Rooms { id, kind, region, filter, open, after, limit } => {
                self.list(view, id, ListWish { kind, region, filter, open, after, limit }, out);
            }
        }
    }

    fn hello(
        &mut self,
        view: &View<'_>,
        protocol: u32,
        token: Option<&str>,
        table: Option<u64>,
        out: &mut Vec<Effect>,
    ) {
        if self.known.is_some() {
            return self.broken("hello came twice", out);
        }
        if protocol != limits::PROTOCOL {
            let text = format!("protocol {protocol} asked for, this server speaks {}", limits::PROTOCOL);
            return self.broken(&text, out);
        }
        let login = match view.auth.login(token, view.loopback, view.wall, view.rng) {
            Ok(login) => login,
            Err(reason) => return self.close(CloseCode::Unauthorised, reason, out),
        };
        self.known =
            Some(Known { player: login.player.clone(), expires: login.expires, claims: login.claims.clone(), table });
        self.phase = Phase::Lobby;
        out.push(Effect::LoggedIn);
        out.push(Effect::Send(encode(&ServerMessage::Welcome(Welcome {
            protocol: limits::PROTOCOL,
            player: login.player,
            token: login.keep,
            server: view.rules.server.clone(),
            ping: view.rules.ping_ms,
            idle: view.rules.idle_ms,
            bytes: view.rules.client_message,
            rate: view.rules.rate,
        }))));
    }

    /// A note of the node.
    pub(super) fn node(&mut self, view: &View<'_>, note: ToGateway, out: &mut Vec<Effect>) {
        match note {
            ToGateway::Found { attempt, room, new, .. } => self.found(view, attempt, (room, new), out),
            ToGateway::Answered { attempt, answer, .. } => self.answered(view, attempt, answer.as_ref(), out),
            ToGateway::Attached(attached) => self.attached(attached, out),
            ToGateway::NotOwner { attempt, .. } => self.again(view, attempt, false, out),
            ToGateway::Refused { attempt, code, word, message, retry_after, .. } => {
                let refusal = Refusal { code, word: word.as_deref(), message: &message, retry_after };
                self.refused(view, attempt, refusal, out);
            }
            ToGateway::Left { .. } => self.left(out),
            ToGateway::Close { code, reason, .. } => self.closed_by_room(code, &reason, out),
            // These go to the connection itself, in order with its frames.
            ToGateway::Frame(_) | ToGateway::Snapshot { .. } | ToGateway::Restored { .. } => {}
            ToGateway::Moved { .. } | ToGateway::Gone { .. } => {}
        }
    }

    /// The node did not take the request for a room: its queue is full, or it is gone.
    pub(super) fn not_taken(&mut self, out: &mut Vec<Effect>) {
        out.push(Effect::Forget);
        self.refused_for_good(ErrorCode::MayRetry, "the server is busy", Some(enter::RETRY_MS), out);
    }

    /// A time that [`Machine::deadline`] said has come.
    pub(super) fn timeout(&mut self, view: &View<'_>, out: &mut Vec<Effect>) {
        if let Some(listing) = self.listing.take_if(|listing| view.now >= listing.due()) {
            self.list_on(view, listing, out);
        }
        if self.deadline.is_some_and(|by| view.now >= by) {
            return self.given_up(view, out);
        }
        match std::mem::replace(&mut self.phase, Phase::Lobby) {
            Phase::Finding(finding) if view.now >= finding.due() => self.find_on(view, *finding, out),
            Phase::Seeking(seeking) if view.now >= seeking.due() => self.seek_on(view, *seeking, out),
            Phase::Attaching(attaching) if attaching.again_at.is_some_and(|at| view.now >= at) => {
                self.attach_or_look(view, attaching, out);
            }
            phase @ (Phase::Room(_) | Phase::Leaving { .. }) => {
                self.phase = phase;
                self.between_due(view, out);
            }
            other => self.phase = other,
        }
    }

    /// The open request has taken too long.
    fn given_up(&mut self, view: &View<'_>, out: &mut Vec<Effect>) {
        self.deadline = None;
        match &self.phase {
            Phase::Attaching(_) if self.is_unheard_of(view) => {
                out.push(Effect::Forget);
                let text = "nobody knows the term that was shown";
                self.refused_for_good(ErrorCode::ResumeFailed, text, None, out);
                self.failed_resume(out);
            }
            Phase::Finding(_) | Phase::Seeking(_) | Phase::Attaching(_) => {
                out.push(Effect::Forget);
                self.refused_for_good(ErrorCode::MayRetry, "no answer in time", Some(enter::RETRY_MS), out);
            }
            // The node has the detach, or will get it: the seat ends in its grace at the latest.
            Phase::Leaving { .. } => self.left(out),
            _ => {}
        }
    }

    /// The socket is gone: gives the seat up to its grace. Between owners nobody has it, and it is in its grace where it is next.
    pub(super) fn gone(&mut self, out: &mut Vec<Effect>) {
        match std::mem::replace(&mut self.phase, Phase::Over) {
            Phase::Room(room) => out.extend(room.give_up()),
            Phase::Storing(storing) => out.push(storing.detach()),
            Phase::Leaving { .. }
            | Phase::Hello
            | Phase::Lobby
            | Phase::Finding(_)
            | Phase::Seeking(_)
            | Phase::Loading(_)
            | Phase::Attaching(_)
            | Phase::Deleting { .. }
            | Phase::Over => {}
        }
    }

    /// The gateway goes away: the client is to have its seat at another before it leaves this one.
    pub(super) fn move_to(&self, urls: &[String], after: u32, out: &mut Vec<Effect>) {
        let urls = urls.iter().map(String::as_str).collect();
        out.push(Effect::Send(encode(&ServerMessage::Move { urls, after })));
    }

    /// The gateway goes away, and the client is still here: the hint comes first, then the close.
    pub(super) fn go_away(&mut self, retry: Option<u32>, out: &mut Vec<Effect>) {
        let Some(retry) = retry else {
            return self.close(CloseCode::Moving, "this server goes away; another has your seat", out);
        };
        let text = format!("the server restarts; come back in {retry} ms");
        out.push(error(0, ErrorCode::MayRetry, &text, Some(retry)));
        self.close(CloseCode::Restart, &text, out);
    }

    fn broken(&mut self, why: &str, out: &mut Vec<Effect>) {
        self.close(CloseCode::ProtocolError, why, out);
    }

    /// Closes the socket and gives the seat up to its grace.
    pub(super) fn close(&mut self, code: CloseCode, reason: &str, out: &mut Vec<Effect>) {
        if matches!(self.phase, Phase::Over) {
            return;
        }
        self.gone(out);
        out.push(Effect::Close(code, reason.to_owned()));
    }

    fn bad_state(id: u32, message: &str, out: &mut Vec<Effect>) {
        out.push(error(id, ErrorCode::BadState, message, None));
    }

    /// The login still stands; else the socket is closed.
    fn check_login(&mut self, view: &View<'_>, out: &mut Vec<Effect>) -> Option<Known> {
        let known = self.known.clone()?;
        if known.expires.is_some_and(|at| view.auth.is_past(at, view.wall)) {
            self.close(CloseCode::Unauthorised, "the token has expired", out);
            return None;
        }
        Some(known)
    }
}

/// Answer to a request that was refused.
fn error(id: u32, code: ErrorCode, message: &str, retry_after: Option<u32>) -> Effect {
    Effect::Send(encode(&ServerMessage::Error { id, code: code.as_str(), message, retry_after }))
}

#[cfg(test)]
mod tests;
