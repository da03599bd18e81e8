//! What there is to be tried: each step of a move, and what happens just there.

use std::fmt;

use anyhow::Context as _;

/// Which process comes to a point.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Side {
    /// The node that gives its shards away.
    Source,
    /// The node that gets them.
    Target,
    /// A gateway whose seats follow.
    Gateway,
}

/// Fault points of the server, in the order in which a move comes to them on each side.
const POINTS: [(&str, Side); 14] = [
    ("handoff.source.offering", Side::Source),
    ("handoff.source.frozen", Side::Source),
    ("handoff.source.stored", Side::Source),
    ("handoff.source.packed", Side::Source),
    ("handoff.source.transferring", Side::Source),
    ("handoff.source.transferred", Side::Source),
    ("handoff.source.told", Side::Source),
    ("handoff.target.ready", Side::Target),
    ("handoff.target.made", Side::Target),
    ("handoff.target.prepared", Side::Target),
    ("handoff.target.claimed", Side::Target),
    ("handoff.target.ticked", Side::Target),
    ("handoff.gateway.moved", Side::Gateway),
    ("handoff.gateway.attached", Side::Gateway),
];

/// What happens there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Act {
    /// The process that comes there is killed.
    KillSelf,
    /// It stands still, and the node at the other end of the move is killed; for a gateway the one to which its seats go.
    KillOther,
    /// It stands still, and a gateway is killed; for a gateway the other one.
    KillGateway,
    /// It stands still, and the store is killed and started again.
    RestartStore,
}

const ACTS: [Act; 4] = [Act::KillSelf, Act::KillOther, Act::KillGateway, Act::RestartStore];

impl Act {
    const fn word(self) -> &'static str {
        match self {
            Self::KillSelf => "kill-self",
            Self::KillOther => "kill-other",
            Self::KillGateway => "kill-gateway",
            Self::RestartStore => "restart-store",
        }
    }
}

/// Of all of them those that are tried each time: each side and each act, at the steps around the transfer.
const FEW: [(&str, Act); 7] = [
    ("handoff.source.stored", Act::KillSelf),
    ("handoff.source.transferring", Act::KillOther),
    ("handoff.source.transferred", Act::KillSelf),
    ("handoff.target.made", Act::RestartStore),
    ("handoff.target.prepared", Act::KillGateway),
    ("handoff.target.claimed", Act::KillSelf),
    ("handoff.gateway.attached", Act::KillSelf),
];

/// One thing to try.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Case {
    pub(super) point: &'static str,
    pub(super) side: Side,
    pub(super) act: Act,
}

impl Case {
    /// What arms the point in its process: at the Nth time that it comes there.
    pub(super) fn armed(self, nth: u32) -> String {
        let signal = if self.act == Act::KillSelf { "kill" } else { "stop" };
        format!("{}={signal}@{nth}", self.point)
    }
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}={}", self.point, self.act.word())
    }
}

fn all() -> Vec<Case> {
    let each = |(point, side): &(&'static str, Side)| ACTS.map(|act| Case { point, side: *side, act });
    POINTS.iter().flat_map(each).collect()
}

/// What `--at-each-step` asks for.
///
/// # Errors
/// A word that names nothing.
pub(super) fn read(which: &str) -> anyhow::Result<Vec<Case>> {
    let all = all();
    match which {
        "all" => return Ok(all),
        "few" => return Ok(all.into_iter().filter(|case| FEW.contains(&(case.point, case.act))).collect()),
        _ => {}
    }
    let mut found = Vec::new();
    for word in which.split(',').map(str::trim) {
        let (point, act) = word.split_once('=').unwrap_or((word, ""));
        let named = all.iter().filter(|case| [case.point, ""].contains(&point) && [case.act.word(), ""].contains(&act));
        let before = found.len();
        found.extend(named.copied());
        if found.len() == before || word.is_empty() {
            let points = POINTS.map(|(point, _)| point).join(", ");
            return Err(anyhow::anyhow!("points: {points}; acts: {}", ACTS.map(Act::word).join(", ")))
                .with_context(|| format!("--at-each-step: {word:?} names no step of a move"));
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_name_points_acts_or_both() {
        assert_eq!(read("all").expect("all").len(), POINTS.len() * ACTS.len());
        assert_eq!(read("few").expect("few").len(), FEW.len());
        assert_eq!(read("handoff.target.made").expect("a point").len(), ACTS.len());
        assert_eq!(read("=kill-self").expect("an act").len(), POINTS.len());
        let two = read("handoff.target.made=kill-self, handoff.source.told=restart-store").expect("two");
        let told: Vec<String> = two.iter().map(Case::to_string).collect();
        assert_eq!(told, ["handoff.target.made=kill-self", "handoff.source.told=restart-store"]);
        assert_eq!(two[0].armed(2), "handoff.target.made=kill@2");
        assert_eq!(two[1].armed(1), "handoff.source.told=stop@1");
        for bad in ["", "handoff", "handoff.target.made=explode", "all,"] {
            assert!(read(bad).is_err(), "{bad:?}");
        }
    }
}
