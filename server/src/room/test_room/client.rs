//! A fake client and the part of a gateway that it needs: a view, a ring of unsaved inputs, what it was sent.

use std::collections::{BTreeMap, VecDeque};

use bytes::Bytes;
use tenure_shared::{
    Generation, PlayerId, RoomId, SeatId, Seq, Term, Tick,
    codes::CloseCode,
    delta::View,
    msgpack::Bounds,
    wire::{ServerMessage, ServerMessages},
};

use crate::link::{Attached, ConnId, Input, ToGateway};

pub(super) struct Client {
    pub(super) player: PlayerId,
    pub(super) options: Bytes,
    pub(super) conn: ConnId,
    pub(super) seat: Option<SeatId>,
    pub(super) generation: Generation,
    pub(super) connected: bool,
    pub(super) view: View,
    pub(super) shown: (Term, Tick),
    pub(super) marks: (Seq, Seq),
    last: Seq,
    unsaved: VecDeque<Input>,
    owed: Seq,
    pub(super) next_request: u32,
    pub(super) replies: BTreeMap<u32, Result<Bytes, (String, String)>>,
    pub(super) events: Vec<(u16, Bytes)>,
    pub(super) refused: Vec<(Seq, String, String)>,
    pub(super) granted: Vec<(String, Vec<(String, i64)>)>,
    pub(super) closed: Option<(CloseCode, String)>,
}

impl Client {
    pub(super) fn new(player: PlayerId, options: Bytes) -> Self {
        Self {
            player,
            options,
            conn: ConnId(0),
            seat: None,
            generation: Generation(0),
            connected: false,
            view: View::default(),
            shown: (Term(0), Tick(0)),
            marks: (Seq(0), Seq(0)),
            last: Seq(0),
            unsaved: VecDeque::new(),
            owed: Seq(1),
            next_request: 0,
            replies: BTreeMap::new(),
            events: Vec::new(),
            refused: Vec::new(),
            granted: Vec::new(),
            closed: None,
        }
    }

    /// First number that it still has.
    pub(super) fn first(&self) -> Seq {
        self.unsaved.front().map_or(Seq(self.last.0 + 1), |input| input.seq)
    }

    pub(super) fn attached(&mut self, attached: &Attached) {
        self.conn = attached.conn;
        self.seat = Some(attached.seat);
        self.generation = attached.generation;
        self.connected = true;
        self.closed = None;
        self.owed = attached.owed;
        // A client that starts anew numbers from what the room wants.
        self.last = self.last.max(Seq(attached.owed.0 - 1));
        self.view = snapshot(&attached.snapshot);
        self.shown = (attached.term, attached.tick);
    }

    /// Inputs to send again, from the number owed.
    pub(super) fn resend(&mut self) -> Vec<Input> {
        let (Some(seat), generation, owed) = (self.seat, self.generation, self.owed) else { return Vec::new() };
        let again = self.unsaved.iter_mut().filter(|input| input.seq >= owed);
        again
            .map(|input| {
                (input.seat, input.generation) = (seat, generation);
                input.clone()
            })
            .collect()
    }

    /// Numbers an input and keeps it until it is saved.
    pub(super) fn number(&mut self, room: RoomId, kind: u16, request: Option<u32>, payload: Bytes) -> Input {
        self.last.0 += 1;
        let (seat, generation, seq) = (self.seat.unwrap_or_default(), self.generation, self.last);
        let input = Input { room, seat, generation, seq, request, kind, payload };
        self.unsaved.push_back(input.clone());
        input
    }

    fn saved(&mut self, saved: Seq) {
        while self.unsaved.front().is_some_and(|input| input.seq <= saved) {
            self.unsaved.pop_front();
        }
    }

    fn read(&mut self, bytes: &[u8]) {
        for message in ServerMessages::new(bytes, &Bounds::SERVER) {
            match message.expect("a message of the protocol") {
                ServerMessage::Frame { term, tick, ops } => {
                    assert!((term, tick) > self.shown, "a frame went back (H7)");
                    self.shown = (term, tick);
                    self.view.apply(ops).expect("operations");
                }
                ServerMessage::Quiet { term, tick } => {
                    assert!((term, tick) > self.shown, "a frame went back (H7)");
                    self.shown = (term, tick);
                }
                ServerMessage::Tail { applied, saved, ops } => {
                    self.marks = (applied, saved);
                    self.view.apply(ops).expect("operations");
                }
                ServerMessage::Message { kind, payload } => self.events.push((kind, Bytes::copy_from_slice(payload))),
                ServerMessage::Reply { id, payload } => {
                    let before = self.replies.insert(id, Ok(Bytes::copy_from_slice(payload)));
                    assert!(before.is_none(), "request {id} was answered twice");
                }
                ServerMessage::Error { id, code, message, .. } => {
                    let before = self.replies.insert(id, Err((code.to_owned(), message.to_owned())));
                    assert!(before.is_none(), "request {id} was answered twice");
                }
                ServerMessage::Refused { seq, code, message } => {
                    self.refused.push((seq, code.to_owned(), message.to_owned()));
                }
                ServerMessage::Granted(granted) => self.granted.push((granted.source, granted.grants)),
                other => panic!("a room does not send {other:?}"),
            }
        }
    }
}

/// A view from an encoded `[7, …]`.
pub(super) fn snapshot(bytes: &[u8]) -> View {
    let mut view = View::default();
    match ServerMessages::new(bytes, &Bounds::SERVER).next() {
        Some(Ok(ServerMessage::Snapshot { ops, .. })) => view.snapshot(ops).expect("operations"),
        other => panic!("not a snapshot: {other:?}"),
    }
    view
}

/// Hands a message to those it is for; gives back the inputs that they send again.
pub(super) fn give(clients: &mut [Client], message: &ToGateway) -> Vec<(usize, Vec<Input>)> {
    let mut again = Vec::new();
    match message {
        ToGateway::Frame(frame) => {
            for member in &frame.members {
                let Some((_, client)) = find(clients, member.conn) else { continue };
                client.read(&frame.body);
                client.read(&frame.tails[member.start as usize..member.end as usize]);
                client.shown = client.shown.max((frame.term, frame.tick));
                client.saved(member.saved);
            }
        }
        ToGateway::Snapshot { conn, term, tick, bytes } => {
            if let Some((_, client)) = find(clients, *conn) {
                client.view = snapshot(bytes);
                client.shown = (*term, *tick);
            }
        }
        ToGateway::Restored { term, tick, members, .. } => {
            for member in members {
                let Some((index, client)) = find(clients, member.conn) else { continue };
                client.view = snapshot(&member.snapshot);
                client.shown = (*term, *tick);
                client.owed = member.owed;
                client.generation = member.generation;
                again.push((index, client.resend()));
            }
        }
        ToGateway::Close { conn, code, reason } => {
            if let Some((_, client)) = find(clients, *conn) {
                client.closed = Some((*code, reason.clone()));
                client.connected = false;
            }
        }
        ToGateway::Left { .. } => {}
        ToGateway::Found { .. }
        | ToGateway::Answered { .. }
        | ToGateway::Attached(_)
        | ToGateway::Refused { .. }
        | ToGateway::NotOwner { .. }
        | ToGateway::Moved { .. }
        | ToGateway::Gone { .. } => {
            panic!("a world does not send {message:?}")
        }
    }
    again
}

fn find(clients: &mut [Client], conn: ConnId) -> Option<(usize, &mut Client)> {
    clients.iter_mut().enumerate().find(|(_, client)| client.conn == conn && client.connected)
}
