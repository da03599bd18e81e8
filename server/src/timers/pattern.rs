//! Which rooms a schedule is for: `kind/region/name`, each part with `*` for any run of characters.

use std::fmt;

use tenure_shared::{RoomId, limits};

/// A pattern of room ids. A `*` never matches across a `/`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct RoomPattern {
    parts: [String; 3],
}

impl RoomPattern {
    /// Reads a pattern.
    ///
    /// # Errors
    /// With what was found, as a phrase after "found".
    pub fn parse(text: &str) -> Result<Self, String> {
        if text.len() > limits::ROOM_ID_BYTES {
            return Err(format!("a pattern of {} bytes, longer than any room id", text.len()));
        }
        let allowed = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '_' | '-' | '/' | '*');
        if let Some(bad) = text.chars().find(|c| !allowed(*c)) {
            return Err(format!("{bad:?}, which no room id has"));
        }
        let parts: Vec<String> = text.split('/').map(str::to_owned).collect();
        let count = parts.len();
        match <[String; 3]>::try_from(parts) {
            Ok(parts) if parts.iter().all(|part| !part.is_empty()) => Ok(Self { parts }),
            Ok(_) => Err("an empty part".to_owned()),
            Err(_) => Err(format!("{count} parts")),
        }
    }

    /// Whether a room is meant.
    pub fn matches(&self, room: &RoomId) -> bool {
        let [kind, region, name] = &self.parts;
        matches_part(kind, room.kind()) && matches_part(region, room.region()) && matches_part(name, room.name())
    }
}

impl fmt::Display for RoomPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.parts.join("/"))
    }
}

/// Greedy matching with one way back: the cost is at most the product of both lengths, each at most a room id.
fn matches_part(pattern: &str, text: &str) -> bool {
    let (pattern, text) = (pattern.as_bytes(), text.as_bytes());
    let (mut p, mut t) = (0, 0);
    let mut back: Option<(usize, usize)> = None;
    while t < text.len() {
        if pattern.get(p) == Some(&b'*') {
            back = Some((p + 1, t));
            p += 1;
        } else if pattern.get(p) == text.get(t) {
            (p, t) = (p + 1, t + 1);
        } else if let Some((after_star, from)) = back {
            back = Some((after_star, from + 1));
            (p, t) = (after_star, from + 1);
        } else {
            return false;
        }
    }
    pattern.iter().skip(p).all(|byte| *byte == b'*')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_match_part_by_part() {
        let room = |text: &str| RoomId::new(text).expect("valid");
        let matches = |pattern: &str, text: &str| RoomPattern::parse(pattern).expect("valid").matches(&room(text));
        assert!(matches("arena/*/*", "arena/eu/k3"));
        assert!(!matches("arena/*/*", "chess/eu/k3"));
        assert!(matches("arena/eu/vip-*", "arena/eu/vip-7"));
        assert!(!matches("arena/eu/vip-*", "arena/eu/vip"));
        assert!(matches("*/*/*a*a*", "x/y/banana"));
        assert!(!matches("*/*/*a*b", "x/y/abc"));
        assert!(matches("a/b/c", "a/b/c") && !matches("a/b/c", "a/b/cc"));
        for bad in ["", "*", "arena/*", "a/b/c/d", "a//c", "Arena/*/*", "a/b/é", "a b/c/d"] {
            assert!(RoomPattern::parse(bad).is_err(), "{bad:?} was accepted");
        }
    }
}
