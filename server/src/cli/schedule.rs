//! `schedule check` and `schedule next`: what a file of schedules will do, before it does it; `schedule reload`: then it does.

use std::path::Path;

use super::{Common, Exit, Outcome, ScheduleCommand};
use crate::{
    config::{Config, Diagnostic},
    runtime::{Clock, Wall},
    timers::{Limits, RewardBook, preview},
};

/// Largest file of schedules, bytes.
const FILE_BYTES: u64 = 1024 * 1024;

pub(super) fn run(common: &Common, command: &ScheduleCommand) -> Outcome {
    let config = match Config::load(&common.sources()) {
        Ok(config) => config,
        Err(mistakes) => return Outcome::could_not_run(mistakes),
    };
    let now = Clock::system().wall();
    match command {
        ScheduleCommand::Reload { json } => super::commands::schedule_reload(common, &config, *json),
        ScheduleCommand::Check { file } => with_book(&config, file, |book| {
            let lines = preview::report(book, now);
            Outcome::new(Exit::Good, lines.join("\n"))
        }),
        ScheduleCommand::Next { file, count, from, until, id } => {
            let Some(from) = from.as_deref().map_or(Some(now), moment) else {
                return Outcome::could_not_run("--from is a time like 2027-03-28T00:00:00Z");
            };
            let until = until.as_deref().map(|text| end(text, from));
            if until == Some(None) {
                return Outcome::could_not_run(
                    "--until is a later time like 2027-04-04T00:00:00Z, or a length of time like 7d",
                );
            }
            with_book(&config, file, |book| next(book, id.as_deref(), (from, until.flatten()), usize::from(*count)))
        }
    }
}

fn next(book: &RewardBook, id: Option<&str>, (from, until): (Wall, Option<Wall>), count: usize) -> Outcome {
    if let Some(id) = id
        && book.get(id).is_none()
    {
        let near = crate::config::nearest(id, book.ids().map(AsRef::as_ref));
        let hint = near.map(|near| format!("; did you mean `{near}`?")).unwrap_or_default();
        return Outcome::could_not_run(format!("no schedule {id:?} in this file{hint}"));
    }
    let found = match until {
        Some(until) => preview::within(book, id, (from, until), count),
        None => preview::Within { rows: preview::next(book, id, from, count), ..preview::Within::default() },
    };
    let mut lines: Vec<String> = found.rows.iter().map(ToString::to_string).collect();
    lines.extend(found.more.iter().map(|(id, more, cut)| {
        let at_least = if *cut { "at least " } else { "" };
        format!("{id}: {at_least}{more} more in that time")
    }));
    if lines.is_empty() {
        lines
            .push(if until.is_some() { "nothing is due in that time" } else { "nothing is due after that" }.to_owned());
    }
    Outcome::new(Exit::Good, lines.join("\n"))
}

/// A time, or a length of time after `from`; `None` if it is neither, or not later.
fn end(text: &str, from: Wall) -> Option<Wall> {
    let length = || crate::config::parse_duration(text).map(|length| from.plus(length));
    moment(text).or_else(length).filter(|until| *until > from)
}

fn with_book(config: &Config, file: &Path, run: impl FnOnce(&RewardBook) -> Outcome) -> Outcome {
    let name = file.display().to_string();
    let text = match text(file) {
        Ok(text) => text,
        Err(found) => return Outcome::could_not_run(format!("{name}: {found}")),
    };
    match RewardBook::parse_with(&name, &text, &limits(config)) {
        Ok(book) => run(&book),
        Err(mistakes) => {
            let mut lines: Vec<String> = mistakes.iter().map(ToString::to_string).collect();
            lines.push(format!("{} mistakes in {name}", mistakes.len()));
            Outcome::new(Exit::Problem, lines.join("\n"))
        }
    }
}

/// The bounds that schedules take from the configuration.
pub(crate) fn limits(config: &Config) -> Limits {
    Limits {
        catch_up_limit: config.rewards.catch_up_limit,
        catch_up_max_age: config.rewards.catch_up_max_age,
        keep_identities: config.ledger.keep_identities,
        max_grants_per_step: config.room.max_grants_per_step,
        max_known: config.room.max_known,
    }
}

/// The text of a file of schedules, of bounded size.
pub(crate) fn text(file: &Path) -> Result<String, String> {
    let about = std::fs::metadata(file).map_err(|error| error.to_string())?;
    if about.len() > FILE_BYTES {
        return Err(format!("more than {FILE_BYTES} bytes"));
    }
    std::fs::read_to_string(file).map_err(|error| error.to_string())
}

/// What is wrong with the file of schedules that the configuration names, if it names one.
pub(super) fn mistakes(config: &Config) -> Vec<Diagnostic> {
    let Some(file) = &config.rewards.file else { return Vec::new() };
    match text(file) {
        Ok(text) => {
            let name = file.display().to_string();
            RewardBook::parse_with(&name, &text, &limits(config)).err().unwrap_or_default()
        }
        Err(found) => vec![Diagnostic {
            file: file.display().to_string(),
            line: 0,
            column: 0,
            key: "rewards.file".to_owned(),
            found,
            expected: "a readable TOML file of schedules".to_owned(),
            hint: None,
        }],
    }
}

fn moment(text: &str) -> Option<Wall> {
    let stamp: jiff::Timestamp = text.parse().ok()?;
    u64::try_from(stamp.as_microsecond()).ok().map(Wall)
}
