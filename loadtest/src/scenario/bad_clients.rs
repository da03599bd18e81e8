//! Honest bots play while bad clients attack: neither their ticks nor the server's memory may show it.

use serde_json::Value;

use crate::{
    args::{Bounds, RunArgs},
    bad::Horde,
    host, report,
    run::{self, Setup},
    verdict::{self, Verdict},
};

/// Bounds of the honest bots where none are stated: they lose no connection, and no tick is visibly late.
const MAX_LATENESS_MS: f64 = 50.0;
const MAX_PAUSE_MS: f64 = 500.0;
/// Memory that the attacks may cost the server where no bound is stated, MiB.
const MAX_GROWTH_MIB: f64 = 128.0;

/// Runs the scenario.
///
/// # Errors
/// When it cannot run.
pub(crate) async fn run(args: &RunArgs) -> anyhow::Result<u8> {
    let setup = Setup::new(args, args.bad).await?;
    let bar = run::progress();
    let (fleet, joined_in) = run::assemble(args, &setup, false, &bar).await?;
    let before = setup.pid.and_then(host::process_rss);
    let horde = Horde::start(&setup.target, &args.kind, &args.region, args.room_count(), args.bad)?;
    let outcome = run::measure(args, &setup, fleet, joined_in, &bar, |time| time < args.duration).await;
    let tallies = horde.finish().await?;
    let outcome = outcome?;
    bar.finish_and_clear();
    let stated = &args.bounds;
    let bounds = Bounds {
        max_lateness: stated.max_lateness.or(Some(MAX_LATENESS_MS)),
        max_pause: stated.max_pause.or(Some(MAX_PAUSE_MS)),
        max_drops: stated.max_drops.or(Some(0)),
        max_rss: stated.max_rss.or(before.map(|before| (before + MAX_GROWTH_MIB).round())),
        ..stated.clone()
    };
    let mut verdict: Verdict = verdict::judge(&bounds, &outcome);
    let mut table = serde_json::Map::new();
    for (name, tally) in &tallies {
        let wrong: Vec<_> = tally.wrong.iter().map(|(seen, n)| format!("{n} × {seen}")).collect();
        let found = match (wrong.is_empty(), tally.met) {
            (true, 0) => "not decided in this time".to_owned(),
            (true, met) => format!("{met} as expected"),
            (false, _) => wrong.join(", "),
        };
        verdict.check(
            &format!("attack: {name}"),
            wrong.is_empty(),
            found,
            format!("{} tries, {} turned away", tally.tries, tally.turned_away),
        );
        table.insert((*name).to_owned(), tally.json());
    }
    report::publish(args, "bad-clients", &outcome, &verdict, &Value::Object(table))?;
    Ok(verdict.exit_code())
}
