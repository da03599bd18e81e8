//! The demo: a server of the arena. It sees only the framework's public API.

mod arena;
mod first;
mod pages;

use std::process::ExitCode;

/// Many short-lived worlds on several threads: the system's allocator keeps what they freed, this one gives it back.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    tenure::App::new("arena", env!("CARGO_PKG_VERSION"))
        .room("arena", first::arena)
        .room("drill", first::drill)
        .room("quarry", first::quarry)
        .room("skirmish", first::skirmish)
        .pages(pages::Pages)
        .rewards("config/rewards.toml (built in)", include_str!("../../config/rewards.toml"))
        .main()
}
