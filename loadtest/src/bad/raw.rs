//! WebSocket frames as no library would write them.

/// Kinds of frames (RFC 6455, 5.2).
pub(super) const CONTINUATION: u8 = 0;
pub(super) const TEXT: u8 = 1;
pub(super) const BINARY: u8 = 2;
pub(super) const PING: u8 = 9;

/// A client's frame with an honest length. The mask is zero, so the payload stands as it is.
pub(super) fn frame(fin: bool, opcode: u8, payload: &[u8]) -> Vec<u8> {
    let mut out = header(fin, opcode, payload.len() as u64, true);
    out.extend_from_slice(payload);
    out
}

/// A frame's header that claims `length` bytes, in the shortest form; with a mask of zeros if `masked`.
pub(super) fn header(fin: bool, opcode: u8, length: u64, masked: bool) -> Vec<u8> {
    let mask = u8::from(masked) << 7;
    let mut out = vec![u8::from(fin) << 7 | opcode];
    match length {
        0..=125 => out.push(mask | length as u8),
        126..=0xffff => {
            out.push(mask | 126);
            out.extend_from_slice(&(length as u16).to_be_bytes());
        }
        _ => {
            out.push(mask | 127);
            out.extend_from_slice(&length.to_be_bytes());
        }
    }
    if masked {
        out.extend_from_slice(&[0; 4]);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_have_the_form_of_the_standard() {
        assert_eq!(header(true, BINARY, 1 << 32, true), [0x82, 0xff, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(frame(false, TEXT, b"hi"), [0x01, 0x82, 0, 0, 0, 0, b'h', b'i']);
        assert_eq!(header(true, PING, 300, false), [0x89, 126, 1, 44]);
    }
}
