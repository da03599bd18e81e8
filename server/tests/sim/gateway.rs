//! A gateway of the simulation: it hands what nodes say to its bots.

use std::sync::{Arc, Mutex};

use tenure::link::ToGateway;

use crate::bot::Bot;

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
    }

    pub fn broken(&self, node: usize, life: u64) {
        for bot in self.bots() {
            bot.broken(self.index, (node, life));
        }
    }
}
