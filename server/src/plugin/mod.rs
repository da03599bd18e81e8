//! What games implement and are told.

mod reward;

pub use reward::{Audience, Reward};
