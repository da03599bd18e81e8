//! The way between nodes: messages that are slow, lost, said twice or overtaken by later ones; a node that is gone hears nothing.

use std::{
    sync::{
        Arc, Weak,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use tenure::{
    link::{Address, Handoff, PeerBody, PeerInbox as _, PeerMessage, Peers},
    runtime::{Rng, mailbox::Refused},
};

use tenure_shared::Term;

use crate::{breaks::Break, cluster::Sim};

pub struct SimPeers {
    sim: Weak<Sim>,
    node: usize,
    dead: Arc<AtomicBool>,
    rng: Rng,
}

impl SimPeers {
    pub fn open(sim: &Arc<Sim>, node: usize, life: u64, dead: Arc<AtomicBool>) -> Arc<Self> {
        let rng = sim.net.rng(&format!("peers {node} {life}"));
        Arc::new(Self { sim: Arc::downgrade(sim), node, dead, rng })
    }

    fn carry(&self, sim: &Arc<Sim>, to: usize, mut message: PeerMessage) {
        let mut to = to;
        if let (Break::Ready, PeerBody::Handoff(attempt, Handoff::Prepared { checksum })) = (sim.broken, &message.body)
        {
            let said = Handoff::Transferred { term: Term(attempt.term.0 + 1), checksum: *checksum };
            let body = PeerBody::Handoff(*attempt, said);
            let own = sim.node(self.node).and_then(|node| node.ownership.incarnation());
            (to, message) =
                (self.node, PeerMessage { from: message.to, to: own.unwrap_or(message.from), body, ..message });
        }
        let rng = &self.rng;
        let mut late = Duration::from_micros(100 + rng.below(3_000));
        match rng.below(50) {
            0 => late += Duration::from_millis(rng.below(4_000)),
            1..=6 => late += Duration::from_millis(rng.below(200)),
            _ => {}
        }
        let lost = rng.below(100) < 2 || sim.net.loses_peer(rng);
        let (sim, from) = (sim.clone(), self.node);
        tokio::spawn(async move {
            sim.net.awake(from).await;
            sim.net.clock.sleep(late).await;
            if lost || !sim.net.peers_reach(from, to) {
                return;
            }
            sim.net.awake(to).await;
            let Some(node) = sim.node(to).filter(|node| !node.is_dead()) else { return };
            sim.net.note(&format!("{from} to {to}: {:?}", message.body));
            if let Some(handoff) = &node.handoff {
                handoff.take(message);
            }
        });
    }
}

impl Peers for SimPeers {
    fn send(&self, to: &Address, message: PeerMessage) -> Result<(), Refused<PeerMessage>> {
        let Some(sim) = self.sim.upgrade() else { return Err(Refused::Closed(message)) };
        let there = to.to_string().strip_prefix('n').and_then(|n| n.parse::<usize>().ok());
        let Some(there) = there else { return Err(Refused::Closed(message)) };
        if self.dead.load(Ordering::SeqCst) {
            return Ok(());
        }
        // Known to be gone, now and then; mostly it goes into the void.
        if sim.node(there).is_none() && self.rng.below(2) == 0 {
            return Err(Refused::Closed(message));
        }
        if self.rng.below(20) == 0 {
            self.carry(&sim, there, message.clone());
        }
        self.carry(&sim, there, message);
        Ok(())
    }
}
