//! Links between processes: one multiplexed, length-delimited stream per pair of gateway and node (`docs/links.md`).
//!
//! [`listen`] is the node's side, [`Dialer`] the gateway's; [`serve`] and [`client`] are one link each, over any stream. Nothing
//! is sent before both ends have proved that they hold the cluster's secret; without a secret a link stays on the machine.
//!
//! Room nodes speak to each other over streams of their own kind, one per direction: [`PeerDialer`] opens them, the listener takes them too.
//!
//! No end ever waits in `send`: what a queue has no room for comes back as `Full`. From node to gateway frames are refused first,
//! so that answers still pass while a gateway reads slowly. What a room's inbox has no room for waits in order, per room, and
//! other rooms go on. A peer that is silent is taken for dead (C41), whether or not its system still acknowledges.

mod alarm;
mod codec;
mod dial;
mod gateway_end;
mod handshake;
mod inbound;
mod life;
mod limits;
mod listen;
mod metrics;
mod node_end;
mod peers;
mod queue;
mod read;
mod site;
mod write;

pub use codec::{ADDRESS_BYTES, FRAME_MEMBERS, PACKET_BYTES, PEER_BYTES, TEXT_BYTES};
pub use dial::{Dialer, client};
pub use handshake::PROTOCOL;
pub use limits::Limits;
pub use listen::{LinkParts, listen, serve};
pub use peers::PeerDialer;
pub use site::{Common, Peer, Site};
