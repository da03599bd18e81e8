//! Cuts what is read from a stream into packets.

use std::io;

use bytes::{Buf as _, Bytes, BytesMut};
use tokio::io::{AsyncRead, AsyncReadExt as _};

use super::codec::LENGTH;

/// Bytes asked of the stream at a time: memory grows with what comes, never by a claimed length (C42).
const STEP: usize = 64 * 1024;
/// Packets up to this long are copied out, so that a small message that is kept does not keep everything that came with it.
const COPIED: usize = STEP;

/// A length above the bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a packet of {length} bytes; at most {limit} are read here")]
pub(super) struct Oversize {
    pub(super) length: usize,
    pub(super) limit: usize,
}

/// What was read and is not yet handled.
pub(super) struct Inbound {
    buf: BytesMut,
    limit: usize,
}

impl Inbound {
    /// Reads packets of at most `limit` bytes.
    pub(super) fn new(limit: usize) -> Self {
        Self { buf: BytesMut::new(), limit }
    }

    /// From here on packets may be this long.
    pub(super) fn allow(&mut self, limit: usize) {
        self.limit = limit;
    }

    /// The next whole packet without its length, if it is there.
    pub(super) fn next(&mut self) -> Result<Option<Bytes>, Oversize> {
        let Some(head) = self.buf.first_chunk::<LENGTH>() else { return Ok(None) };
        let (length, limit) = (u32::from_be_bytes(*head) as usize, self.limit);
        if length > limit {
            return Err(Oversize { length, limit });
        }
        let Some(packet) = self.buf.get(LENGTH..LENGTH + length) else { return Ok(None) };
        if length <= COPIED {
            let packet = Bytes::copy_from_slice(packet);
            self.buf.advance(LENGTH + length);
            return Ok(Some(packet));
        }
        self.buf.advance(LENGTH);
        Ok(Some(self.buf.split_to(length).freeze()))
    }

    /// Bytes that were read and are not yet handled.
    pub(super) fn waiting(&self) -> usize {
        self.buf.len()
    }

    /// Reads once; 0 at the end of the stream. Cancel-safe: a cancelled call has taken nothing.
    pub(super) async fn fill(&mut self, from: &mut (impl AsyncRead + Unpin)) -> io::Result<usize> {
        self.buf.reserve(STEP.min(self.limit + LENGTH));
        from.read_buf(&mut self.buf).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(inbound: &mut Inbound) -> Vec<Bytes> {
        std::iter::from_fn(|| inbound.next().expect("within the bound")).collect()
    }

    #[tokio::test]
    async fn packets_come_out_however_the_bytes_come_in() {
        let packets: Vec<Vec<u8>> = [0_usize, 1, 3, 300, COPIED, COPIED + 1, 5, 3 * STEP, 2]
            .iter()
            .enumerate()
            .map(|(at, len)| vec![at as u8; *len])
            .collect();
        let mut stream = Vec::new();
        for packet in &packets {
            stream.extend_from_slice(&(packet.len() as u32).to_be_bytes());
            stream.extend_from_slice(packet);
        }
        for step in [1_usize, 7, 4096, stream.len()] {
            let (mut inbound, mut found) = (Inbound::new(1 << 20), Vec::new());
            for piece in stream.chunks(step) {
                let mut piece = piece;
                while !piece.is_empty() {
                    inbound.fill(&mut piece).await.expect("memory");
                    found.extend(all(&mut inbound));
                }
            }
            assert_eq!(found, packets, "in steps of {step}");
        }
    }

    #[tokio::test]
    async fn a_claimed_length_reserves_nothing() {
        let mut inbound = Inbound::new(512);
        inbound.fill(&mut &[0xff, 0xff, 0xff, 0xff, 1][..]).await.expect("memory");
        assert_eq!(inbound.next(), Err(Oversize { length: u32::MAX as usize, limit: 512 }));
        let mut inbound = Inbound::new(usize::MAX - LENGTH);
        inbound.fill(&mut &[0x7f, 0xff, 0xff, 0xff, 1][..]).await.expect("memory");
        assert_eq!(inbound.next(), Ok(None), "within the bound: it waits for what comes");
        inbound.fill(&mut &[2][..]).await.expect("memory");
        assert!(inbound.buf.capacity() <= 4 * STEP, "{}", inbound.buf.capacity());
    }
}
