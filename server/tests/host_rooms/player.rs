//! A player behind gateways of several nodes: keeps what is not saved, and attaches again where his room goes.

use std::ops::Range;

use tenure::{
    link::{Attach, Attached, ConnId, ToGateway, ToNode},
    runtime::mailbox::Refused,
};
use tenure_shared::{RoomId, SeatId, Seq, Term, Tick};

use crate::{
    harness::{Gateway, Node, SHARDS, Socket, World, attach},
    lab::Say,
};

/// What a node said to an attach.
#[derive(Clone, Debug)]
pub enum Answer {
    Attached(Attached),
    /// Somebody else has it, by this term.
    NotOwner(Term),
    Other(ToGateway),
}

/// Asks, and waits for the answer to this very question.
pub fn ask(gateway: &Gateway, attach: Attach) -> Answer {
    let (conn, attempt) = (attach.conn, attach.attempt);
    let from = gateway.heard.said.lock().unwrap().len();
    match gateway.up.send(ToNode::Attach(attach)) {
        Ok(()) => answer(gateway, conn, attempt, from),
        // Nobody is there any more.
        Err(Refused::Closed(_)) => Answer::NotOwner(Term(0)),
        Err(Refused::Full(full)) => panic!("not taken: {full:?}"),
    }
}

/// The answer to an attach, among what was heard after `from`.
pub fn answer(gateway: &Gateway, conn: ConnId, attempt: u32, from: usize) -> Answer {
    let mut seen = 0;
    gateway.wait("an answer to an attach", |message| {
        seen += 1;
        let answer = match message {
            ToGateway::Attached(attached) if attached.conn == conn && attached.attempt == attempt => {
                Some(Answer::Attached(attached.clone()))
            }
            ToGateway::NotOwner { conn: of, attempt: a, term, .. } if *of == conn && *a == attempt => {
                Some(Answer::NotOwner(*term))
            }
            ToGateway::Refused { conn: of, attempt: a, .. } if *of == conn && *a == attempt => {
                Some(Answer::Other(message.clone()))
            }
            ToGateway::Close { conn: of, .. } if *of == conn && seen > from => Some(Answer::Other(message.clone())),
            _ => None,
        };
        answer.inspect(|_| seen = 0)
    })
}

pub struct Player {
    pub name: String,
    pub room: RoomId,
    pub conn: ConnId,
    pub said: Vec<Say>,
    pub socket: Socket,
    /// Behind which of the gateways it is.
    pub at: usize,
    /// How often a rollback was told.
    pub rolled_back: usize,
    /// All attachments, in order.
    pub attached: Vec<Attached>,
    attempt: u32,
    heard: usize,
}

impl Player {
    /// Joins where the room's shard is.
    pub fn join(world: &World, gateways: &[Gateway], room: &RoomId, name: &str, conn: u64) -> Self {
        let conn = ConnId(1_000 + conn);
        let mut found = None;
        world.until("somebody lets him in", || {
            found =
                gateways.iter().enumerate().find_map(|(at, gateway)| match ask(gateway, attach(conn, room, name)) {
                    Answer::Attached(attached) => Some((at, attached)),
                    _ => None,
                });
            found.is_some()
        });
        let (at, attached) = found.expect("found");
        let heard = 0;
        let (name, room, socket) = (name.to_owned(), room.clone(), Socket { conn, attached: attached.clone() });
        let attached = vec![attached];
        Self { name, room, conn, said: Vec::new(), socket, at, rolled_back: 0, attached, attempt: 1, heard }
    }

    /// Says something; what is not taken waits in the ring.
    pub fn say(&mut self, gateways: &[Gateway], say: Say) {
        self.said.push(say);
        drop(gateways[self.at].try_say(&self.socket, self.said.len() as u64, self.said.last().unwrap()));
    }

    /// Whether its gateway was told that the room is not there any more.
    pub fn is_moved(&self, gateways: &[Gateway]) -> bool {
        let shard = self.room.shard(SHARDS);
        let said = gateways[self.at].heard.said.lock().unwrap();
        said[self.heard..].iter().any(|m| matches!(m, ToGateway::Moved { shard: of, .. } if *of == shard))
    }

    /// The highest (term, tick) that it was shown, and the highest number known to be saved.
    pub fn shown(&self, gateways: &[Gateway]) -> ((Term, Tick), u64) {
        let (mut shown, mut saved) = ((Term(0), Tick(0)), 0);
        for gateway in gateways {
            for message in gateway.heard.said.lock().unwrap().iter() {
                match message {
                    ToGateway::Frame(frame) if frame.room == self.room => {
                        for member in frame.members.iter().filter(|member| member.conn == self.conn) {
                            shown = shown.max((frame.term, frame.tick));
                            saved = saved.max(member.saved.0);
                        }
                    }
                    ToGateway::Attached(attached) if attached.conn == self.conn => {
                        shown = shown.max((attached.term, attached.tick));
                    }
                    _ => {}
                }
            }
        }
        (shown, saved)
    }

    pub fn rejoin(&mut self, gateways: &[Gateway]) -> Attach {
        let (shown, saved) = self.shown(gateways);
        self.attempt += 1;
        Attach {
            attempt: self.attempt,
            seat: Some(self.seat()),
            rejoin: true,
            generation: self.socket.attached.generation,
            resumes: 0,
            first: Seq(saved + 1),
            shown,
            ..attach(self.conn, &self.room, &self.name)
        }
    }

    fn seat(&self) -> SeatId {
        self.socket.attached.seat
    }

    /// Attaches again wherever the room is now, and sends what is owed.
    pub fn follow(&mut self, world: &World, gateways: &[Gateway]) {
        self.follow_to(world, gateways, 0..gateways.len());
    }

    /// The same, asking only these nodes.
    pub fn follow_to(&mut self, world: &World, gateways: &[Gateway], nodes: Range<usize>) {
        let mut found = None;
        world.until("the room is served again", || {
            for (at, gateway) in gateways.iter().enumerate().filter(|(at, _)| nodes.contains(at)) {
                // What is heard from here on may say that it is gone again.
                self.heard = gateway.heard.said.lock().unwrap().len();
                let attach = self.rejoin(gateways);
                match ask(gateway, attach) {
                    Answer::Attached(attached) => found = Some((at, attached)),
                    Answer::NotOwner(_) => continue,
                    Answer::Other(other) => panic!("{} is not let back in: {other:?}", self.name),
                }
                return true;
            }
            false
        });
        let (at, attached) = found.expect("found");
        self.at = at;
        self.rolled_back += usize::from(attached.rolled_back);
        self.attached.push(attached.clone());
        let table = self.socket.attached.table.clone();
        self.socket.attached = Attached { table: attached.table.clone().or(table), ..attached };
        for seq in self.socket.attached.owed.0..=self.said.len() as u64 {
            gateways[at].say(&self.socket, seq, &self.said[seq as usize - 1]);
        }
    }

    /// Follows the room until everything that was said is saved.
    pub fn until_saved(&mut self, world: &World, gateways: &[Gateway]) {
        let last = self.said.len() as u64;
        world.until("everything is saved", || {
            if self.is_moved(gateways) {
                self.follow(world, gateways);
            }
            self.shown(gateways).1 == last
        });
    }
}

/// Names of rooms whose shards each of the nodes holds.
pub fn room_of(node: &Node) -> RoomId {
    (0..).map(|n| crate::harness::room(&format!("r{n}"))).find(|room| node.holds(room)).expect("it holds a shard")
}

/// Frames of a room that a gateway has heard, in order.
pub fn frames(gateway: &Gateway, room: &RoomId) -> Vec<(Term, Tick)> {
    let said = gateway.heard.said.lock().unwrap();
    said.iter()
        .filter_map(|m| match m {
            ToGateway::Frame(frame) if frame.room == *room => Some((frame.term, frame.tick)),
            _ => None,
        })
        .collect()
}
