//! One `[[schedule]]`: all of its keys.

use std::{sync::Arc, time::Duration};

use toml::de::DeValue;

use super::section::{self, Section};
use crate::{
    config::{nearest, quoted},
    plugin::Audience,
    runtime::Wall,
    timers::{
        book::Limits,
        catch_up::MAX_CATCH_UP,
        cron::DstRule,
        pattern::RoomPattern,
        schedule::{CatchUpPolicy, Schedule, Trigger},
        span,
        zone::{Zone, zone_data_version},
    },
};

/// Longest id, bytes.
pub(super) const MAX_ID_BYTES: usize = 48;

/// Most room patterns of a schedule.
const MAX_PATTERNS: usize = 32;

/// Longest jitter.
const MAX_JITTER: Duration = Duration::from_secs(3_600);

/// Longest time that `active` looks back.
const MAX_ACTIVE: Duration = Duration::from_secs(30 * 86_400);

/// Every key of a schedule.
pub(crate) const KEYS: [&str; 20] = [
    "id",
    "cron",
    "seconds",
    "every",
    "at",
    "timezone",
    "dst",
    "starts",
    "ends",
    "window",
    "rooms",
    "audience",
    "grant",
    "cap",
    "day_starts_at",
    "catch_up",
    "catch_up_limit",
    "catch_up_max_age",
    "jitter",
    "disabled",
];

/// What other systems call these keys.
const FOREIGN: [(&str, &str); 22] = [
    ("amount", "grant"),
    ("amounts", "grant"),
    ("give", "grant"),
    ("reward", "grant"),
    ("rewards", "grant"),
    ("name", "id"),
    ("key", "id"),
    ("interval", "every"),
    ("period", "every"),
    ("schedule", "cron"),
    ("expression", "cron"),
    ("when", "at"),
    ("date", "at"),
    ("tz", "timezone"),
    ("zone", "timezone"),
    ("from", "starts"),
    ("until", "ends"),
    ("to", "audience"),
    ("players", "audience"),
    ("limit", "cap"),
    ("enabled", "disabled"),
    ("misfire", "catch_up"),
];

const ROOMS: &str = "a pattern kind/region/name such as \"arena/*/*\"";
const AUDIENCE: &str = "\"present\", \"all-known\" or { active = \"10m\" }";

impl Section<'_, '_, '_> {
    /// The id, if it is one.
    pub(super) fn id(&mut self) -> Option<Arc<str>> {
        let expected = format!("a name of 1 to {MAX_ID_BYTES} characters of [a-z0-9_-], such as `id = \"chest\"`");
        if !self.has("id") {
            self.missing("id", &expected);
            return None;
        }
        let text = self.text("id", &expected)?.text;
        let allowed = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || matches!(byte, b'_' | b'-');
        if text.is_empty() || text.len() > MAX_ID_BYTES || !text.bytes().all(allowed) {
            self.error("id", quoted(text), expected);
            return None;
        }
        Some(text.into())
    }

    /// Reports every key that a schedule does not have.
    pub(super) fn keys(&mut self) {
        self.unknown(&KEYS, "a key of a schedule", &FOREIGN);
    }

    /// All keys but the id; `None` when one of those that it cannot do without is missing or wrong.
    pub(super) fn schedule(&mut self, limits: &Limits) -> Option<Schedule> {
        let before = self.reader.errors.len();
        let zone = self.zone();
        // Without a zone the other mistakes are still found, on UTC.
        let clock = zone.clone().unwrap_or_else(Zone::utc);
        let (starts, ends) = (self.moment("starts", &clock), self.moment("ends", &clock));
        if let (Some(starts), Some(ends)) = (starts, ends)
            && ends <= starts
        {
            self.error("ends", "an end that is not after `starts`", "a later moment");
        }
        let trigger = self.trigger(&clock, starts);
        let dst = self.dst();
        let window = self.window();
        let rooms = self.rooms();
        let audience = self.audience();
        let amounts = self.grant();
        let cap = self.cap();
        let (catch_up, catch_up_limit, catch_up_max_age) = self.catch_up(limits);
        let jitter = self.jitter(trigger.as_ref());
        let disabled = self.flag("disabled").unwrap_or(false);
        let id = match self.value("id") {
            Some(DeValue::String(id)) => Arc::from(id.as_ref()),
            _ => return None,
        };
        let schedule = Schedule {
            id,
            trigger: trigger?,
            zone: zone?,
            dst,
            starts,
            ends,
            window,
            rooms: rooms?,
            audience: audience?,
            amounts: amounts?,
            cap,
            catch_up,
            catch_up_limit,
            catch_up_max_age,
            jitter,
            disabled,
            max_grants_per_step: limits.max_grants_per_step,
            max_known: limits.max_known,
        };
        if self.reader.errors.len() == before {
            self.sometimes_due(&schedule);
        }
        Some(schedule)
    }

    fn zone(&mut self) -> Option<Zone> {
        if !self.has("timezone") {
            return Some(Zone::utc());
        }
        let text = self.text("timezone", "an IANA zone such as \"Europe/Berlin\"")?;
        let zone = Zone::get(text.text);
        if zone.is_none() {
            let expected = format!("an IANA zone such as \"Europe/Berlin\" (zone data {})", zone_data_version());
            let found = format!("the unknown zone {}", quoted(text.text));
            self.error_at(text.at, "timezone", found, expected, Zone::nearest(text.text));
        }
        zone
    }

    fn dst(&mut self) -> DstRule {
        for key in ["dst", "seconds"] {
            if self.has(key) && !self.has("cron") {
                self.error(key, "a key that does nothing here", "it only beside `cron`");
            }
        }
        let words =
            [("auto", DstRule::Auto), ("once", DstRule::Once), ("real", DstRule::Real), ("skip", DstRule::Skip)];
        self.word("dst", &words).unwrap_or_default()
    }

    fn rooms(&mut self) -> Option<Vec<RoomPattern>> {
        let mut texts = Vec::new();
        match self.value("rooms") {
            Some(DeValue::String(text)) => texts.push((text.as_ref(), self.at("rooms"))),
            Some(DeValue::Array(list)) if !list.is_empty() && list.len() <= MAX_PATTERNS => {
                for item in list.iter() {
                    match item.get_ref() {
                        DeValue::String(text) => texts.push((text.as_ref(), item.span().start)),
                        other => self.error_at(item.span().start, "rooms", section::describe(other), ROOMS, None),
                    }
                }
            }
            Some(DeValue::Array(list)) => {
                self.error("rooms", format!("a list of {}", list.len()), format!("1 to {MAX_PATTERNS} patterns"));
            }
            _ => self.mismatch("rooms", ROOMS),
        }
        let mut patterns = Vec::new();
        for (text, at) in texts {
            match RoomPattern::parse(text) {
                Ok(pattern) => patterns.push(pattern),
                Err(why) => self.error_at(at, "rooms", format!("{}, {why}", quoted(text)), ROOMS, None),
            }
        }
        (!patterns.is_empty()).then_some(patterns)
    }

    fn audience(&mut self) -> Option<Audience> {
        match self.value("audience") {
            Some(DeValue::String(word)) if word == "present" => return Some(Audience::Present),
            Some(DeValue::String(word)) if word == "all-known" => return Some(Audience::AllKnown),
            Some(DeValue::String(word)) => {
                let hint = nearest(word, ["present", "all-known"]).map(str::to_owned);
                self.error_at(self.at("audience"), "audience", quoted(word), AUDIENCE, hint);
            }
            Some(DeValue::Table(table)) => {
                let (label, at) = (format!("{}.audience", self.label), self.at("audience"));
                let mut inner = Section::new(self.reader, label, table, at);
                inner.unknown(&["active"], "a key of an audience", &[]);
                if inner.has("active") {
                    return inner.length("active", Duration::from_secs(1), MAX_ACTIVE).map(Audience::Active);
                }
                if table.is_empty() {
                    inner.missing("active", "how long ago a player may have left, such as \"10m\"");
                }
            }
            _ => self.mismatch("audience", AUDIENCE),
        }
        None
    }

    fn catch_up(&mut self, limits: &Limits) -> (CatchUpPolicy, usize, Duration) {
        let words = [("skip", CatchUpPolicy::Skip), ("latest", CatchUpPolicy::Latest), ("all", CatchUpPolicy::All)];
        let policy = self.word("catch_up", &words);
        if self.has("catch_up_limit") && policy.unwrap_or_default() != CatchUpPolicy::All {
            self.error("catch_up_limit", "a key that does nothing here", "it only beside `catch_up = \"all\"`");
        }
        let most = i64::try_from(MAX_CATCH_UP).unwrap_or(i64::MAX);
        let limit = self.whole_number("catch_up_limit", 1, most).and_then(|limit| usize::try_from(limit).ok());
        let age = self.length("catch_up_max_age", Duration::from_secs(1), limits.keep_identities);
        if age.is_some_and(|age| age >= limits.keep_identities) {
            let kept = span::write(limits.keep_identities);
            let expected =
                format!("less than the {kept} for which the ledger knows what was paid (`ledger.keep_identities`)");
            self.error("catch_up_max_age", "an age at which a reward could be paid twice", expected);
        }
        (policy.unwrap_or_default(), limit.unwrap_or(limits.catch_up_limit), age.unwrap_or(limits.catch_up_max_age))
    }

    fn jitter(&mut self, trigger: Option<&Trigger>) -> Duration {
        let jitter = self.length("jitter", Duration::ZERO, MAX_JITTER).unwrap_or_default();
        if let Some(Trigger::Every { period, .. }) = trigger
            && u64::try_from(*period).is_ok_and(|period| jitter.as_secs() >= period)
        {
            self.error("jitter", "a jitter as long as the period", "a shorter time than `every`");
        }
        jitter
    }

    /// A schedule that is never due is a mistake, whoever made it.
    fn sometimes_due(&mut self, schedule: &Schedule) {
        if schedule.next_after(Wall(0)).is_some() {
            return;
        }
        let key = ["window", "ends", "starts"].into_iter().find(|key| self.has(key)).unwrap_or("cron");
        self.error(key, "a schedule that is never due", "at least one occurrence within `starts`, `ends` and `window`");
    }
}
