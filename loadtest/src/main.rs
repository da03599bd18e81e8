//! Bots over real WebSockets: latency from the planned send time, scenarios with an audit, a report.

#![recursion_limit = "256"]
#![allow(clippy::disallowed_methods, reason = "a load generator lives on real time and its own tasks")]

use std::process::ExitCode;

use clap::Parser;

mod admin;
mod args;
mod audit;
mod bad;
mod baseline;
mod bot;
mod child;
mod cluster;
mod fleet;
mod host;
mod net;
mod owners;
mod proxy;
mod redis;
mod report;
mod run;
mod scenario;
mod stats;
mod verdict;

use args::{Cli, Command, Scenario};

fn main() -> ExitCode {
    let cli = Cli::parse();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let result = runtime.map_err(anyhow::Error::from).and_then(|runtime| runtime.block_on(dispatch(&cli)));
    match result {
        Ok(code) => ExitCode::from(code),
        Err(error) => {
            report::say(&format!("INVALID could not run: {error:#}"));
            ExitCode::from(2)
        }
    }
}

async fn dispatch(cli: &Cli) -> anyhow::Result<u8> {
    match &cli.command {
        Some(Command::Baseline(args)) => scenario::baseline(args).await,
        Some(Command::Compare(args)) => scenario::compare::run(args).await,
        None => match cli.run.scenario {
            Scenario::Play => scenario::play(&cli.run).await,
            Scenario::BadClients => scenario::bad_clients::run(&cli.run).await,
            Scenario::Kill => scenario::kill::run(&cli.run).await,
            Scenario::Takeover => scenario::takeover::run(&cli.run).await,
            Scenario::Daemons => scenario::daemons::run(&cli.run).await,
            Scenario::StoreFaults => scenario::store_faults::run(&cli.run).await,
            Scenario::Rewards => scenario::rewards::run(&cli.run).await,
            Scenario::RollingDeploy => scenario::rolling_deploy::run(&cli.run).await,
            Scenario::Churn => scenario::churn::run(&cli.run).await,
            Scenario::Matchmaking => scenario::matchmaking::run(&cli.run).await,
        },
    }
}
