//! The way of a gateway's question to the coordinator of a region, on the node that got it.

use std::time::Duration;

use super::{Region, RegionAnswer, RegionQuestion, region_daemon};
use crate::{
    daemon::{Daemons, Refused},
    link::{
        Coordinators,
        lobby::{Answer, Answering, Question},
    },
};

/// Asks the coordinators wherever they run.
#[derive(Debug)]
pub struct Reach(Daemons);

impl Reach {
    /// By these daemons, among which the coordinators are.
    pub fn new(daemons: Daemons) -> Self {
        Self(daemons)
    }
}

impl Coordinators for Reach {
    fn ask(&self, region: &str, question: Question, within: Duration) -> Answering {
        let (daemons, name) = (self.0.clone(), region_daemon(region));
        Box::pin(async move {
            match daemons.ask::<Region>(&name, 0, &RegionQuestion::Client(question), within).await {
                Ok(RegionAnswer::Client(answer)) => Some(answer),
                Err(Refused::Parked(_) | Refused::Stopped | Refused::Unknown(..)) => Some(Answer::Nobody),
                // It moves, has no time, or the answer got lost: asked again it gives the same one.
                Ok(_) | Err(_) => None,
            }
        })
    }
}
