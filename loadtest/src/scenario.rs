//! What a run can do. The plain ones are here; those with a plot of their own have a file.

pub(crate) mod bad_clients;
pub(crate) mod churn;
pub(crate) mod compare;
pub(crate) mod daemons;
pub(crate) mod kill;
pub(crate) mod matchmaking;
mod on_cluster;
pub(crate) mod rewards;
pub(crate) mod rolling_deploy;
pub(crate) mod store_faults;
pub(crate) mod takeover;

use serde_json::Value;

use crate::{
    args::{BaselineArgs, RunArgs},
    report,
    run::{self, Setup},
    verdict,
};

/// Bots join, steer and measure.
///
/// # Errors
/// When it cannot run.
pub(crate) async fn play(args: &RunArgs) -> anyhow::Result<u8> {
    let setup = Setup::new(args, 0).await?;
    let bar = run::progress();
    let (fleet, joined_in) = run::assemble(args, &setup, false, &bar).await?;
    let outcome = run::measure(args, &setup, fleet, joined_in, &bar, |time| time < args.duration).await?;
    bar.finish_and_clear();
    let mut verdict = verdict::judge(&args.bounds, &outcome);
    let missing = u64::from(args.players).saturating_sub(outcome.stats.counters.joins);
    if missing > 0 {
        verdict.check("bots without a seat", false, missing, 0);
    }
    report::publish(args, "play", &outcome, &verdict, &Value::Null)?;
    Ok(verdict.exit_code())
}

/// Serves the bare baseline until the process is ended.
///
/// # Errors
/// When it cannot listen.
pub(crate) async fn baseline(args: &BaselineArgs) -> anyhow::Result<u8> {
    // As many files as the system allows; how many bots come is not known here.
    if let Err(why) = crate::host::raise_file_limit(10_000) {
        report::say(&format!("note: {why}"));
    }
    let listener = tokio::net::TcpListener::bind(&args.listen).await?;
    let play = listener.local_addr()?.to_string();
    if let Some(file) = &args.ready_file {
        let ready = serde_json::json!({ "play": play, "pid": std::process::id() });
        report::write(file, &ready.to_string())?;
    }
    report::say(&format!("baseline on ws://{play}/ws"));
    let ends = crate::baseline::Ends { cut_after: args.cut_after, move_after: args.move_after };
    crate::baseline::serve(listener, ends, Default::default()).await?;
    Ok(0)
}

#[cfg(test)]
mod tests;
