//! The other end of a link, byte by byte.

use ring::hmac;
use tenure::link::net::PROTOCOL;
use tenure_shared::msgpack::{array_head, bin, text, uint};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};

use crate::support::soon;

pub(crate) const GATEWAY: u8 = 1;
pub(crate) const NODE: u8 = 2;

/// Bytes on one end of a stream.
pub(crate) struct Raw<S>(pub(crate) S);

impl<S: AsyncRead + AsyncWrite + Unpin> Raw<S> {
    pub(crate) async fn send(&mut self, packet: &[u8]) {
        let length = (packet.len() as u32).to_be_bytes();
        // The peer may have closed already: that is what some tests look for.
        let _closed = self.0.write_all(&[&length, packet].concat()).await;
    }

    pub(crate) async fn receive(&mut self) -> Option<Vec<u8>> {
        let mut length = [0; 4];
        soon(self.0.read_exact(&mut length)).await.ok()?;
        let mut packet = vec![0; u32::from_be_bytes(length) as usize];
        soon(self.0.read_exact(&mut packet)).await.ok()?;
        Some(packet)
    }

    /// Nothing more comes, not even a proof.
    pub(crate) async fn expect_end(&mut self) {
        let mut rest = Vec::new();
        let end = soon(self.0.read_to_end(&mut rest)).await;
        assert!(rest.is_empty(), "{end:?}, {rest:?}");
    }

    /// A handshake without a secret; the peer must be able to write its hello before it reads.
    pub(crate) async fn greet(&mut self, role: u8) {
        self.send(&hello(role, PROTOCOL, false, 7)).await;
        self.receive().await.expect("a hello");
    }
}

pub(crate) const NONCE: [u8; 32] = [0x5a; 32];

pub(crate) fn hello(role: u8, version: u32, has_secret: bool, cluster: u64) -> Vec<u8> {
    let mut out = Vec::new();
    array_head(&mut out, 7);
    for n in [1, version, u32::from(role)] {
        uint(&mut out, u64::from(n));
    }
    text(&mut out, "raw");
    bin(&mut out, &cluster.to_be_bytes());
    uint(&mut out, u64::from(has_secret));
    bin(&mut out, &NONCE);
    out
}

pub(crate) fn proof(mac: &[u8]) -> Vec<u8> {
    let mut out = vec![0x92, 2];
    bin(&mut out, mac);
    out
}

/// As `docs/links.md` says it: signed by `role`, for two peers of cluster 7.
pub(crate) fn mac(secret: &[u8], role: u8, gateway: (&str, &[u8]), node: (&str, &[u8])) -> Vec<u8> {
    let mut all = b"tenure link".to_vec();
    all.extend_from_slice(&PROTOCOL.to_be_bytes());
    all.push(role);
    for (name, nonce) in [gateway, node] {
        all.extend_from_slice(nonce);
        all.extend_from_slice(&7_u64.to_be_bytes());
        all.extend_from_slice(&(name.len() as u64).to_be_bytes());
        all.extend_from_slice(name.as_bytes());
    }
    hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, secret), &all).as_ref().to_vec()
}

/// The nonce of a hello: its last field.
pub(crate) fn nonce_of(hello: &[u8]) -> Vec<u8> {
    hello[hello.len() - 32..].to_vec()
}
