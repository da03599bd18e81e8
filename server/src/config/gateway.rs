//! `[gateway]`: players' sockets, who may log in, and every limit that protects the server from its clients (H11).

use std::{net::SocketAddr, path::PathBuf, time::Duration};

use tenure_shared::limits;

/// Who may play without a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Guests {
    /// Nobody.
    Never,
    /// Whoever comes from this machine.
    Loopback,
    /// Everybody.
    Always,
}

/// Players' sockets and their limits.
#[derive(Clone, Debug, PartialEq)]
pub struct GatewayConfig {
    /// Where players connect: pages by HTTP, the game at `/ws`.
    pub listen: SocketAddr,
    /// Origins of pages that may connect; empty: the page's host must be the one it connects to; `*`: any.
    pub origins: Vec<String>,
    /// Who may play without a token.
    pub guests: Guests,
    /// File with the secret that signs players' tokens (HS256).
    pub auth_secret_file: Option<PathBuf>,
    /// File with the public key (PEM) that players' tokens are checked with.
    pub auth_public_key_file: Option<PathBuf>,
    /// The `iss` that a token must carry.
    pub auth_issuer: Option<String>,
    /// The `aud` that a token must carry.
    pub auth_audience: Option<String>,
    /// How far clocks may differ when a token's times are judged.
    pub auth_leeway: Duration,
    /// Largest message of a client that is logged in.
    pub client_message: usize,
    /// Largest message before that.
    pub login_message: usize,
    /// Messages per second of one socket.
    pub messages_per_second: u32,
    /// Messages at once after a pause.
    pub messages_burst: u32,
    /// Bytes per second of one socket.
    pub bytes_per_second: usize,
    /// Deepest nesting of MessagePack.
    pub nesting_depth: usize,
    /// Longest array or map of MessagePack.
    pub collection_length: usize,
    /// Bytes that wait for one slow client.
    pub outgoing_bytes: usize,
    /// Age of waiting bytes at which superseded state is dropped for one snapshot.
    pub resync_after: Duration,
    /// Age of waiting bytes at which the socket is closed.
    pub close_after: Duration,
    /// Time for the head of the HTTP request and the WebSocket handshake.
    pub handshake_timeout: Duration,
    /// Time for the login after it.
    pub login_timeout: Duration,
    /// Time between pings.
    pub ping_every: Duration,
    /// Silence after which a socket is taken for half-open.
    pub idle_timeout: Duration,
    /// Sockets of one address.
    pub sockets_per_address: usize,
    /// Whether the bound per address also counts for this machine itself, where load tests and proxies live.
    pub count_loopback: bool,
    /// Sockets in all; more are answered 503.
    pub sockets: usize,
    /// Rooms that one player may create in a minute.
    pub creates_per_minute: u32,
    /// Tasks that write rooms' frames to sockets; 0: one per core.
    pub fanout_tasks: usize,
}

impl Default for GatewayConfig {
    fn default() -> Self {
        let seconds = Duration::from_secs;
        Self {
            listen: SocketAddr::from(([127, 0, 0, 1], 7777)),
            origins: Vec::new(),
            guests: Guests::Loopback,
            auth_secret_file: None,
            auth_public_key_file: None,
            auth_issuer: None,
            auth_audience: None,
            auth_leeway: seconds(30),
            client_message: limits::CLIENT_MESSAGE_BYTES,
            login_message: limits::LOGIN_MESSAGE_BYTES,
            messages_per_second: 60,
            messages_burst: 120,
            bytes_per_second: 64 * 1024,
            nesting_depth: limits::NESTING_DEPTH,
            collection_length: limits::COLLECTION_LENGTH,
            outgoing_bytes: 256 * 1024,
            resync_after: seconds(1),
            close_after: seconds(10),
            handshake_timeout: seconds(5),
            login_timeout: seconds(5),
            ping_every: seconds(10),
            idle_timeout: seconds(25),
            sockets_per_address: 256,
            count_loopback: false,
            sockets: 20_000,
            creates_per_minute: 6,
            fanout_tasks: 0,
        }
    }
}
