//! The file of schedules, as it changes in the course of a run.

use std::path::{Path, PathBuf};

use serde_json::Value;

/// Period of all schedules, µs.
pub(super) const PERIOD: u64 = 2_000_000;
/// Most silver per player and day.
pub(super) const CAP: i64 = 20;

/// What the file says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Text {
    First,
    /// The first with a mistake: nothing may change.
    Wrong,
    /// `capped` changed, `recent` renamed, `open` gone.
    Second,
    Empty,
}

impl Text {
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::First => "read unchanged",
            Self::Wrong => "with a mistake",
            Self::Second => "changed",
            Self::Empty => "empty",
        }
    }

    /// Whether a reload of it is answered as it must be, after the one before.
    pub(super) fn is_answered(self, code: Option<i32>, answer: &str) -> Result<(), String> {
        if self == Self::Wrong {
            let refused = code == Some(1) && answer.contains("catch_up") && answer.contains("are kept");
            return if refused { Ok(()) } else { Err(format!("exit code {code:?}")) };
        }
        let report: Value = serde_json::from_str(answer).map_err(|error| format!("exit code {code:?}, {error}"))?;
        let (unchanged, changed, added, removed): (u64, &[&str], &[&str], &[&str]) = match self {
            Self::First | Self::Wrong => (6, &[], &[], &[]),
            Self::Second => (3, &["capped"], &["renamed"], &["open", "recent"]),
            Self::Empty => (0, &[], &[], &["capped", "everyone", "renamed", "shut", "steady"]),
        };
        let ids = |key: &str| {
            let mut ids: Vec<&str> = report[key].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
            ids.sort_unstable();
            ids
        };
        if report["unchanged"].as_u64() != Some(unchanged)
            || [ids("changed"), ids("added"), ids("removed")] != [changed, added, removed]
        {
            return Err(format!(
                "wanted {unchanged} unchanged, changed {changed:?}, added {added:?}, removed {removed:?}"
            ));
        }
        Ok(())
    }
}

/// Where it is, and what it is made of.
#[derive(Debug)]
pub(super) struct File {
    path: PathBuf,
    kind: String,
    /// Windows around now, and one that is not; the day of the cap begins far from now.
    open: String,
    shut: String,
    day_starts_at: String,
}

impl File {
    pub(super) fn new(folder: &Path, kind: &str, now_us: u64) -> Self {
        let minute = |hours: u64| {
            let minutes = (now_us / 60_000_000 + hours * 60) % (24 * 60);
            format!("{:02}:{:02}", minutes / 60, minutes % 60)
        };
        let window = |from, to| format!("{{ start = \"{}\", end = \"{}\" }}", minute(from), minute(to));
        Self {
            path: folder.join("rewards.toml"),
            kind: kind.to_owned(),
            open: window(23, 1),
            shut: window(8, 10),
            day_starts_at: minute(12),
        }
    }

    pub(super) fn path(&self) -> String {
        self.path.display().to_string()
    }

    pub(super) fn write(&self, text: Text) -> anyhow::Result<()> {
        crate::report::write(&self.path, &self.text(text))
    }

    fn text(&self, text: Text) -> String {
        let one = |id: &str, rest: &str| {
            format!("[[schedule]]\nid = \"{id}\"\nevery = \"2s\"\nrooms = \"{}/*/*\"\n{rest}\n\n", self.kind)
        };
        let capped = |silver: u32| {
            let rest = format!(
                "audience = \"present\"\ngrant = {{ silver = {silver} }}\ncap = {{ silver = {CAP} }}\nday_starts_at = \"{}\"",
                self.day_starts_at
            );
            one("capped", &rest)
        };
        let windowed = |id: &str, window: &str| {
            one(id, &format!("audience = \"present\"\ngrant = {{ gold = 1 }}\nwindow = {window}"))
        };
        let steady =
            one("steady", "audience = \"present\"\ngrant = { gold = 1 }\ncatch_up = \"all\"\ncatch_up_limit = 1000");
        let everyone =
            one("everyone", "audience = \"all-known\"\ngrant = { tin = 1 }\ncatch_up = \"all\"\ncatch_up_limit = 1000");
        let recent = |id: &str| one(id, "audience = { active = \"3s\" }\ngrant = { copper = 1 }\njitter = \"1s\"");
        let (open, shut) = (windowed("open", &self.open), windowed("shut", &self.shut));
        match text {
            Text::First => [steady, capped(3), recent("recent"), everyone, open, shut].concat(),
            Text::Wrong => {
                [steady, capped(3), recent("recent"), everyone, open, shut].concat().replacen("catch_up", "catchup", 1)
            }
            Text::Second => [steady, capped(4), recent("renamed"), everyone, shut].concat(),
            Text::Empty => "# No reward any more.\n".to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_are_around_now_or_far_from_it() {
        // 2026-11-30T23:30:00Z
        let file = File::new(Path::new("f"), "drill", 1_796_081_400_000_000);
        assert_eq!(file.open, "{ start = \"22:30\", end = \"00:30\" }");
        assert_eq!(file.shut, "{ start = \"07:30\", end = \"09:30\" }");
        assert_eq!(file.day_starts_at, "11:30");
        assert_eq!(file.text(Text::First).matches("[[schedule]]").count(), 6);
        assert!(file.text(Text::Wrong).contains("catchup = "));
    }

    #[test]
    fn answers_that_say_something_else_are_faults() {
        let answer = |unchanged: u32, changed: &str| {
            format!(r#"{{"unchanged":{unchanged},"changed":[{changed}],"added":[],"removed":[]}}"#)
        };
        assert_eq!(Text::First.is_answered(Some(0), &answer(6, "")), Ok(()));
        assert!(Text::First.is_answered(Some(0), &answer(5, r#""steady""#)).is_err());
        assert!(Text::Wrong.is_answered(Some(0), &answer(6, "")).is_err());
    }
}
