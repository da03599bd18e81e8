//! Reads a public key from PEM: `SubjectPublicKeyInfo` of an RSA, P-256 or Ed25519 key, as every tool writes it.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use jsonwebtoken::{Algorithm, DecodingKey};

const BEGIN: &str = "-----BEGIN PUBLIC KEY-----";
const END: &str = "-----END PUBLIC KEY-----";
/// Contents of the object identifiers.
const RSA: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01, 0x01];
const EC: &[u8] = &[0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01];
const P256: &[u8] = &[0x2a, 0x86, 0x48, 0xce, 0x3d, 0x03, 0x01, 0x07];
const ED25519: &[u8] = &[0x2b, 0x65, 0x70];
/// DER tags.
const SEQUENCE: u8 = 0x30;
const BIT_STRING: u8 = 0x03;
const OID: u8 = 0x06;

/// A public key and the one algorithm it is for.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::gateway) struct PublicKey {
    algorithm: Kind,
    bytes: Vec<u8>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Rs256,
    Es256,
    EdDsa,
}

impl PublicKey {
    /// Reads PEM.
    ///
    /// # Errors
    /// What is wrong with it, for people.
    pub(super) fn from_pem(text: &str) -> Result<Self, &'static str> {
        let start = text.find(BEGIN).ok_or("expected PEM with -----BEGIN PUBLIC KEY-----")? + BEGIN.len();
        let rest = text.get(start..).unwrap_or_default();
        let end = rest.find(END).ok_or("expected PEM with -----END PUBLIC KEY-----")?;
        let body: String = rest.get(..end).unwrap_or_default().split_ascii_whitespace().collect();
        Self::from_der(&STANDARD.decode(body).map_err(|_| "the PEM's base64 is damaged")?)
    }

    fn from_der(der: &[u8]) -> Result<Self, &'static str> {
        let broken = "not a SubjectPublicKeyInfo";
        let mut rest = der;
        let mut info = take(&mut rest, SEQUENCE).filter(|_| rest.is_empty()).ok_or(broken)?;
        let mut algorithm = take(&mut info, SEQUENCE).ok_or(broken)?;
        let bits = take(&mut info, BIT_STRING).ok_or(broken)?;
        // The first byte counts unused bits.
        let key = bits.split_first().filter(|(unused, _)| **unused == 0).ok_or(broken)?.1;
        let kind = match take(&mut algorithm, OID).ok_or(broken)? {
            RSA => Kind::Rs256,
            ED25519 => Kind::EdDsa,
            EC if take(&mut algorithm, OID) == Some(P256) => Kind::Es256,
            EC => return Err("of elliptic curves only P-256 is supported"),
            _ => return Err("expected an RSA, P-256 or Ed25519 key"),
        };
        Ok(Self { algorithm: kind, bytes: key.to_vec() })
    }

    pub(super) fn into_decoding_key(self) -> (DecodingKey, Algorithm) {
        match self.algorithm {
            Kind::Rs256 => (DecodingKey::from_rsa_der(&self.bytes), Algorithm::RS256),
            Kind::Es256 => (DecodingKey::from_ec_der(&self.bytes), Algorithm::ES256),
            Kind::EdDsa => (DecodingKey::from_ed_der(&self.bytes), Algorithm::EdDSA),
        }
    }
}

/// Takes one element with this tag off the front: its contents.
fn take<'a>(der: &mut &'a [u8], tag: u8) -> Option<&'a [u8]> {
    let (&found, rest) = der.split_first()?;
    let (&first, rest) = rest.split_first()?;
    let (len, rest) = if first < 0x80 {
        (usize::from(first), rest)
    } else {
        let (digits, rest) =
            rest.split_at_checked(usize::from(first & 0x7f)).filter(|(digits, _)| digits.len() <= 4)?;
        (digits.iter().fold(0, |len, digit| len << 8 | usize::from(*digit)), rest)
    };
    let (contents, rest) = rest.split_at_checked(len)?;
    *der = rest;
    (found == tag).then_some(contents)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ED: &str = "-----BEGIN PUBLIC KEY-----\nMCowBQYDK2VwAyEA11qYAYKxCrfVS/7TyWQHOg7hcvPapiMlrwIaaPcHURo=\n-----END PUBLIC KEY-----\n";

    #[test]
    fn an_ed25519_key_is_read() {
        let key = PublicKey::from_pem(ED).expect("a key");
        assert_eq!(key.algorithm, Kind::EdDsa);
        assert_eq!(key.bytes.len(), 32);
        assert_eq!(key.bytes[..2], [0xd7, 0x5a]);
    }

    #[test]
    fn damaged_keys_are_refused() {
        assert!(PublicKey::from_pem("").is_err());
        assert!(PublicKey::from_pem(&ED.replace("PUBLIC KEY", "PRIVATE KEY")).is_err());
        assert!(PublicKey::from_pem(&ED.replace("MCow", "MC?w")).is_err());
        let der = STANDARD.decode("MCowBQYDK2VwAyEA11qYAYKxCrfVS/7TyWQHOg7hcvPapiMlrwIaaPcHURo=").expect("base64");
        for cut in 0..der.len() {
            assert!(PublicKey::from_der(&der[..cut]).is_err(), "cut at {cut}");
        }
        for at in 0..der.len() {
            let mut changed = der.clone();
            changed[at] ^= 0xff;
            // Must not panic; bytes of the key itself may change freely.
            assert!(PublicKey::from_der(&changed).is_err() || at >= 12);
        }
    }
}
