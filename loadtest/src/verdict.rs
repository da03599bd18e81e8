//! Which bounds hold, and whether the figures mean anything.

use crate::{args::Bounds, host, run::Outcome, stats::Times};

/// Least share of idle processor time for valid figures.
const IDLE: f64 = 0.15;
/// Largest p99 of the bots' own lag for valid figures, ms.
const OWN_LAG: f64 = 5.0;

/// A stated bound and what was found.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Check {
    pub(crate) name: String,
    pub(crate) found: String,
    pub(crate) bound: String,
    pub(crate) holds: bool,
    /// A time, which a busy machine makes longer; what was lost or doubled is no such thing.
    pub(crate) timed: bool,
}

/// What a run amounts to.
#[derive(Clone, Debug, Default)]
pub(crate) struct Verdict {
    pub(crate) checks: Vec<Check>,
    /// Why the run means nothing.
    pub(crate) invalid: Vec<String>,
    /// Why its times mean nothing; all else does.
    pub(crate) busy: Vec<String>,
}

impl Verdict {
    /// Adds a check.
    #[allow(clippy::needless_pass_by_value, reason = "callers name numbers and texts as they are")]
    pub(crate) fn check(&mut self, name: &str, holds: bool, found: impl ToString, bound: impl ToString) {
        let (name, found, bound) = (name.to_owned(), found.to_string(), bound.to_string());
        self.checks.push(Check { name, found, bound, holds, timed: false });
    }

    /// Adds a check of a time, ms, that must not be longer.
    pub(crate) fn check_time(&mut self, name: &str, found: f64, bound: f64) {
        let (told, at_most) = (format!("{found:.0} ms"), format!("at most {bound:.0} ms"));
        self.checks.push(Check {
            name: name.to_owned(),
            found: told,
            bound: at_most,
            holds: found <= bound,
            timed: true,
        });
    }

    /// 0, 1 or 2, as the documentation says. A bound that fails in a run without meaning says nothing.
    pub(crate) fn exit_code(&self) -> u8 {
        let fails = |timed: bool| self.checks.iter().any(|check| check.timed == timed && !check.holds);
        match (self.invalid.is_empty(), fails(false), self.busy.is_empty()) {
            (false, ..) => 2,
            (true, true, _) => 1,
            (true, false, false) => 2,
            (true, false, true) => u8::from(fails(true)),
        }
    }

    /// The word in the summary line.
    pub(crate) fn word(&self) -> &'static str {
        match self.exit_code() {
            0 => "PASS",
            1 => "FAIL",
            _ => "INVALID",
        }
    }
}

/// Frames delivered of those expected, percent.
pub(crate) fn delivered(outcome: &Outcome) -> f64 {
    let expected = outcome.player_seconds * f64::from(outcome.stats.tick_rate);
    if expected > 0.0 { 100.0 * outcome.counters.frames as f64 / expected } else { 0.0 }
}

/// Why times measured on this machine mean nothing: it was less idle, or the bots were later, than they may.
pub(crate) fn busy(idle: Option<f64>, own_lag: &Times) -> Vec<String> {
    let mut all = Vec::new();
    if let Some(idle) = idle.filter(|idle| *idle < IDLE) {
        all.push(format!("the machine was only {:.0} % idle (at least {:.0} % needed)", idle * 100.0, IDLE * 100.0));
    }
    let lag = own_lag.quantile_ms(0.99);
    if lag > OWN_LAG {
        all.push(format!("the bots' own lag p99 was {lag:.1} ms (at most {OWN_LAG} ms)"));
    }
    all
}

/// Judges a run that is audited besides. An audit holds on a busy machine too: only what this machine failed to do makes it void.
pub(crate) fn judge_audited(bounds: &Bounds, outcome: &Outcome) -> Verdict {
    let mut verdict = judge(bounds, outcome);
    verdict.invalid.retain(|why| why.contains("on this machine itself"));
    verdict
}

/// Judges a run by its bounds.
pub(crate) fn judge(bounds: &Bounds, outcome: &Outcome) -> Verdict {
    let mut verdict = Verdict { invalid: invalid(outcome), ..Verdict::default() };
    let stats = &outcome.stats;
    let mut at_most = |name: &str, bound: Option<f64>, found: f64, unit: &str| {
        if let Some(bound) = bound {
            verdict.check(name, found <= bound, format!("{found:.1}{unit}"), format!("at most {bound}{unit}"));
            verdict.checks.iter_mut().last().into_iter().for_each(|check| check.timed = unit == " ms");
        }
    };
    at_most("input to visible p99", bounds.max_p99, stats.latency.quantile_ms(0.99), " ms");
    at_most("connections lost", bounds.max_drops.map(|n| n as f64), stats.drop_count() as f64, "");
    at_most("tick lateness p99", bounds.max_lateness, stats.lateness.quantile_ms(0.99), " ms");
    at_most("longest pause", bounds.max_pause, stats.pauses.max_ms(), " ms");
    at_most("server memory", bounds.max_rss, outcome.server_rss.unwrap_or(f64::INFINITY), " MiB");
    if let Some(bound) = bounds.min_delivered {
        let found = delivered(outcome);
        verdict.check("frames delivered", found >= bound, format!("{found:.1} %"), format!("at least {bound} %"));
    }
    // What no run may show, bounds or not.
    let counters = &stats.counters;
    for (name, found) in [
        ("frames that went back", counters.went_back),
        ("frames of one term and tick that differ", counters.frames_differ),
        ("messages that cannot be read", counters.malformed),
        ("saved inputs wanted again", counters.wanted_saved),
    ] {
        if found > 0 {
            verdict.check(name, false, found, 0);
        }
    }
    verdict
}

fn invalid(outcome: &Outcome) -> Vec<String> {
    let mut all = Vec::new();
    let carried = |share: f64| {
        let bots = f64::from(outcome.players) * share.clamp(0.0, 1.0);
        let step = if bots >= 100.0 { 50.0 } else { 5.0 };
        (bots / step).floor() * step
    };
    if let Some(idle) = outcome.idle.filter(|idle| *idle < IDLE) {
        let share = (1.0 - IDLE) / (1.0 - idle).max(0.01);
        all.push(format!(
            "the machine was only {:.0} % idle (at least {:.0} % needed): with this server it carries about {:.0} bots",
            idle * 100.0,
            IDLE * 100.0,
            carried(share)
        ));
    }
    let lag = outcome.stats.own_lag.quantile_ms(0.99);
    if lag > OWN_LAG {
        let busy = outcome.own_cpu / (outcome.window.as_secs_f64() * f64::from(outcome.threads)).max(0.01);
        // A thread of bots stays punctual up to about 70 % of a processor.
        let share = (0.7 / busy.max(0.01)).min(OWN_LAG / lag);
        all.push(format!(
            "the bots' own lag p99 was {lag:.1} ms (at most {OWN_LAG} ms): {} threads on {} processors carry about {:.0} bots",
            outcome.threads,
            host::processors(),
            carried(share)
        ));
    }
    let own: u64 = outcome.stats.own_failures.values().sum();
    if own > 0 {
        let causes: Vec<_> = outcome.stats.own_failures.keys().map(String::as_str).collect();
        all.push(format!("{own} connections failed on this machine itself: {}", causes.join(", ")));
    }
    all
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::stats::{Counters, Stats};

    pub(crate) fn outcome() -> Outcome {
        let mut stats = Stats { tick_rate: 20, ..Stats::default() };
        for ms in 1..=1000 {
            stats.latency.record(Duration::from_micros(ms * 100));
            stats.own_lag.record(Duration::from_micros(900));
        }
        Outcome {
            players: 1000,
            rooms: 20,
            threads: 1,
            joined_in: Duration::from_secs(2),
            window: Duration::from_secs(10),
            counters: Counters { frames: 190_000, ..Counters::default() },
            stats,
            player_seconds: 10_000.0,
            seconds: Vec::new(),
            server_cpu: None,
            server_rss: Some(80.0),
            own_cpu: 5.0,
            idle: Some(0.4),
            records: Vec::new(),
        }
    }

    #[test]
    fn bounds_decide_between_0_and_1() {
        let code = |bounds: &Bounds| judge(bounds, &outcome()).exit_code();
        let p99 = |max| Bounds { max_p99: Some(max), ..Bounds::default() };
        assert_eq!((code(&Bounds::default()), code(&p99(100.0)), code(&p99(98.0))), (0, 0, 1));
        let delivered = |min| Bounds { min_delivered: Some(min), ..Bounds::default() };
        assert_eq!((code(&delivered(95.0)), code(&delivered(95.1))), (0, 1));
        let rss = |max| Bounds { max_rss: Some(max), ..Bounds::default() };
        assert_eq!((code(&rss(80.0)), code(&rss(79.9))), (0, 1));
        let mut back = outcome();
        back.stats.counters.went_back = 1;
        assert_eq!(judge(&Bounds::default(), &back).exit_code(), 1);
    }

    #[test]
    fn a_busy_machine_voids_times_and_nothing_else() {
        let code = |busy: &[&str], lost: bool, late: bool| {
            let mut verdict = Verdict { busy: busy.iter().map(|b| (*b).to_owned()).collect(), ..Verdict::default() };
            verdict.check("inputs lost", !lost, u8::from(lost), 0);
            verdict.check_time("pause", if late { 9.0 } else { 1.0 }, 5.0);
            verdict.exit_code()
        };
        assert_eq!((code(&[], false, false), code(&[], false, true), code(&[], true, false)), (0, 1, 1));
        assert_eq!((code(&["x"], false, false), code(&["x"], false, true), code(&["x"], true, true)), (2, 2, 1));
        let mut lag = Times::default();
        lag.record(Duration::from_millis(6));
        assert_eq!((busy(Some(0.5), &Times::default()).len(), busy(Some(0.1), &lag).len()), (0, 2));
    }

    #[test]
    fn a_busy_machine_means_nothing_and_says_how_many_bots_it_carries() {
        let mut busy = outcome();
        busy.idle = Some(0.0);
        let verdict = judge(&Bounds { max_p99: Some(1.0), ..Bounds::default() }, &busy);
        assert_eq!(verdict.exit_code(), 2);
        assert!(verdict.invalid[0].contains("about 850 bots"), "{}", verdict.invalid[0]);

        let mut late = outcome();
        (0..200).for_each(|_| late.stats.own_lag.record(Duration::from_millis(10)));
        let verdict = judge(&Bounds::default(), &late);
        assert_eq!(verdict.exit_code(), 2);
        assert!(verdict.invalid[0].contains("carry about 450 bots"), "{}", verdict.invalid[0]);

        let mut own = outcome();
        own.stats.own_failures.insert("no file left".to_owned(), 3);
        assert_eq!(judge(&Bounds::default(), &own).exit_code(), 2);
    }
}
