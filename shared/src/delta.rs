//! State as a sequence of operations (`docs/wire.md`, "Operations"): the writer that rooms use and the view that
//! clients, bots and tests keep.

mod view;
mod writer;

pub use view::{Error, View, ViewBounds, ViewFault};
pub use writer::{Op, OpsWriter};

#[cfg(test)]
mod tests;
