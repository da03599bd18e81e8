//! A world that replaces another one in place: its members take their seats again.

use tenure_shared::{Seq, codes::CloseCode};

use super::{Attachment, RoomWorld};
use crate::link::{GatewayId, RestoredMember, ToGateway};

impl RoomWorld {
    /// Members of a world that this one replaces take their seats again: one `Restored` per gateway; a seat that this world does not
    /// know is closed with 4001 and joins anew.
    ///
    /// Their generation grows. What was sent to the world before is still on its way, with numbers above those that are owed: under
    /// the older generation it is ignored, and comes again in its turn (H4).
    pub fn adopt(&mut self, members: &[Attachment]) -> Vec<(GatewayId, ToGateway)> {
        let mut out: Vec<(GatewayId, ToGateway)> = Vec::new();
        for member in members {
            let known = self.seats.get_mut(&member.seat).filter(|seat| seat.player == member.player);
            let Some(seat) = known else {
                let reason = "the room was restored to a moment before this seat".to_owned();
                let close = ToGateway::Close { conn: member.conn, code: CloseCode::Moving, reason };
                out.push((member.gateway, close));
                continue;
            };
            seat.generation = seat.generation.max(member.generation);
            seat.generation.0 += 1;
            // What its socket may know when its link breaks now.
            (seat.held, seat.resumes) = (member.generation, seat.resumes.max(member.resumes));
            seat.link = Some((member.gateway, member.conn));
            seat.gone_since = None;
            let (entity, generation, owed) = (seat.entity, seat.generation, Seq(seat.applied.0 + 1));
            self.back(entity);
            self.empty_since = None;
            self.balances_wanted.insert(member.player.clone());
            // The world before had not shown him yet what he missed, when this one's state was stored.
            if let Some(last) = self.known.last(&member.player).filter(|last| *last < self.wall) {
                self.missed.back(&member.player, last);
            }
            let (conn, seat, snapshot) = (member.conn, member.seat, self.snapshot(member.seat));
            let restored = RestoredMember { conn, seat, generation, owed, snapshot };
            let place = out.iter_mut().find_map(|(gateway, message)| match message {
                ToGateway::Restored { members, .. } if *gateway == member.gateway => Some(members),
                _ => None,
            });
            match place {
                Some(members) => members.push(restored),
                None => {
                    let (room, term, tick) = (self.room.clone(), self.term, self.tick);
                    out.push((member.gateway, ToGateway::Restored { room, term, tick, members: vec![restored] }));
                }
            }
        }
        out
    }

    /// The connected seats.
    pub fn attachments(&self) -> Vec<Attachment> {
        let connected = self.seats.iter().filter_map(|(id, seat)| Some((id, seat, seat.link?)));
        connected
            .map(|(id, seat, (gateway, conn))| Attachment {
                gateway,
                conn,
                seat: *id,
                generation: seat.generation,
                resumes: seat.resumes,
                player: seat.player.clone(),
            })
            .collect()
    }
}
