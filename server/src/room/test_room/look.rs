//! What a test asks of its room: answers, events, views, marks, ledgers.

use bytes::Bytes;
use serde::de::DeserializeOwned;
use tenure_shared::{PlayerId, Seq, codes::CloseCode, wire::Space};

use super::{State, TestRoom, TestSeat, client};
use crate::link::ToGateway;

impl TestRoom {
    /// The answer to a request, once it is there: the value, or the refusal's text.
    ///
    /// # Panics
    /// When the answer is not a `T`.
    pub fn reply<T: DeserializeOwned>(&mut self, seat: TestSeat, request: u32) -> Option<Result<T, String>> {
        self.reply_or_code(seat, request).map(|reply| reply.map_err(|(_, text)| text))
    }

    /// The same, with the refusal's code before its text.
    ///
    /// # Panics
    /// When the answer is not a `T`.
    pub fn reply_or_code<T: DeserializeOwned>(
        &mut self,
        seat: TestSeat,
        request: u32,
    ) -> Option<Result<T, (String, String)>> {
        let reply = self.clients[seat.0].replies.remove(&request)?;
        Some(reply.map(|bytes| crate::plugin::decode(&bytes).expect("an answer of that type")))
    }

    /// Messages of this name that the client got since this was last asked.
    ///
    /// # Panics
    /// When the game has no such event, or it is not a `T`.
    pub fn events<T: DeserializeOwned>(&mut self, seat: TestSeat, name: &str) -> Vec<T> {
        let kind = self.number(Space::Event, name);
        let events = &mut self.clients[seat.0].events;
        let (mine, rest) = std::mem::take(events).into_iter().partition(|(number, _)| *number == kind);
        *events = rest;
        let decode = |(_, bytes): (u16, Bytes)| crate::plugin::decode(&bytes).expect("an event of that type");
        Vec::into_iter(mine).map(decode).collect()
    }

    /// Messages that the room refused since this was last asked: number, code, text.
    pub fn refused(&mut self, seat: TestSeat) -> Vec<(Seq, String, String)> {
        std::mem::take(&mut self.clients[seat.0].refused)
    }

    /// Rewards that the client was shown since this was last asked: source, (currency, amount).
    pub fn granted(&mut self, seat: TestSeat) -> Vec<(String, Vec<(String, i64)>)> {
        std::mem::take(&mut self.clients[seat.0].granted)
    }

    /// How the client's socket was closed, if it was.
    pub fn closed(&self, seat: TestSeat) -> Option<(CloseCode, &str)> {
        self.clients[seat.0].closed.as_ref().map(|(code, reason)| (*code, reason.as_str()))
    }

    /// The marks that the client has: last message applied, last message saved.
    pub fn marks(&self, seat: TestSeat) -> (Seq, Seq) {
        self.clients[seat.0].marks
    }

    /// What the client sees, as it was told by snapshots and frames.
    pub fn state(&self, seat: TestSeat) -> State<'_> {
        let client = &self.clients[seat.0];
        State { view: &client.view, table: self.kind.table(), tick: client.shown.1.0 }
    }

    /// What a fresh snapshot would show the client: equal to [`state`](Self::state) after every tick.
    ///
    /// # Panics
    /// When the seat is not connected.
    pub fn fresh_hash(&mut self, seat: TestSeat) -> u64 {
        let client = &self.clients[seat.0];
        let seat = client.seat.expect("a seat");
        match self.world.resync(seat, client.generation) {
            Some((_, ToGateway::Snapshot { bytes, .. })) => client::snapshot(&bytes).hash(),
            other => panic!("no snapshot: {other:?}"),
        }
    }

    /// Puts money into a ledger, as if it had always been there.
    ///
    /// # Panics
    /// When the player id is not valid.
    pub fn deposit(&mut self, player: &str, currency: &str, amount: i64) {
        self.durable.deposit(self.wall, PlayerId::new(player).expect("a player id"), currency, amount);
    }

    /// A ledger's balance.
    ///
    /// # Panics
    /// When the player id is not valid.
    pub fn balance(&self, player: &str, currency: &str) -> i64 {
        self.durable.balance(&PlayerId::new(player).expect("a player id"), currency)
    }

    pub(super) fn number(&self, space: Space, name: &str) -> u16 {
        let row = self.kind.table().iter().find(|row| row.space == space && row.name == name);
        row.unwrap_or_else(|| panic!("no {space:?} is named {name:?}")).number
    }
}
