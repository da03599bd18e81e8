//! How messages stand on a link: a length of four bytes, big endian, and one MessagePack array `[number, …]` (`docs/links.md`).
//!
//! Long byte strings are not copied: a [`Packet`] has them as segments of their own between the written parts, and what is read
//! from a packet is a slice of it.

mod fields;
mod packet;
mod to_gateway;
mod to_node;
mod to_peer;

#[cfg(test)]
mod tests;

pub(super) use fields::Fields;
pub(super) use packet::{Out, Packet, TooLong};
pub(super) use to_gateway::{read_to_gateway, write_to_gateway};
pub(super) use to_node::{read_to_node, write_to_node};
pub(super) use to_peer::{read_to_peer, write_to_peer};

/// Longest packet, bytes: a snapshot of the largest room (16 MiB) for a few members at a time. What is longer in a length is refused before anything
/// is reserved (C42).
pub const PACKET_BYTES: usize = 64 * 1024 * 1024;
/// Longest packet between room nodes, bytes: a package of as many rooms as there may be takes 100 KiB, an offer some KiB, a message of a daemon
/// 64 KiB.
pub const PEER_BYTES: usize = 256 * 1024;
/// Most members in one frame: a node has fewer sockets than that behind one gateway.
pub const FRAME_MEMBERS: usize = 65_536;
/// Longest text for people or programs in a message, bytes.
pub const TEXT_BYTES: usize = 1_024;
/// Longest address in a message, bytes, as `link.advertise` may be.
pub const ADDRESS_BYTES: usize = 256;

/// Bytes of the length in front of a packet.
pub(super) const LENGTH: usize = 4;
/// "I am here": what is sent when there is nothing else. It has no answer.
pub(super) const PING: &[u8] = &[0, 0, 0, 2, 0x91, 0x00];

/// Packets of one message; more than one only for a restored room, whose members go in parts.
pub(super) type Packets = smallvec::SmallVec<[Packet; 1]>;
