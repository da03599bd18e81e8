//! The room changes its owner, its process or its version.

use tenure_shared::Term;

use super::{TestRoom, TestSeat};
use crate::{
    plugin::{RoomKind, RoomPlugin},
    room::world::RoomWorld,
};

impl TestRoom {
    /// The room moves: checkpoint, restore under the next term, go on. Clients stay connected.
    ///
    /// # Panics
    /// When the checkpoint cannot be restored.
    pub fn move_now(&mut self) {
        self.save();
        let members = self.world.attachments();
        self.restore();
        self.world.keep_graces();
        let messages = self.world.adopt(&members);
        self.give(messages);
    }

    /// The room moves to another node, and its gateways come there late: `ticks` pass before the clients have their seats again.
    ///
    /// # Panics
    /// When the checkpoint cannot be restored, or a seat is over by then.
    pub fn move_ahead_of_gateways(&mut self, ticks: u64) {
        self.save();
        let back = self.connected();
        self.restore();
        self.world.keep_graces();
        self.tick(ticks);
        back.into_iter().for_each(|seat| self.reconnect(seat));
    }

    /// The process stops in order and starts again: everything is saved, sockets are lost, and the clients come back.
    ///
    /// # Panics
    /// When the checkpoint cannot be restored.
    pub fn restart(&mut self) {
        self.save();
        self.crash();
    }

    /// The owner is lost: the room is restored from the last stored checkpoint, and the clients come back and send again what was not
    /// saved.
    ///
    /// # Panics
    /// When the checkpoint cannot be restored.
    pub fn crash(&mut self) {
        let back = self.connected();
        self.restore();
        back.into_iter().for_each(|seat| self.reconnect(seat));
    }

    fn connected(&self) -> Vec<TestSeat> {
        (0..self.clients.len()).map(TestSeat).filter(|seat| self.clients[seat.0].connected).collect()
    }

    fn restore(&mut self) {
        let (checkpoint, term) = (self.durable.restart(self.wall), Term(self.world.term().0 + 1));
        self.world = RoomWorld::restore(&self.kind, &self.settings, term, &checkpoint).expect("a sound checkpoint");
    }

    /// The game changes to another version of itself, as in a deploy: the room is saved, and restored by the new plugin.
    ///
    /// # Panics
    /// When the new version cannot read the checkpoint.
    pub fn deploy(&mut self, plugin: impl RoomPlugin) {
        self.save();
        self.kind = RoomKind::new(self.kind.name(), plugin).unwrap_or_else(|faults| panic!("{}", faults.join("\n")));
        self.crash();
    }
}
