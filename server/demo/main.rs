//! The demo: a server of the arena. It sees only the framework's public API.

mod arena;
mod pages;

use std::process::ExitCode;

fn main() -> ExitCode {
    tenure::App::new("arena", env!("CARGO_PKG_VERSION"))
        .room("arena", arena::arena)
        .pages(pages::Pages)
        .rewards("config/rewards.toml (built in)", include_str!("../../config/rewards.toml"))
        .main()
}
