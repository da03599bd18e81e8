//! What a bot's gateway sends: the attach of its seat, and what waits in its ring.

use bytes::Bytes;
use tenure::{
    link::{Attach, GatewayId, Input, Mode, ToNode},
    runtime::Mono,
};
use tenure_shared::{Generation, PlayerId, Seq, Term, Tick};

use super::{At, Bot, Inner};
use crate::cluster::Sim;

impl Bot {
    pub(super) fn ask(&self, sim: &Sim, inner: &mut Inner, now: Mono) {
        // The directory is a hint: now and then it is wrong.
        let node = match sim.owner(self.shard()) {
            Some(node) if self.rng.below(8) > 0 => node,
            _ => usize::try_from(self.rng.below(crate::net::NODES as u64)).expect("small"),
        };
        let Some(link) = sim.link(inner.gateway, node) else { return self.later(inner) };
        inner.attempt += 1;
        let attach = Attach {
            gateway: GatewayId(0),
            conn: inner.conn,
            attempt: inner.attempt,
            room: self.room.clone(),
            mode: if inner.seat.is_some() { Mode::Join } else { Mode::JoinOrCreate },
            player: PlayerId::new(&self.player).expect("a name"),
            options: Bytes::new(),
            metadata: Bytes::new(),
            seat: inner.seat,
            rejoin: inner.rejoin,
            generation: if inner.rejoin { inner.generation } else { Generation(0) },
            resumes: if inner.rejoin { inner.had_by } else { inner.seat.map_or(0, |_| inner.resumes) },
            first: Seq(if inner.seat.is_some() { inner.life.saved + 1 } else { 1 }),
            shown: if inner.seat.is_some() { inner.shown } else { (Term(0), Tick(0)) },
            table: None,
        };
        if link.send(ToNode::Attach(attach)) {
            inner.at = At::Asking((link.node, link.life), now);
            inner.asked += usize::from(!inner.rejoin && inner.seat.is_none());
        } else {
            self.later(inner);
        }
    }

    pub(super) fn send(&self, sim: &Sim, inner: &mut Inner, node: (usize, u64)) {
        let Some(link) = sim.link(inner.gateway, node.0).filter(|link| link.life == node.1) else { return };
        while let Some(say) = inner.life.get(inner.next) {
            let sent = link.send(ToNode::Input(Input {
                room: self.room.clone(),
                seat: inner.seat.expect("a seat"),
                generation: inner.generation,
                seq: Seq(inner.next),
                request: None,
                kind: inner.kind,
                payload: Bytes::from(rmp_serde::to_vec(say).expect("encoded")),
            }));
            if !sent {
                return;
            }
            inner.next += 1;
        }
    }
}
