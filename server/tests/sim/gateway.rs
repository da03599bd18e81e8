//! A gateway of the simulation: it hands what nodes say to its bots.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use tenure::link::ToGateway;

use crate::{bot::Bot, breaks::Break};

/// How late a frame comes once more where gateways do not look at its age.
const LATE: Duration = Duration::from_millis(700);

pub struct Gateway {
    pub index: usize,
    bots: Mutex<Vec<Arc<Bot>>>,
}

impl Gateway {
    pub fn new(index: usize) -> Arc<Self> {
        Arc::new(Self { index, bots: Mutex::default() })
    }

    pub fn add(&self, bot: &Arc<Bot>) {
        self.bots.lock().expect("bots").push(bot.clone());
    }

    fn bots(&self) -> Vec<Arc<Bot>> {
        self.bots.lock().expect("bots").clone()
    }

    pub fn hear(&self, node: usize, life: u64, message: &ToGateway) {
        for bot in self.bots() {
            bot.hear(self.index, (node, life), message);
        }
        self.again(node, life, message);
    }

    /// Rooms that nothing happens in send few frames: where it is to be seen that a floor is missing, each comes again when others were shown.
    fn again(&self, node: usize, life: u64, message: &ToGateway) {
        let (bots, index) = (self.bots(), self.index);
        let Some(clock) = bots.first().filter(|bot| bot.broken == Break::Floor).map(|bot| bot.net.clock.clone()) else {
            return;
        };
        if let ToGateway::Frame(frame) = message {
            let frame = ToGateway::Frame(frame.clone());
            tokio::spawn(async move {
                clock.sleep(LATE).await;
                bots.iter().for_each(|bot| bot.hear(index, (node, life), &frame));
            });
        }
    }

    pub fn broken(&self, node: usize, life: u64) {
        for bot in self.bots() {
            bot.broken(self.index, (node, life));
        }
    }
}
