//! What will happen, before it happens: the rows of `schedule next` and the report of `schedule check`.

use std::{fmt, sync::Arc};

use super::{
    book::RewardBook,
    cron::DstRule,
    schedule::{Schedule, Trigger},
    window::civil_text,
    zone::zone_data_version,
};
use crate::runtime::Wall;

/// One coming occurrence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// When it is due.
    pub scheduled_for: Wall,
    /// The schedule.
    pub id: Arc<str>,
    /// What the wall clock of its zone shows, with the letters of the offset.
    pub local: String,
    /// What the change of clocks does to it.
    pub note: Option<String>,
    /// Under which identity it is paid; the room and the player are not known yet.
    pub identity: String,
}

impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}  {:<32}  {}", utc_text(self.scheduled_for), self.local, self.identity)?;
        match &self.note {
            Some(note) => write!(f, "  ({note})"),
            None => Ok(()),
        }
    }
}

/// The next `count` occurrences strictly after `from`, of one schedule or of all that are not switched off, by time
/// and then by id.
pub fn next(book: &RewardBook, only: Option<&str>, from: Wall, count: usize) -> Vec<Row> {
    let mut pending: Vec<(Wall, &Arc<Schedule>)> = book
        .live()
        .filter(|schedule| only.is_none_or(|id| &**schedule.id() == id))
        .filter_map(|schedule| Some((schedule.next_after(from)?, schedule)))
        .collect();
    let mut rows = Vec::new();
    while rows.len() < count {
        let Some(first) = (0..pending.len()).min_by_key(|at| pending.get(*at).map(|(due, s)| (*due, s.id().clone())))
        else {
            break;
        };
        let (due, schedule) = pending.swap_remove(first);
        rows.push(row(schedule, due));
        pending.extend(schedule.next_after(due).map(|later| (later, schedule)));
    }
    rows
}

/// What is due in a time, see [`within`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Within {
    /// By time and then by id.
    pub rows: Vec<Row>,
    /// Schedules with more occurrences than are in the rows, how many more, and whether that is where the counting ended.
    pub more: Vec<(Arc<str>, usize, bool)>,
}

/// Most occurrences of one schedule that are counted.
const COUNTED: usize = 100_000;

/// Everything that is due strictly after `from` and before `until`: of each schedule the first `each`, and how many there are beyond them. So one
/// that is due twice a minute does not hide one that is due once a week.
pub fn within(book: &RewardBook, only: Option<&str>, (from, until): (Wall, Wall), each: usize) -> Within {
    let mut found = Within::default();
    for schedule in book.live().filter(|schedule| only.is_none_or(|id| &**schedule.id() == id)) {
        let occurrences = std::iter::successors(schedule.next_after(from), |due| schedule.next_after(*due));
        let mut due = occurrences.take_while(|due| *due < until);
        found.rows.extend(due.by_ref().take(each).map(|due| row(schedule, due)));
        let more = due.take(COUNTED).count();
        if more > 0 {
            found.more.push((schedule.id().clone(), more, more == COUNTED));
        }
    }
    found.rows.sort_by(|one, other| (one.scheduled_for, &one.id).cmp(&(other.scheduled_for, &other.id)));
    found
}

/// What `schedule check` says about a valid book: zone data, each schedule with its next occurrence, warnings.
pub fn report(book: &RewardBook, from: Wall) -> Vec<String> {
    let mut lines = vec![format!("zone data {}", zone_data_version())];
    for id in book.ids() {
        let Some(schedule) = book.get(id) else { continue };
        let when = match schedule.next_after(from) {
            _ if schedule.disabled() => "disabled".to_owned(),
            None => "not due any more".to_owned(),
            Some(next) => {
                let row = row(schedule, next);
                let note = row.note.map(|note| format!(" ({note})")).unwrap_or_default();
                format!("next {}  {}{note}", utc_text(next), row.local)
            }
        };
        lines.push(format!("{id}: {when}"));
    }
    lines.extend(book.warnings().iter().map(|warning| format!("warning: {warning}")));
    lines
}

/// A moment as `2026-03-08T07:00:00Z`.
pub fn utc_text(moment: Wall) -> String {
    let second = i64::try_from(moment.0 / 1_000_000).unwrap_or(i64::MAX / 2);
    format!("{}Z", civil_text(second).replace(' ', "T"))
}

fn row(schedule: &Schedule, due: Wall) -> Row {
    let at = i64::try_from(due.0 / 1_000_000).unwrap_or(0);
    let zone = schedule.zone();
    Row {
        scheduled_for: due,
        id: schedule.id().clone(),
        local: match (zone.letters(at), zone.name()) {
            (letters, name) if letters == name => format!("{} {name}", civil_text(zone.civil(at))),
            (letters, name) => format!("{} {letters} {name}", civil_text(zone.civil(at))),
        },
        note: note(schedule, at),
        identity: format!("{}/{}/<room>/<player>", schedule.job(), due.0),
    }
}

fn note(schedule: &Schedule, at: i64) -> Option<String> {
    let Trigger::Cron(cron) = schedule.trigger() else { return None };
    let zone = schedule.zone();
    let shown = zone.civil(at);
    if let Some((first, _)) = zone.passes(shown) {
        let pass = if at == first { "first" } else { "second" };
        return Some(format!("clocks go back: {pass} pass of the repeated time"));
    }
    // The first civil time that the clock skips, if it was put forward at this very instant.
    let skipped = zone.civil(at - 1) + 1;
    let real = matches!((schedule.dst, cron.any_hour()), (DstRule::Real, _) | (DstRule::Auto, true));
    if skipped >= shown || real || schedule.dst == DstRule::Skip {
        return None;
    }
    let meant = cron.next_civil(skipped).filter(|meant| *meant < shown)?;
    Some(format!("clocks go forward: {} does not exist that day", civil_text(meant).split_off(11)))
}
