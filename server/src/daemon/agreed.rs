//! What a cluster has agreed on about a set of daemons, what a member says of its build, and the keys of claims.

use std::fmt;

use super::spec::ShardedDaemonProcess;
use crate::{config::Role, store::Key};

/// What the cluster has agreed on about a set: a text that people read too, in the store's agreement of the set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Agreed {
    /// Grows by one with each change of the count.
    pub(crate) generation: u64,
    /// How many daemons.
    pub(crate) count: u32,
    /// On nodes of this role.
    pub(crate) role: Role,
    /// The count of the generation before, while that one is being fenced off: nothing of this one runs yet.
    pub(crate) after: Option<u32>,
    /// Nothing runs, on purpose.
    pub(crate) stopped: bool,
}

impl Agreed {
    /// What a set's first node proposes.
    pub(crate) fn first(set: &ShardedDaemonProcess) -> Self {
        Self { generation: 1, count: set.count, role: set.role, after: None, stopped: false }
    }

    /// The next generation, of another count; it opens when the former one is fenced off.
    pub(crate) fn rescaled(self, count: u32) -> Self {
        Self { generation: self.generation + 1, count, after: Some(self.count), ..self }
    }

    /// Whether a set of this build can run what was agreed on.
    pub(crate) fn fits(&self, set: &ShardedDaemonProcess) -> bool {
        self.role == set.role && runs(set.count, &set.from, set.range, self.count)
    }

    pub(crate) fn parse(text: &str) -> Option<Self> {
        let mut parts = text.split(", ");
        let (count, role) = parts.next()?.split_once(" on ")?;
        let role = [Role::Gateway, Role::Room].into_iter().find(|known| known.name() == role)?;
        let generation = parts.next()?.strip_prefix("generation ")?.parse().ok()?;
        let mut agreed = Self { generation, count: count.parse().ok()?, role, after: None, stopped: false };
        for part in parts {
            match part.strip_prefix("after ") {
                Some(count) => agreed.after = Some(count.parse().ok()?),
                None if part == "stopped" => agreed.stopped = true,
                None => return None,
            }
        }
        Some(agreed)
    }
}

impl fmt::Display for Agreed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} on {}, generation {}", self.count, self.role.name(), self.generation)?;
        if let Some(count) = self.after {
            write!(f, ", after {count}")?;
        }
        if self.stopped { f.write_str(", stopped") } else { Ok(()) }
    }
}

/// The name of a set's agreement in the store.
pub(crate) fn agreement(name: &str) -> String {
    format!("daemons {name}")
}

/// What begins the words of a member's record that are about daemons and no role.
pub const ROLE_PREFIX: &str = "daemons/";

/// What a member says of a set that its build has.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Declared {
    pub(crate) name: String,
    pub(crate) count: u32,
    pub(crate) from: Vec<u32>,
    /// From the first to the last: any of these, by command.
    pub(crate) range: Option<(u32, u32)>,
}

impl Declared {
    pub(crate) fn of(set: &ShardedDaemonProcess) -> Self {
        Self { name: set.name.clone(), count: set.count, from: set.from.clone(), range: set.range }
    }

    pub(crate) fn parse(word: &str) -> Option<Self> {
        let (name, counts) = word.strip_prefix(ROLE_PREFIX)?.split_once(':')?;
        let (counts, range) = match counts.split_once('~') {
            Some((counts, range)) => {
                let (first, last) = range.split_once('-')?;
                (counts, Some((first.parse().ok()?, last.parse().ok()?)))
            }
            None => (counts, None),
        };
        let mut counts = counts.split('<').map(str::parse);
        let count = counts.next()?.ok()?;
        Some(Self { name: name.to_owned(), count, from: counts.collect::<Result<_, _>>().ok()?, range })
    }

    /// Whether its build can run so many.
    pub(crate) fn runs(&self, count: u32) -> bool {
        runs(self.count, &self.from, self.range, count)
    }
}

/// Whether a build of `own` daemons, that takes over `from`, and may have any number of `range` by command, can run so many.
fn runs(own: u32, from: &[u32], range: Option<(u32, u32)>, count: u32) -> bool {
    own == count || from.contains(&count) || range.is_some_and(|(first, last)| (first..=last).contains(&count))
}

impl fmt::Display for Declared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{ROLE_PREFIX}{}:{}", self.name, self.count)?;
        self.from.iter().try_for_each(|count| write!(f, "<{count}"))?;
        self.range.map_or(Ok(()), |(first, last)| write!(f, "~{first}-{last}"))
    }
}

/// The words that a member's record has beside its roles: which sets its build has.
pub fn roles(sets: &[ShardedDaemonProcess]) -> Vec<String> {
    sets.iter().map(|set| Declared::of(set).to_string()).collect()
}

/// The key of a daemon's claim.
pub(crate) fn key(name: &str, single: bool, generation: u64, index: u32) -> Key {
    match single {
        true => Key::named(&format!("singleton/{name}")),
        false => Key::named(&format!("daemon/{name}@{generation}/{index}")),
    }
}

/// Generation and index of a key of this set.
pub(crate) fn read_key(name: &str, single: bool, key: &Key) -> Option<(u64, u32)> {
    if single {
        return (key.as_str().strip_prefix("singleton/")? == name).then_some((1, 0));
    }
    let rest = key.as_str().strip_prefix("daemon/")?.strip_prefix(name)?.strip_prefix('@')?;
    let (generation, index) = rest.split_once('/')?;
    Some((generation.parse().ok()?, index.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_read_as_they_are_written() {
        let first = Agreed { generation: 1, count: 8, role: Role::Room, after: None, stopped: false };
        let next = first.rescaled(12);
        assert_eq!(next.to_string(), "12 on room, generation 2, after 8");
        for agreed in [first, next, Agreed { stopped: true, ..next }, Agreed { stopped: true, ..first }] {
            assert_eq!(Agreed::parse(&agreed.to_string()), Some(agreed));
        }
        for odd in
            ["", "8", "8 on moon, generation 1", "8 on room", "8 on room, generation x", "8 on room, generation 1, x"]
        {
            assert_eq!(Agreed::parse(odd), None, "{odd:?}");
        }
        let declared = Declared { name: "regions".to_owned(), count: 12, from: vec![8, 10], range: None };
        assert_eq!(declared.to_string(), "daemons/regions:12<8<10");
        assert_eq!(Declared::parse("daemons/regions:12<8<10"), Some(declared.clone()));
        let ranged = Declared { from: vec![], range: Some((2, 64)), ..declared };
        assert_eq!(ranged.to_string(), "daemons/regions:12~2-64");
        assert!(ranged.runs(2) && ranged.runs(64) && !ranged.runs(1) && !ranged.runs(65));
        assert_eq!(Declared::parse("daemons/regions:12~2-64"), Some(ranged));
        assert_eq!(
            ["room", "daemons/x", "daemons/x:y", "daemons/x:8~2", "daemons/x:8~2-y"].map(Declared::parse),
            [None, None, None, None, None]
        );
    }

    #[test]
    fn keys_are_read_as_they_are_written() {
        assert_eq!(key("regions", false, 8, 2).as_str(), "daemon/regions@8/2");
        assert_eq!(read_key("regions", false, &key("regions", false, 8, 2)), Some((8, 2)));
        assert_eq!(read_key("region", false, &key("regions", false, 8, 2)), None);
        assert_eq!(read_key("x", true, &key("x", true, 1, 0)), Some((1, 0)));
        assert_eq!(read_key("x", true, &key("x2", true, 1, 0)), None);
    }
}
