//! The demo: a server of the arena. It sees only the framework's public API.

mod arena;
mod census;
mod first;
mod game;
mod pages;

use std::process::ExitCode;

/// Many short-lived worlds on several threads: the system's allocator keeps what they freed, this one gives it back.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    // The other version has another number of census takers: each takes over from the other in a deploy and in a rollback.
    game::main(env!("CARGO_PKG_VERSION"), first::arena, census::census(8).rescale_from(12))
}
