//! How players come in.

use bytes::Bytes;
use serde::Serialize;
use tenure_shared::PlayerId;

use super::{TestRoom, TestSeat, client::Client};
use crate::{plugin::encode_named, room::world::AttachRefused};

impl TestRoom {
    /// A player joins without options.
    ///
    /// # Panics
    /// When he is refused.
    pub fn join(&mut self, player: &str) -> TestSeat {
        self.join_with(player, &())
    }

    /// A player joins.
    ///
    /// # Panics
    /// When he is refused.
    pub fn join_with<T: Serialize + ?Sized>(&mut self, player: &str, options: &T) -> TestSeat {
        self.try_join(player, options).unwrap_or_else(|refused| panic!("{player} was refused: {}", refused.message))
    }

    /// A player asks to join, with a client of his own: one who has a seat takes it again, and his other client is superseded.
    ///
    /// # Errors
    /// When the room or the game refuses.
    ///
    /// # Panics
    /// When the options cannot be encoded.
    pub fn try_join<T: Serialize + ?Sized>(&mut self, player: &str, options: &T) -> Result<TestSeat, AttachRefused> {
        let mut bytes = Vec::new();
        encode_named(&mut bytes, options).expect("options");
        self.come(player, bytes.into())
    }

    /// As `try_join`, with a login token that claims this.
    ///
    /// # Errors
    /// When the room or the game refuses.
    ///
    /// # Panics
    /// When the options or claims cannot be encoded.
    pub fn try_join_claiming<T: Serialize + ?Sized, C: Serialize + ?Sized>(
        &mut self,
        player: &str,
        options: &T,
        claims: &C,
    ) -> Result<TestSeat, AttachRefused> {
        let mut bytes = Vec::new();
        encode_named(&mut bytes, options).expect("options");
        encode_named(&mut bytes, claims).expect("claims");
        self.come(player, bytes.into())
    }

    fn come(&mut self, player: &str, record: Bytes) -> Result<TestSeat, AttachRefused> {
        let player = PlayerId::new(player).expect("a player id");
        self.clients.push(Client::new(player, record));
        let seat = TestSeat(self.clients.len() - 1);
        let attached = self.attach(seat, false);
        if attached.is_err() {
            self.clients.pop();
        }
        attached.map(|()| seat)
    }
}
