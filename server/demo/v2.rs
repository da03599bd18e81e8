//! The demo's second version: the same program around another version of the game, for deploys and rollbacks.

mod arena;
mod pages;
mod second;

use std::process::ExitCode;

/// Many short-lived worlds on several threads: the system's allocator keeps what they freed, this one gives it back.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    tenure::App::new("arena", concat!(env!("CARGO_PKG_VERSION"), "+v2"))
        .room("arena", second::arena)
        .room("drill", second::drill)
        .room("quarry", second::quarry)
        .room("skirmish", second::skirmish)
        .pages(pages::Pages)
        .rewards("config/rewards.toml (built in)", include_str!("../../config/rewards.toml"))
        .main()
}
