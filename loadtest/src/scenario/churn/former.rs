//! Sessions of seats that are over, tried once more: none of them may give a seat.

use std::time::Duration;

use anyhow::Context as _;
use futures_util::{SinkExt as _, StreamExt as _};
use tenure_shared::{
    Seq, Term, Tick,
    codes::ErrorCode,
    limits::PROTOCOL,
    msgpack::Bounds,
    wire::{ClientMessage, ServerMessage, ServerMessages},
};
use tokio::time::{sleep, timeout};
use tokio_tungstenite::tungstenite::Message;

use crate::{
    bot::churn::{Ended, Way},
    host::Group,
    net::{self, Target},
};

/// Time for an answer, and how often one is asked for again after a passing fault.
const ANSWER_TIME: Duration = Duration::from_secs(15);
const TRIES: u32 = 5;
const AGAIN: Duration = Duration::from_millis(500);

/// Tries all of them: how many, and the ways of those that were given a seat.
///
/// # Errors
/// When one is not answered, or in words that say neither.
pub(super) async fn try_again(target: &Target, ended: Vec<(Way, Ended)>) -> anyhow::Result<(usize, Vec<Way>)> {
    let (tried, mut given) = (ended.len(), Vec::new());
    for (nth, (way, ended)) in ended.into_iter().enumerate() {
        let mut tries = 0;
        let answer = loop {
            let asked = timeout(ANSWER_TIME, resume(target, nth as u32, &ended)).await;
            let answer = asked.with_context(|| format!("no answer to a session that is over ({way:?})"))??;
            tries += 1;
            if answer.as_deref() != Some(ErrorCode::MayRetry.as_str()) || tries == TRIES {
                break answer;
            }
            sleep(AGAIN).await;
        };
        match answer {
            None => given.push(way),
            Some(code) if code == ErrorCode::ResumeFailed.as_str() || code == ErrorCode::NoSuchRoom.as_str() => {}
            Some(code) => anyhow::bail!("a session that is over ({way:?}) is answered {code}"),
        }
    }
    Ok((tried, given))
}

/// The code of the refusal; `None`: it has the seat.
async fn resume(target: &Target, nth: u32, ended: &Ended) -> anyhow::Result<Option<String>> {
    let opened = net::websocket(target, Group::Bots, nth).await;
    let mut socket = opened.map_err(|cause| anyhow::anyhow!("a session that is over: {}", cause.label()))?;
    let mut out = Vec::new();
    ClientMessage::Hello { protocol: PROTOCOL, token: ended.token.as_deref(), table: None }.encode(&mut out);
    let (room, session, shown) = (ended.room.clone(), ended.session.as_str(), (Term(0), Tick(0)));
    ClientMessage::Resume { id: 1, room, session, shown, first: Seq(1), resumes: 0 }.encode(&mut out);
    socket.send(Message::binary(out)).await?;
    while let Some(message) = socket.next().await {
        let Message::Binary(bytes) = message? else { continue };
        for message in ServerMessages::new(&bytes, &Bounds::SERVER) {
            match message? {
                ServerMessage::Joined(_) => return Ok(None),
                ServerMessage::Error { code, .. } => return Ok(Some(code.to_owned())),
                _ => {}
            }
        }
    }
    anyhow::bail!("a session that is over: the socket ended")
}
