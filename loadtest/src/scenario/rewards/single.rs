//! The scenario on one server with the embedded store.

use std::path::Path;

use super::{Payday, Place};
use crate::{
    args::RunArgs,
    audit::Audit,
    child::{self, Launch, scratch},
    report,
    run::{self, Setup},
    scenario::kill::{check_bots, check_history, check_ledgers},
    verdict,
};

/// Runs it.
///
/// # Errors
/// When it cannot run; the folder with the server's log and data is then kept.
pub(super) async fn run(args: &RunArgs, program: &Path, payday: &mut Payday) -> anyhow::Result<u8> {
    let folder = scratch("rewards")?;
    // The same port each time, so that bots come back.
    let port = std::net::TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
    let mut launch = Launch::server(program, &folder, port, &args.server_arg);
    let result = play(args, &mut launch, payday).await;
    child::clear(&folder, &result)?;
    result
}

async fn play(args: &RunArgs, launch: &mut Launch, payday: &mut Payday) -> anyhow::Result<u8> {
    let mut server = Some(launch.start().await?);
    let url = server.as_ref().map(|server| server.url.clone()).unwrap_or_default();
    let args = RunArgs { url, ready_file: None, ..args.clone() };
    let setup = Setup::new(&args, 0).await?;
    let bar = run::progress();
    let (fleet, joined_in) = run::assemble(&args, &setup, true, &bar).await?;
    let counts = fleet.counts();
    let mut place = Place::One(launch, &mut server);
    let disturbing = Box::pin(payday.run(&mut place, &counts));
    let ((), outcome) = run::measure_during(&args, &setup, fleet, joined_in, &bar, disturbing).await?;

    let mut audit = Audit::default();
    let mut verdict = verdict::judge_audited(&args.bounds, &outcome);
    check_bots(&args, &outcome, &mut audit, &mut verdict);
    payday.conclude(&mut verdict);
    check_ledgers(launch, &outcome.records, &mut audit).await?;
    check_history(launch, &mut verdict).await?;
    audit.conclude(&mut verdict);
    payday.judge.conclude(&outcome, &audit, &mut verdict);
    let stopped = match server {
        Some(server) => server.stop().await?,
        None => false,
    };
    verdict.check("SIGTERM ends the server with 0", stopped, "see the log", "exit code 0");
    let (line, figures) = payday.figures();
    report::say(&format!(
        "  {line}; embedded store; {} grants shown, {} ledger lines audited",
        audit.grants, audit.lines
    ));
    let more = serde_json::json!({ "store": "embedded", "audit": audit.json(), "plot": figures });
    report::publish(&args, "rewards", &outcome, &verdict, &more)?;
    Ok(verdict.exit_code())
}
