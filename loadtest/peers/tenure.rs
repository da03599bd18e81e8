//! Tenure's adapter for the peer benchmark: hello, join_or_create, frames and tails of `docs/wire.md`, walked by hand.

use bytes::{BufMut, Bytes, BytesMut};

use crate::adapter::{Adapter, Error, Seen};

/// One client of the `bench` room (`server/examples/bench_room.rs`).
pub struct Tenure {
    group: usize,
    /// Number of the message `input` in the name table.
    input: Option<u8>,
}

const JOINED: u32 = 2;
const ERROR: u32 = 3;
const FRAME: u32 = 5;
const TAIL: u32 = 6;
const SET: u32 = 2;

/// A cursor over MessagePack that can skip any value.
struct Cur<'a>(&'a [u8]);

impl<'a> Cur<'a> {
    fn take(&mut self, n: usize) -> Option<&'a [u8]> {
        (self.0.len() >= n).then(|| {
            let (a, b) = self.0.split_at(n);
            self.0 = b;
            a
        })
    }
    fn be(&mut self, n: usize) -> Option<u64> {
        Some(self.take(n)?.iter().fold(0, |a, b| a << 8 | u64::from(*b)))
    }
    fn array(&mut self) -> Option<usize> {
        match self.be(1)? {
            b @ 0x90..=0x9f => Some(b as usize & 15),
            0xdc => self.be(2).map(|n| n as usize),
            0xdd => self.be(4).map(|n| n as usize),
            _ => None,
        }
    }
    fn uint(&mut self) -> Option<u64> {
        match self.be(1)? {
            b @ 0..=0x7f => Some(b),
            0xcc => self.be(1),
            0xcd => self.be(2),
            0xce => self.be(4),
            0xcf => self.be(8),
            _ => None,
        }
    }
    fn text(&mut self) -> Option<&'a [u8]> {
        let n = match self.be(1)? {
            b @ 0xa0..=0xbf => b & 31,
            0xd9 => self.be(1)?,
            0xda => self.be(2)?,
            _ => return None,
        };
        self.take(n as usize)
    }
    fn skip(&mut self) -> Option<()> {
        let mut left = 1usize;
        while left > 0 {
            left -= 1;
            let b = self.be(1)? as u8;
            let (bytes, values) = match b {
                0..=0x7f | 0xe0..=0xff | 0xc0 | 0xc2 | 0xc3 => (0, 0),
                0x80..=0x8f => (0, 2 * (b as usize & 15)),
                0x90..=0x9f => (0, b as usize & 15),
                0xa0..=0xbf => (b as usize & 31, 0),
                0xc4 | 0xd9 => (self.be(1)? as usize, 0),
                0xc5 | 0xda => (self.be(2)? as usize, 0),
                0xc6 | 0xdb => (self.be(4)? as usize, 0),
                0xca | 0xce | 0xd2 => (4, 0),
                0xcb | 0xcf | 0xd3 => (8, 0),
                0xcc | 0xd0 => (1, 0),
                0xcd | 0xd1 => (2, 0),
                0xdc => (0, self.be(2)? as usize),
                0xdd => (0, self.be(4)? as usize),
                0xde => (0, 2 * self.be(2)? as usize),
                0xdf => (0, 2 * self.be(4)? as usize),
                _ => return None,
            };
            self.take(bytes)?;
            left += values;
        }
        Some(())
    }
}

impl Tenure {
    fn walk(&mut self, frame: &[u8], seen: &mut Seen) -> Option<()> {
        let mut c = Cur(frame);
        while !c.0.is_empty() {
            let start = c.0;
            let len = c.array()?;
            let kind = c.uint()? as u32;
            match kind {
                FRAME => {
                    c.uint()?;
                    c.uint()?;
                    let ops = c.array()?;
                    for _ in 0..ops {
                        let n = c.array()?;
                        seen.entities += u32::from(c.uint()? as u32 == SET);
                        for _ in 1..n {
                            c.skip()?;
                        }
                    }
                    seen.update = true;
                }
                TAIL => {
                    seen.ack = Some(c.uint()? as u32);
                    c.uint()?;
                    c.skip()?;
                }
                JOINED => {
                    for _ in 1..len - 1 {
                        c.skip()?;
                    }
                    let rows = c.array()?;
                    for _ in 0..rows {
                        c.array()?;
                        let (space, number, name) = (c.uint()?, c.uint()?, c.text()?);
                        c.skip()?;
                        c.skip()?;
                        if space == 2 && name == b"input" {
                            self.input = Some(number as u8);
                        }
                    }
                    seen.joined = self.input.is_some();
                }
                _ => {
                    if kind == ERROR {
                        eprintln!("refused: {}", String::from_utf8_lossy(start));
                    }
                    for _ in 1..len {
                        c.skip()?;
                    }
                }
            }
        }
        Some(())
    }
}

impl Adapter for Tenure {
    async fn prepare(_: &str, group: usize) -> Result<(Self, String), Error> {
        Ok((Tenure { group, input: None }, "/ws".into()))
    }

    fn hello(&mut self) -> Vec<Bytes> {
        let name = format!("g-{}", self.group);
        let mut join = BytesMut::new();
        join.put_slice(b"\x96\x02\x01\xa5bench\xc0");
        join.put_u8(0xa0 | name.len() as u8);
        join.put_slice(name.as_bytes());
        join.put_u8(0xc0);
        vec![Bytes::from_static(&[0x94, 1, 1, 0xc0, 0xc0]), join.freeze()]
    }

    fn on_frame(&mut self, frame: &[u8], _: &mut Vec<Bytes>) -> Seen {
        let mut seen = Seen::default();
        seen.malformed = self.walk(frame, &mut seen).is_none();
        seen
    }

    fn input(&mut self, seq: u32, dx: f32, dy: f32) -> Bytes {
        let mut b = BytesMut::with_capacity(32);
        b.put_slice(&[0x94, 7, 0xce]);
        b.put_u32(seq);
        b.put_slice(&[self.input.unwrap_or(0), 0x93, 0xce]);
        b.put_u32(seq);
        b.put_u8(0xca);
        b.put_f32(dx);
        b.put_u8(0xca);
        b.put_f32(dy);
        b.freeze()
    }
}
