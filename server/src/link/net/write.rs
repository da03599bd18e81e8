//! Writes what waits for a link, many messages at a time, and says that this end lives when there is nothing else to say.

use std::{io, sync::Arc, time::Duration};

use bytes::{Buf as _, Bytes};
use tokio::io::{AsyncWrite, AsyncWriteExt as _};

use super::{
    alarm::Alarm,
    codec::PING,
    life::{Cause, Life},
    queue::Pending,
};

/// How long an orderly end may take to write what waits.
const CLOSE_TIME: Duration = Duration::from_millis(500);

/// Writes until the link ends, and ends it when that fails. `deaf`: how long the peer may take nothing.
pub(super) async fn write(life: Arc<Life>, to: impl AsyncWrite + Unpin, deaf: Option<Duration>) {
    let mut writer = Writer { life: &life, to, pending: Pending::default(), cost: 0 };
    let cause = writer.run(deaf).await;
    let orderly = cause.is_orderly();
    life.end(cause);
    let limit = life.site.common.clock.sleep(CLOSE_TIME);
    let close = async {
        if orderly {
            writer.drain().await?;
        }
        writer.to.shutdown().await
    };
    // It has ended already; what could not be written is lost with it.
    tokio::select! {
        closed = close => {
            if let Err(error) = closed {
                tracing::debug!(peer = %life.peer, %error, "a link was not closed in order");
            }
        }
        () = limit => {}
    }
}

struct Writer<'a, W> {
    life: &'a Life,
    to: W,
    pending: Pending,
    /// Of what is pending, to the queue.
    cost: usize,
}

impl<W: AsyncWrite + Unpin> Writer<'_, W> {
    async fn run(&mut self, deaf: Option<Duration>) -> Cause {
        let life = self.life;
        let (clock, every) = (&life.site.common.clock, life.site.limits().ping_every);
        // When something was last written; it counts for both silence and deafness, since one of them is always over.
        let mut wrote = clock.now();
        let mut alarm = Alarm::new(clock, wrote.plus(every));
        let mut over = std::pin::pin!(life.over());
        let mut flushed = true;
        loop {
            self.refill();
            let busy = self.pending.has_remaining();
            tokio::select! {
                biased;
                cause = &mut over => return cause,
                done = step(&mut self.to, &mut self.pending), if busy || !flushed => match done {
                    Ok(0) => flushed = true,
                    Ok(bytes) => {
                        life.site.metrics.bytes_out.increment(bytes as u64);
                        wrote = clock.now();
                        flushed = false;
                    }
                    Err(error) => return Cause::io(&error),
                },
                () = life.queue.ready(), if !busy => {}
                () = alarm.ring() => {
                    let now = clock.now();
                    if busy {
                        if let Some(deaf) = deaf.filter(|deaf| now >= wrote.plus(*deaf)) {
                            return Cause::new("deaf", format!("the peer took nothing for {deaf:?}"));
                        }
                        alarm.set(now.plus(every));
                    } else {
                        if now >= wrote.plus(every) {
                            self.pending.push(Bytes::from_static(PING));
                            wrote = now;
                        }
                        alarm.set(wrote.plus(every));
                    }
                }
            }
        }
    }

    /// Takes more when all is written.
    fn refill(&mut self) {
        if self.pending.has_remaining() {
            return;
        }
        self.life.queue.written(std::mem::take(&mut self.cost));
        let (count, cost) = self.life.queue.take(&mut self.pending);
        self.cost = cost;
        self.life.site.metrics.messages_out.increment(count as u64);
    }

    /// Writes what is left; nothing new comes.
    async fn drain(&mut self) -> io::Result<()> {
        loop {
            self.refill();
            match step(&mut self.to, &mut self.pending).await? {
                0 => return Ok(()),
                bytes => self.life.site.metrics.bytes_out.increment(bytes as u64),
            }
        }
    }
}

/// Writes some of what is pending and gives its bytes; if nothing is, flushes and gives 0. Cancel-safe.
async fn step(to: &mut (impl AsyncWrite + Unpin), pending: &mut Pending) -> io::Result<usize> {
    if !pending.has_remaining() {
        return to.flush().await.map(|()| 0);
    }
    match to.write_buf(pending).await? {
        0 => Err(io::ErrorKind::WriteZero.into()),
        bytes => Ok(bytes),
    }
}
