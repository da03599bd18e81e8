//! Frames of the WebSocket protocol as a server writes them: never masked, never fragmented.

use tenure_shared::codes::CloseCode;

const BINARY: u8 = 0x82;
const CLOSE: u8 = 0x88;
const PING: u8 = 0x89;

/// A ping without payload.
pub(super) const PING_FRAME: [u8; 2] = [PING, 0];

/// The header of a binary message; lives on the stack of whoever writes it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Head {
    bytes: [u8; 10],
    len: u8,
}

impl Head {
    /// For a message of `len` bytes.
    pub(super) fn binary(len: usize) -> Self {
        let mut bytes = [0; 10];
        bytes[0] = BINARY;
        let len = if len < 126 {
            bytes[1] = len as u8;
            2
        } else if let Ok(short) = u16::try_from(len) {
            bytes[1] = 126;
            bytes[2..4].copy_from_slice(&short.to_be_bytes());
            4
        } else {
            bytes[1] = 127;
            bytes[2..10].copy_from_slice(&(len as u64).to_be_bytes());
            10
        };
        Self { bytes, len }
    }

    /// The header's bytes.
    pub(super) fn as_slice(&self) -> &[u8] {
        &self.bytes[..usize::from(self.len)]
    }
}

/// A whole close frame. A reason longer than a control frame holds is cut at a character.
pub(super) fn close(code: CloseCode, reason: &str) -> Vec<u8> {
    let mut end = reason.len().min(123);
    while !reason.is_char_boundary(end) {
        end -= 1;
    }
    let mut out = Vec::with_capacity(4 + end);
    out.push(CLOSE);
    out.push(2 + end as u8);
    out.extend_from_slice(&code.code().to_be_bytes());
    out.extend_from_slice(&reason.as_bytes()[..end]);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_are_written_in_the_shortest_form() {
        assert_eq!(Head::binary(0).as_slice(), [0x82, 0]);
        assert_eq!(Head::binary(125).as_slice(), [0x82, 125]);
        assert_eq!(Head::binary(126).as_slice(), [0x82, 126, 0, 126]);
        assert_eq!(Head::binary(65_535).as_slice(), [0x82, 126, 0xff, 0xff]);
        assert_eq!(Head::binary(65_536).as_slice(), [0x82, 127, 0, 0, 0, 0, 0, 1, 0, 0]);
    }

    #[test]
    fn a_close_frame_never_exceeds_a_control_frame() {
        let long = close(CloseCode::Superseded, &"é".repeat(100));
        assert_eq!(long.len(), 2 + usize::from(long[1]));
        assert!(long[1] <= 125);
        assert_eq!(&long[2..4], &[0x0f, 0xa4]);
        assert!(std::str::from_utf8(&long[4..]).is_ok());
    }
}
