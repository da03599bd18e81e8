//! What comes in: tungstenite decodes frames and masks, checks the protocol and puts fragments together; bytes come from and go
//! to the connection under its lock.

use std::{
    io::{self, Read, Write},
    pin::Pin,
    task::{Context, Poll},
};

use bytes::Bytes;
use tenure_shared::codes::CloseCode;
use tokio::io::ReadBuf;
use tokio_tungstenite::tungstenite::{
    Error, Message,
    error::CapacityError,
    protocol::{Role, WebSocketConfig, WebSocketContext},
};

use super::{conn::Conn, outgoing::CONTROL_BYTES};

/// Bytes read at once, and held per connection while nothing comes. They are zeroed before each read, and inputs are small.
const READ_BYTES: usize = 1024;
/// Most bytes that the fragments of one message may cost beside its payload: about 100 fragments.
const FRAGMENT_OVERHEAD: usize = 100 * 14;
/// Header and mask of a small client frame.
const FRAME_HEAD: usize = 6;

/// What came in.
#[derive(Debug)]
pub(super) enum Incoming {
    /// A binary message.
    Message(Bytes),
    /// A ping or pong; tungstenite answers pings.
    Control,
    /// The client closes the socket; the answer has been queued.
    Closed,
    /// The socket is gone without a word.
    Gone,
    /// The client broke a rule.
    Fault(CloseCode, String),
}

/// The reading side.
#[derive(Debug)]
pub(super) struct Reader {
    context: WebSocketContext,
    /// Bytes of the message that is not complete yet.
    incomplete: usize,
    /// Bytes read since they were last asked for.
    fresh: usize,
}

fn limits(config: &mut WebSocketConfig, bytes: usize) {
    config.max_message_size = Some(bytes);
    config.max_frame_size = Some(bytes);
}

impl Reader {
    /// `part` is what came behind the upgrade request.
    pub(super) fn new(part: Vec<u8>, bytes: usize) -> Self {
        let mut config = WebSocketConfig::default()
            .read_buffer_size(READ_BYTES)
            .write_buffer_size(0)
            .max_write_buffer_size(CONTROL_BYTES);
        limits(&mut config, bytes);
        let fresh = part.len();
        Self { context: WebSocketContext::from_partially_read(part, Role::Server, Some(config)), incomplete: 0, fresh }
    }

    /// The largest message from here on.
    pub(super) fn set_limit(&mut self, bytes: usize) {
        self.context.set_config(|config| limits(config, bytes));
    }

    /// Bytes read since the last call.
    pub(super) fn take_fresh(&mut self) -> usize {
        std::mem::take(&mut self.fresh)
    }

    /// The next thing that came in, once. Answers of tungstenite go into the connection's control buffer.
    pub(super) fn poll(&mut self, conn: &Conn, cx: &mut Context<'_>) -> Poll<Incoming> {
        let limit = self.context.get_config().max_message_size.unwrap_or_default() + FRAGMENT_OVERHEAD;
        let mut pipe = Pipe { conn, cx, read: 0, room: (limit + READ_BYTES).saturating_sub(self.incomplete) };
        let result = self.context.read(&mut pipe);
        if matches!(result, Ok(Message::Close(_))) {
            // Once more, so that the answer to the close gets into the control buffer.
            drop(self.context.read(&mut pipe));
        }
        let (read, over) = (pipe.read, pipe.room == 0);
        self.fresh += read;
        self.incomplete += read;
        Poll::Ready(match result {
            Ok(Message::Binary(bytes)) => {
                self.incomplete = 0;
                Incoming::Message(bytes)
            }
            Ok(Message::Ping(payload) | Message::Pong(payload)) => {
                self.incomplete = self.incomplete.saturating_sub(FRAME_HEAD + payload.len());
                Incoming::Control
            }
            Ok(Message::Text(_)) => {
                Incoming::Fault(CloseCode::ProtocolError, "text messages are not understood".to_owned())
            }
            Ok(Message::Close(_)) => Incoming::Closed,
            Ok(Message::Frame(_)) => Incoming::Fault(CloseCode::ProtocolError, "a bare frame".to_owned()),
            Err(Error::Io(error)) if error.kind() == io::ErrorKind::WouldBlock => {
                if over {
                    let text = "a message in too many fragments".to_owned();
                    return Poll::Ready(Incoming::Fault(CloseCode::TooBig, text));
                }
                return Poll::Pending;
            }
            Err(Error::Capacity(CapacityError::MessageTooLong { size, max_size })) => {
                Incoming::Fault(CloseCode::TooBig, format!("a message of {size} bytes; at most {max_size} are taken"))
            }
            Err(Error::ConnectionClosed | Error::AlreadyClosed) => Incoming::Closed,
            Err(Error::Io(_)) => Incoming::Gone,
            Err(Error::Protocol(
                tokio_tungstenite::tungstenite::error::ProtocolError::ResetWithoutClosingHandshake,
            )) => Incoming::Gone,
            Err(error) => Incoming::Fault(CloseCode::ProtocolError, error.to_string()),
        })
    }
}

/// The stream as tungstenite sees it.
struct Pipe<'a, 'c> {
    conn: &'a Conn,
    cx: &'a mut Context<'c>,
    read: usize,
    /// Bytes that may still be read for one message.
    room: usize,
}

impl Read for Pipe<'_, '_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let most = buffer.len().min(self.room);
        if most == 0 {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        let mut buffer = ReadBuf::new(&mut buffer[..most]);
        let polled = Pin::new(self.conn.lock().io()).poll_read(self.cx, &mut buffer);
        match polled {
            Poll::Ready(Ok(())) => {
                let n = buffer.filled().len();
                self.read += n;
                self.room -= n;
                Ok(n)
            }
            Poll::Ready(Err(error)) => Err(error),
            Poll::Pending => Err(io::ErrorKind::WouldBlock.into()),
        }
    }
}

impl Write for Pipe<'_, '_> {
    fn write(&mut self, frames: &[u8]) -> io::Result<usize> {
        // Whole frames: tungstenite empties its buffer with each, and the control buffer takes all or nothing.
        if self.conn.lock().out.control(frames) { Ok(frames.len()) } else { Err(io::ErrorKind::WouldBlock.into()) }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
