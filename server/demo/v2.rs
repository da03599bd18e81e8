//! The demo's second version: the same program around another version of the game, for deploys and rollbacks.

mod arena;
mod census;
mod game;
mod pages;
mod second;

use std::process::ExitCode;

/// Many short-lived worlds on several threads: the system's allocator keeps what they freed, this one gives it back.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    // The other version has another number of census takers: each takes over from the other in a deploy and in a rollback.
    game::main(concat!(env!("CARGO_PKG_VERSION"), "+v2"), second::arena, census::census(12).rescale_from(8))
}
