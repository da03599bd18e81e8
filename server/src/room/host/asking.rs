//! Questions of gateways to the coordinators of regions: handed on, and the answer handed back.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;

use super::{RoomHost, core::Host};
use crate::{
    link::{ConnId, Coordinators, GatewayId, ToGateway, lobby},
    runtime::tasks::Kind,
};

/// A question as it came.
pub(super) struct Asked {
    pub(super) gateway: GatewayId,
    pub(super) conn: ConnId,
    pub(super) attempt: u32,
    pub(super) region: String,
    pub(super) within: Duration,
    pub(super) question: Bytes,
}

impl RoomHost {
    /// Where questions of gateways to coordinators go; of several calls the first counts. Until then they are answered with nothing.
    pub fn coordinate(&self, coordinators: Arc<dyn Coordinators>) {
        drop(self.host.coordinators.set(coordinators));
    }
}

/// Asks, and answers when there is an answer, on a task of its own: nobody waits for a coordinator here.
pub(super) fn ask(host: &Arc<Host>, asked: Asked) {
    let Asked { gateway, conn, attempt, region, within, question } = asked;
    let question = lobby::decode(&question).inspect_err(|error| {
        tracing::warn!(gateway = gateway.0, %error, "a question to a coordinator cannot be read");
    });
    let place = host.asking.clone().try_acquire_owned();
    let (Some(coordinators), Ok(question), Ok(place)) = (host.coordinators.get(), question, place) else {
        return tell(host, gateway, ToGateway::Answered { conn, attempt, answer: None });
    };
    let answering = coordinators.ask(&region, question, within.min(lobby::QUESTION_TIME));
    let host = host.clone();
    host.clone().tasks.spawn("question to a coordinator", Kind::Job, async move {
        let _place = place;
        let answer = tokio::select! {
            biased;
            answer = answering => answer,
            () = host.shutdown.stopped() => None,
        };
        let answer = answer.and_then(|answer| {
            let encoded = lobby::encode(&answer);
            encoded.inspect_err(|error| tracing::warn!(%error, "an answer of a coordinator is left out")).ok()
        });
        tell(&host, gateway, ToGateway::Answered { conn, attempt, answer });
    });
}

/// A gateway whose queue is full hears nothing, and asks again by itself.
fn tell(host: &Host, gateway: GatewayId, answer: ToGateway) {
    drop(host.gateways.send(gateway, answer));
}
