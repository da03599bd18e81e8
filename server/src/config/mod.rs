//! What people configure, and how mistakes in it are reported.

mod diagnostic;

pub use diagnostic::{Diagnostic, LineIndex, nearest, quoted};
