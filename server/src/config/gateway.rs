//! `[gateway]`: players' sockets, who may log in, and every limit that protects the server from its clients (H11).

use std::{net::SocketAddr, path::PathBuf, time::Duration};

use tenure_shared::limits;

use super::{
    Network,
    rule::{
        HOUR, KIB, MIB, MINUTE, SECOND, duration, listen, ms, networks, number, one_of, optional_path, optional_text,
        size, switch, texts,
    },
    section::section,
};

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

section! {
    /// Players' sockets and their limits.
    GatewayConfig in "gateway" {
        /// Where players connect: pages by HTTP, the game at `/ws`.
        listen: SocketAddr = listen();
        /// Origins of pages that may connect; empty: the page's host must be the one it connects to; `*`: any.
        origins: Vec<String> = texts(256);
        /// Who may play without a token.
        guests: Guests =
            one_of(&[("never", Guests::Never), ("loopback", Guests::Loopback), ("always", Guests::Always)]);
        /// File with the secret that signs players' tokens (HS256).
        auth_secret_file: Option<PathBuf> = optional_path();
        /// File with the public key (PEM) that players' tokens are checked with.
        auth_public_key_file: Option<PathBuf> = optional_path();
        /// The `iss` that a token must carry.
        auth_issuer: Option<String> = optional_text(256);
        /// The `aud` that a token must carry.
        auth_audience: Option<String> = optional_text(256);
        /// How far clocks may differ when a token's times are judged.
        auth_leeway: Duration = duration(Duration::ZERO..=10 * MINUTE);
        /// Largest message of a client that is logged in.
        client_message: usize = size(256..=MIB);
        /// Largest message before that.
        login_message: usize = size(256..=64 * KIB);
        /// Messages per second of one socket.
        messages_per_second: u32 = number(1..=100_000);
        /// Messages at once after a pause.
        messages_burst: u32 = number(1..=1_000_000);
        /// Bytes per second of one socket.
        bytes_per_second: usize = size(KIB..=1_024 * MIB);
        /// Deepest nesting of MessagePack.
        nesting_depth: usize = number(1..=limits::NESTING_DEPTH);
        /// Longest array or map of MessagePack.
        collection_length: usize = number(1..=limits::COLLECTION_LENGTH);
        /// Bytes that wait for one slow client.
        outgoing_bytes: usize = size(16 * KIB..=64 * MIB);
        /// Age of waiting bytes at which superseded state is dropped for one snapshot.
        resync_after: Duration = duration(ms(50)..=MINUTE);
        /// Age of waiting bytes at which the socket is closed.
        close_after: Duration = duration(ms(100)..=10 * MINUTE);
        /// Time for the head of the HTTP request and the WebSocket handshake.
        handshake_timeout: Duration = duration(ms(100)..=MINUTE);
        /// Time for the login after it.
        login_timeout: Duration = duration(ms(100)..=MINUTE);
        /// Time between pings.
        ping_every: Duration = duration(ms(100)..=HOUR);
        /// Silence after which a socket is taken for half-open.
        idle_timeout: Duration = duration(SECOND..=HOUR);
        /// Sockets of one address.
        sockets_per_address: usize = number(1..=1_000_000);
        /// Whether that bound also counts for this machine itself, where load tests and proxies live.
        count_loopback: bool = switch();
        /// Proxies whose `X-Forwarded-For` says who the client is; from anybody else it is not looked at.
        trusted_proxies: Vec<Network> = networks(256);
        /// Sockets in all; more are answered 503.
        sockets: usize = number(1..=10_000_000);
        /// Rooms that one player may create in a minute.
        creates_per_minute: u32 = number(1..=100_000);
        /// Tasks that write rooms' frames to sockets; 0: one per core.
        fanout_tasks: usize = number(0..=1_024);
    }
}
