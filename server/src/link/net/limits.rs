//! Bounds of links, with their defaults and why they are what they are.

use std::time::Duration;

use crate::config::LinkConfig;

/// Links that a node keeps: gateways of a cluster, with room for those that come again before their old link is found dead.
const LINKS: usize = 1_024;
/// Connections that have not proved anything yet.
const HANDSHAKES: usize = 64;
/// Of these, from one address: gateways of one machine that come at the same moment. Who is refused comes again after a moment.
const HANDSHAKES_PER_ADDRESS: usize = 8;
/// A gateway's time for connecting, and again for the handshake: two round trips, on a bad day.
const HANDSHAKE_TIME: Duration = Duration::from_secs(3);
/// A node's time for the handshake, which begins when the stream is open.
const PROVE_TIME: Duration = Duration::from_millis(1_500);
/// Bytes for one gateway up to which frames are taken: a second of a thousand busy rooms.
const FRAME_BYTES: usize = 8 * 1024 * 1024;
/// Bytes for one gateway up to which anything is taken.
const DOWN_BYTES: usize = 32 * 1024 * 1024;
/// Bytes for one node: what players say in several seconds. What does not fit stays in the seats' rings.
const UP_BYTES: usize = 4 * 1024 * 1024;
/// Bytes of one gateway that wait because their rooms' inboxes are full: four rooms that stand still.
const PARKED_BYTES: usize = 8 * 1024 * 1024;
/// Of these, bytes for one room: more than a second of two hundred busy players. What does not fit stays in the seats' rings.
const ROOM_PARKED_BYTES: usize = 2 * 1024 * 1024;
/// Bytes that are read on while nothing can be handled, so that a peer that is alive is heard.
const READ_AHEAD: usize = 256 * 1024;
/// How long a gateway may take nothing of what waits for it.
const DEAF_TIME: Duration = Duration::from_secs(10);

/// Bounds of one link, and of all links of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Links that a node keeps at a time.
    pub links: usize,
    /// Connections at a time that have not proved anything yet.
    pub handshakes: usize,
    /// The same from one address; at least one.
    pub handshakes_per_address: usize,
    /// Longest time of a gateway for connecting, and again for the handshake.
    pub handshake_time: Duration,
    /// Longest time of a node for the handshake.
    pub prove_time: Duration,
    /// How long nothing is sent before a ping is.
    pub ping_every: Duration,
    /// How long nothing may be heard.
    pub idle_timeout: Duration,
    /// Bytes waiting for one gateway at which frames are refused.
    pub frame_bytes: usize,
    /// Bytes waiting for one gateway at which everything is refused.
    pub down_bytes: usize,
    /// Bytes waiting for one node at which everything is refused.
    pub up_bytes: usize,
    /// Bytes of one gateway that wait for rooms whose inboxes are full. Beyond it inputs are refused, and their seats are to be attached
    /// again; at twice as much reading pauses.
    pub parked_bytes: usize,
    /// The same for one room.
    pub room_parked_bytes: usize,
    /// Bytes that are read while reading pauses: as long as there are less, a peer that says nothing is found to be silent.
    pub read_ahead: usize,
    /// How long a gateway may take nothing of what waits for it, alive or not: then its link ends, and its seats are let go.
    pub deaf_time: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self::new(&LinkConfig::default())
    }
}

impl Limits {
    /// The defaults, with what is configured.
    pub fn new(config: &LinkConfig) -> Self {
        Self {
            links: LINKS,
            handshakes: HANDSHAKES,
            handshakes_per_address: HANDSHAKES_PER_ADDRESS,
            handshake_time: HANDSHAKE_TIME,
            prove_time: PROVE_TIME,
            ping_every: config.ping_every,
            idle_timeout: config.idle_timeout,
            frame_bytes: FRAME_BYTES,
            down_bytes: DOWN_BYTES,
            up_bytes: UP_BYTES,
            parked_bytes: PARKED_BYTES,
            room_parked_bytes: ROOM_PARKED_BYTES,
            read_ahead: READ_AHEAD,
            deaf_time: DEAF_TIME,
        }
    }
}
