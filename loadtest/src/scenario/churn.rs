//! Bots come and go all the time, at a rate: they join, play a moment, and leave in good order or by a cut socket, of which they come back by
//! resuming, by joining anew, or as somebody else. Rooms have fewer seats than bots, so that every seat given back is wanted at once. Then
//! seats, sessions, sockets and memory are looked at.

use std::{
    path::Path,
    time::{Duration, Instant},
};

use anyhow::Context as _;
use serde_json::{Value, json};
use tokio::time::sleep;

use super::kill::check_history;
use crate::{
    admin,
    args::RunArgs,
    audit::Audit,
    bot::churn::Way,
    child::{self, Launch, Running, scratch},
    report,
    run::{self, Outcome, Setup},
    stats::growth,
    verdict::{self, Check, Verdict},
};

mod former;

/// How long a seat outlives its socket here.
pub(crate) const GRACE: Duration = Duration::from_secs(4);
/// Bots to a room, unless said otherwise: rooms of kind skirmish have eight seats.
const TO_A_ROOM: u32 = 9;
/// Between two looks at the rooms, and how long seats and sockets may outlive the grace of the last ones.
const LOOK: Duration = Duration::from_millis(500);
const GONE: Duration = Duration::from_secs(10);
/// Least share of the comings that were asked for, and seconds of which the memory is compared at both ends.
const COMINGS: f64 = 0.5;
const ENDS: usize = 5;

/// What the server says of itself.
#[derive(Debug, Default)]
struct Looks {
    count: u64,
    /// Rooms that said of more seats than they have.
    over: u64,
    most_seats: u64,
}

/// Runs the scenario.
///
/// # Errors
/// When it cannot run; the folder with the server's log and data is then kept.
pub(crate) async fn run(args: &RunArgs) -> anyhow::Result<u8> {
    let program = args.server_bin.as_deref().context("--scenario churn needs --server-bin PATH")?;
    let folder = scratch("churn")?;
    let grace = ["--set".to_owned(), format!("room.reconnect_grace={}s", GRACE.as_secs())];
    let settings = [grace.as_slice(), &args.server_arg].concat();
    let launch = Launch::server(program, &folder, 0, &settings);
    let rooms = args.rooms.unwrap_or_else(|| args.players.div_ceil(TO_A_ROOM));
    let args = RunArgs { rooms: Some(rooms), ready_file: Some(launch.ready_file.clone()), ..args.clone() };
    let result = play(&args, &launch, &folder).await;
    child::clear(&folder, &result)?;
    result
}

async fn play(args: &RunArgs, launch: &Launch, folder: &Path) -> anyhow::Result<u8> {
    let server = launch.start().await?;
    let setup = Setup::new(args, args.players).await?;
    let bar = run::progress();
    let (fleet, joined_in) = run::assemble(args, &setup, true, &bar).await?;
    let plan = fleet.plan.clone();
    let churn = plan.churn.as_ref().context("bots do not come and go")?;
    let looking = Box::pin(keep_looking(&server, args.duration));
    let (looks, outcome) = run::measure_during(args, &setup, fleet, joined_in, &bar, looking).await?;

    let mut audit = Audit::default();
    let mut verdict = verdict::judge_audited(&args.bounds, &outcome);
    // Who keeps a seat has one number for all its inputs; the last of them may have waited for a seat to the end.
    let kept = outcome.records.iter().filter(|record| record.stayed && (record.sent > 0 || record.counted.is_some()));
    kept.for_each(|record| audit.inputs(record));
    check_comings(args, &outcome, &mut verdict);
    verdict.check("rooms that said of more seats than they have", looks.over == 0, looks.over, 0);
    let (most, seats) = (u64::from(churn.most_here()), looks.most_seats);
    verdict.check("bots in one room at once", most <= seats, most, format!("at most {seats}, the seats of a room"));
    let (gone, left) = until_gone(&server).await?;
    verdict.check("seats and sockets left behind", gone, left, "none");
    let (tried, given) = former::try_again(&setup.target, churn.ended()).await?;
    verdict.check("seats given to sessions that are over", given.is_empty(), format!("{given:?} of {tried}"), "none");
    check_history(launch, &mut verdict).await?;
    audit.conclude(&mut verdict);
    let growth = check_memory(args, &outcome, &mut verdict);
    if verdict.checks.iter().any(|check| check.timed && !check.holds) {
        // Then it matters whether times mean anything.
        verdict.busy = verdict::busy(outcome.idle, &outcome.stats.own_lag);
        verdict.busy.iter().for_each(|why| report::say(&format!("  INVALID as to times: {why}")));
    }
    verdict.check("SIGTERM ends the server with 0", server.stop().await?, "see the log", "exit code 0");

    let went: Vec<_> = Way::ALL.iter().map(|(_, name)| *name).zip(churn.went()).collect();
    let told: Vec<_> = went.iter().map(|(name, count)| format!("{count} {name}")).collect();
    let full = outcome.stats.refusals.get("room_full").copied().unwrap_or(0);
    report::say(&format!(
        "  {}; {full} times no seat was free; {tried} sessions tried again; memory {}; {} inputs audited ({})",
        told.join(", "),
        growth.map_or("not compared".to_owned(), |percent| format!("{percent:+.1} %")),
        audit.inputs,
        folder.display()
    ));
    let went: Value =
        went.into_iter().map(|(name, count)| (name.to_owned(), json!(count))).collect::<serde_json::Map<_, _>>().into();
    let more = json!({
        "went": went, "full": full, "looks": looks.count, "most_here": most, "sessions_tried": tried, "growth_percent": growth,
        "audit": audit.json(),
    });
    report::publish(args, "churn", &outcome, &verdict, &more)?;
    Ok(verdict.exit_code())
}

/// Whoever asked for a seat was answered, and whoever had one kept it; and it was as lively as was asked for.
fn check_comings(args: &RunArgs, outcome: &Outcome, verdict: &mut Verdict) {
    let (stats, counters) = (&outcome.stats, &outcome.stats.counters);
    verdict.check(
        "sockets closed or joins without an answer",
        stats.drop_count() == 0,
        format!("{:?}", stats.drops),
        "none",
    );
    verdict.check("seats lost", counters.seats_lost == 0, counters.seats_lost, 0);
    verdict.check("bots that gave up", counters.gave_up == 0, counters.gave_up, 0);
    let missing = u64::from(args.players).saturating_sub(outcome.records.len() as u64);
    verdict.check("bots without a record", missing == 0, missing, 0);
    let comings = outcome.counters.joins + outcome.counters.resumes;
    let (rate, asked) = (comings as f64 / outcome.window.as_secs_f64().max(0.001), f64::from(args.joins_per_second));
    verdict.checks.push(Check {
        name: "comings per second".to_owned(),
        found: format!("{rate:.1}"),
        bound: format!("at least half of {asked}"),
        holds: rate >= asked * COMINGS,
        timed: true,
    });
    for (name, bound, times) in [
        ("join p99", args.bounds.max_join_p99, &stats.join_time),
        ("resume p99", args.bounds.max_resume_p99, &stats.resume_time),
    ] {
        bound.into_iter().for_each(|bound| verdict.check_time(name, times.quantile_ms(0.99), bound));
    }
}

/// Memory at the end beside memory at the beginning, percent; `None`: too short a run to say.
fn check_memory(args: &RunArgs, outcome: &Outcome, verdict: &mut Verdict) -> Option<f64> {
    let rss: Vec<[f64; 1]> = outcome.seconds.iter().filter_map(|second| Some([second.server_rss?])).collect();
    let growth = growth(&rss, ENDS);
    if let Some(bound) = args.bounds.max_growth {
        let (found, holds) = growth.map_or(("too short a run to say".to_owned(), false), |percent| {
            (format!("{percent:+.1} %"), percent <= bound)
        });
        verdict.check("growth of memory", holds, found, format!("at most {bound} %"));
    }
    growth
}

async fn state(server: &Running) -> anyhow::Result<Value> {
    let node = server.admin.context("the server has no admin port")?;
    admin::ask(node, "GET", "/admin/state").await
}

/// Looks at the rooms for so long.
async fn keep_looking(server: &Running, time: Duration) -> anyhow::Result<Looks> {
    let (begun, mut looks) = (Instant::now(), Looks::default());
    while begun.elapsed() < time {
        looks.note(&state(server).await?);
        sleep(LOOK).await;
    }
    Ok(looks)
}

impl Looks {
    fn note(&mut self, state: &Value) {
        self.count += 1;
        for room in state["rooms"].as_array().into_iter().flatten() {
            let (seats, most) = (room["seats"].as_u64().unwrap_or(0), room["max_seats"].as_u64());
            self.over += u64::from(most.is_some_and(|most| seats > most));
            self.most_seats = self.most_seats.max(most.unwrap_or(0));
        }
    }
}

/// Waits until nobody has a seat or a socket any more; whether that came in time, and what was left.
async fn until_gone(server: &Running) -> anyhow::Result<(bool, String)> {
    let begun = Instant::now();
    loop {
        let state = state(server).await?;
        let of = |what: &str| state["counts"][what].as_u64().unwrap_or(u64::MAX);
        let (seats, sockets) = (of("seats"), of("sockets"));
        let gone = seats == 0 && sockets == 0;
        if gone || begun.elapsed() > GRACE + GONE {
            return Ok((
                gone,
                format!("{seats} seats, {sockets} sockets after {:.1} s", begun.elapsed().as_secs_f64()),
            ));
        }
        sleep(LOOK).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_room_that_says_of_more_seats_than_it_has_is_counted() {
        let mut looks = Looks::default();
        looks.note(
            &json!({ "rooms": [{ "seats": 8, "max_seats": 8 }, { "seats": 9, "max_seats": 8 }, { "seats": 3 }] }),
        );
        assert_eq!((looks.count, looks.over, looks.most_seats), (1, 1, 8));
    }

    #[test]
    fn growth_compares_the_ends_of_a_run_that_is_long_enough() {
        assert_eq!(growth(&[[50.0]; 9], ENDS), None);
        let grown: Vec<[f64; 1]> = (0..20).map(|second| [50.0 + f64::from(second)]).collect();
        assert!((growth(&grown, ENDS).expect("enough") - 100.0 * 15.0 / 52.0).abs() < 0.01);
    }
}
