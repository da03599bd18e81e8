//! What both sides of Tenure's wire share: ids, hashing, limits, close codes, messages and the delta encoding.
//! No tokio, no sockets, no clock.

pub mod codes;
pub mod delta;
pub mod filter;
pub mod ids;
pub mod limits;
pub mod msgpack;
pub mod wire;

pub use filter::{Filter, Scalar};
pub use ids::{Generation, IdError, IncarnationId, NetId, PlayerId, RoomId, SeatId, Seq, ShardId, Term, Tick};
