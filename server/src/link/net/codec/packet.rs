//! Writes one packet: small things into one buffer, long byte strings as segments between its parts.

use bytes::Bytes;
use smallvec::SmallVec;
use tenure_shared::msgpack::{array_head, bin, bin_head, nil, opt_uint, text, uint};

use super::{LENGTH, PACKET_BYTES};

/// Byte strings shorter than this are copied: a segment of its own costs more than the copy.
const COPY_BELOW: usize = 1_024;

/// A message would be longer than what its reader takes: [`PACKET_BYTES`], or [`super::PEER_BYTES`] between nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a message of {0} bytes is longer than a link of its kind carries")]
pub(in super::super) struct TooLong(pub(in super::super) usize);

/// One message, length included, ready to be written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in super::super) struct Packet {
    pub(in super::super) segments: SmallVec<[Bytes; 3]>,
    /// Bytes of all segments.
    pub(in super::super) len: usize,
}

/// A packet that is being written.
pub(in super::super) struct Out {
    buf: Vec<u8>,
    /// Long byte strings, and where in `buf` each belongs.
    long: SmallVec<[(usize, Bytes); 2]>,
}

impl Out {
    /// Begins the array: its number, and how many fields follow.
    pub(in super::super) fn new(number: u8, fields: usize) -> Self {
        let mut buf = Vec::with_capacity(96);
        buf.extend_from_slice(&[0; LENGTH]);
        array_head(&mut buf, fields + 1);
        uint(&mut buf, u64::from(number));
        Self { buf, long: SmallVec::new() }
    }

    pub(in super::super) fn uint(&mut self, n: impl Into<u64>) {
        uint(&mut self.buf, n.into());
    }

    pub(in super::super) fn opt_uint(&mut self, n: Option<u64>) {
        opt_uint(&mut self.buf, n);
    }

    pub(in super::super) fn flag(&mut self, yes: bool) {
        self.uint(u8::from(yes));
    }

    /// A text, cut to `most` bytes: an overlong one must not end the link.
    pub(in super::super) fn text(&mut self, all: &str, most: usize) {
        text(&mut self.buf, &all[..all.floor_char_boundary(most)]);
    }

    pub(in super::super) fn opt_text(&mut self, all: Option<&str>, most: usize) {
        match all {
            Some(all) => self.text(all, most),
            None => self.nil(),
        }
    }

    pub(in super::super) fn nil(&mut self) {
        nil(&mut self.buf);
    }

    pub(in super::super) fn array(&mut self, len: usize) {
        array_head(&mut self.buf, len);
    }

    /// A hash, 8 bytes: as on the client's wire.
    pub(in super::super) fn hash(&mut self, hash: u64) {
        self.slice(&hash.to_be_bytes());
    }

    pub(in super::super) fn slice(&mut self, bytes: &[u8]) {
        bin(&mut self.buf, bytes);
    }

    pub(in super::super) fn bytes(&mut self, bytes: &Bytes) {
        if bytes.len() < COPY_BELOW {
            self.slice(bytes);
        } else {
            bin_head(&mut self.buf, bytes.len());
            self.long.push((self.buf.len(), bytes.clone()));
        }
    }

    pub(in super::super) fn done(mut self) -> Result<Packet, TooLong> {
        let len = self.buf.len() + self.long.iter().map(|(_, bytes)| bytes.len()).sum::<usize>();
        let inside = len - LENGTH;
        let length = u32::try_from(inside).ok().filter(|_| inside <= PACKET_BYTES).ok_or(TooLong(inside))?;
        self.buf[..LENGTH].copy_from_slice(&length.to_be_bytes());
        let mut rest = Bytes::from(self.buf);
        let (mut segments, mut cut) = (SmallVec::new(), 0);
        for (at, bytes) in self.long {
            segments.push(rest.split_to(at - cut));
            segments.push(bytes);
            cut = at;
        }
        if !rest.is_empty() {
            segments.push(rest);
        }
        Ok(Packet { segments, len })
    }
}
