//! Reads a link until it ends, and finds a peer that is silent.

use bytes::Bytes;
use tokio::io::AsyncRead;

use super::{
    alarm::Alarm,
    inbound::Inbound,
    life::{Cause, Life},
};
use crate::runtime::Mono;

/// How long what was refused waits before it is offered again: a fifth of a tick at 20 Hz.
const OFFER_PAUSE: std::time::Duration = std::time::Duration::from_millis(10);

/// What one end does with the packets that come. Unless it says otherwise nothing waits at it.
pub(super) trait Inlet: Send {
    /// Handles one packet.
    ///
    /// # Errors
    /// Why the link must end.
    fn take(&mut self, packet: &Bytes) -> Result<(), Cause>;

    /// Whether something waits and is to be offered again.
    fn waits(&self) -> bool {
        false
    }

    /// Whether so much waits that reading must pause.
    fn is_full(&self) -> bool {
        false
    }

    /// Offers again what waits.
    ///
    /// # Errors
    /// Why the link must end.
    fn offer(&mut self) -> Result<(), Cause> {
        Ok(())
    }
}

/// Gives the cause of the end. While nothing can be handled a little is read on, so that a peer that is silent is found all the same; behind
/// that, what it says is not looked at.
pub(super) async fn read(
    life: &Life,
    from: &mut (impl AsyncRead + Unpin),
    inbound: &mut Inbound,
    inlet: &mut impl Inlet,
) -> Cause {
    let (clock, idle, metrics) = (&life.site.common.clock, life.site.limits().idle_timeout, &life.site.metrics);
    let mut heard = clock.now();
    let mut offer_at: Option<Mono> = None;
    let mut alarm = Alarm::new(clock, heard.plus(idle));
    let mut over = std::pin::pin!(life.over());
    loop {
        while !inlet.is_full() {
            match inbound.next() {
                Ok(None) => break,
                Ok(Some(packet)) => {
                    metrics.messages_in.increment(1);
                    if let Err(cause) = inlet.take(&packet) {
                        return cause;
                    }
                }
                Err(oversize) => return Cause::protocol(&oversize),
            }
        }
        let full = inlet.is_full() && inbound.waiting() >= life.site.limits().read_ahead;
        if inlet.waits() {
            alarm.no_later_than(*offer_at.get_or_insert_with(|| clock.now().plus(OFFER_PAUSE)));
        } else {
            offer_at = None;
        }
        tokio::select! {
            biased;
            cause = &mut over => return cause,
            // Before the alarm: what has come is proof of life, however late this task looks.
            read = inbound.fill(from), if !full => match read {
                Ok(0) => return Cause::new("closed", "the peer closed the stream"),
                Ok(bytes) => {
                    heard = clock.now();
                    metrics.bytes_in.increment(bytes as u64);
                }
                Err(error) => return Cause::io(&error),
            },
            () = alarm.ring() => {
                let now = clock.now();
                if offer_at.is_some_and(|at| now >= at) {
                    offer_at = None;
                    if let Err(cause) = inlet.offer() {
                        return cause;
                    }
                }
                if full {
                    heard = now;
                } else if now >= heard.plus(idle) {
                    return Cause::new("silent", format!("nothing was heard of the peer for {idle:?}"));
                }
                // An offer that is due again is set at the top of the loop.
                alarm.set(heard.plus(idle));
            }
        }
    }
}
