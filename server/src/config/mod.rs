//! What people configure. This part holds the players' side alone.

mod gateway;

pub use gateway::{GatewayConfig, Guests};
