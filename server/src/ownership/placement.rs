//! Placement: the pure function from members and claims to the keys that belong elsewhere (H9).
//!
//! Every node computes it alike and nobody coordinates. It proposes; a move is started by the key's owner (giving) or, for a free or
//! tombstoned key, by its target (acquiring), and the claim decides every race.
//!
//! Work: one score per (key that has to move, member that may receive), and one per key of an owner over its bound; at most
//! `keys × (members + 1)`; a cluster at rest costs none. The test `the_work_is_bounded_by_keys_times_members` counts it for 16,384 keys
//! without an owner over 1,000 members, 16.4 million scores, and prints the time (measured without optimisation on two shared cores:
//! below 1.3 s): `cargo nextest run -p tenure --lib the_work_is_bounded --no-capture`, with `--release` for a fair number.

use tenure_shared::IncarnationId;
use xxhash_rust::xxh3::xxh3_64;

/// A live member, as placement sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// Its incarnation: the member of the rendezvous score.
    pub incarnation: IncarnationId,
    /// It serves, and has the role that the keys need: it keeps what it owns and may receive.
    pub serving: bool,
    /// It gives its keys away, and has the role that they need: while nobody serves it takes those that nobody has.
    pub drains: bool,
    /// `node.revision`; 0 is unset.
    pub revision: u64,
    /// Version of the game.
    pub version: String,
    /// Heartbeats so far: the one with the fewest is the youngest.
    pub beats: u64,
}

/// A key and the index of its owner among the nodes; `None` for one that is free, or whose owner is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Placed {
    /// [`hash`] of the key's text.
    pub hash: u64,
    /// Its owner.
    pub owner: Option<usize>,
}

/// A key that belongs elsewhere: its index, and that of the node which is to have it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Move {
    /// The key.
    pub key: usize,
    /// Who is to have it.
    pub to: usize,
}

/// What placement says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Placement {
    /// Keys that belong elsewhere, by key.
    pub moves: Vec<Move>,
    /// Scores that were computed: the work that it took.
    pub scored: u64,
}

/// Hash of a key's text or of an incarnation.
pub fn hash(text: &str) -> u64 {
    xxh3_64(text.as_bytes())
}

/// The rendezvous score of a key and a member, from their hashes.
pub(crate) fn score(key: u64, member: u64) -> u64 {
    xxh3_64(&((u128::from(key) << 64) | u128::from(member)).to_le_bytes())
}

/// Where keys belong.
///
/// 1. A key whose owner serves stays, unless that owner is over its bound, `ceil(keys / members that may receive)`.
/// 2. Every other key, and the overflow, goes to the receiver below its bound with the highest score; when all are at the bound it does not
///    count.
/// 3. While versions differ the members of the preferred version receive, and nothing moves for balance alone.
/// 4. While nobody serves, a key that nobody has goes to one of those that drain, by the same rules, and nothing else moves: until they are
///    gone they are better than nobody.
///
/// Applied to its own result it moves nothing (H9).
pub fn place(nodes: &[Node], keys: &[Placed]) -> Placement {
    let (serving, mut placement) = (receivers(nodes), Placement::default());
    let last = serving.is_empty();
    let receivers = if last { preferred(nodes, |node| node.drains) } else { serving };
    if receivers.is_empty() {
        return placement;
    }
    let keeps = |node: &Node| node.serving || last;
    let hashes: Vec<u64> = nodes.iter().map(|node| hash(node.incarnation.as_str())).collect();
    let bound = keys.len().div_ceil(receivers.len());
    let mut load = vec![0_usize; nodes.len()];
    let mut homeless: Vec<usize> = Vec::new();
    for (key, placed) in keys.iter().enumerate() {
        match placed.owner {
            Some(owner) if nodes.get(owner).is_some_and(keeps) => load[owner] += 1,
            _ => homeless.push(key),
        }
    }
    if !last && !mixed(nodes) {
        overflow(keys, &hashes, bound, &mut load, &mut homeless, &mut placement.scored);
    }
    for key in homeless {
        let mut best: Option<(bool, u64, usize)> = None;
        for &node in &receivers {
            placement.scored += 1;
            let rank = (load[node] < bound, score(keys[key].hash, hashes[node]), node);
            best = best.max(Some(rank));
        }
        if let Some((_, _, to)) = best {
            load[to] += 1;
            placement.moves.push(Move { key, to });
        }
    }
    placement
}

/// Takes from every owner over the bound the keys that score lowest with it.
fn overflow(
    keys: &[Placed],
    hashes: &[u64],
    bound: usize,
    load: &mut [usize],
    homeless: &mut Vec<usize>,
    scored: &mut u64,
) {
    let mut full: Vec<Vec<(u64, usize)>> = vec![Vec::new(); load.len()];
    for (key, placed) in keys.iter().enumerate() {
        if let Some(owner) = placed.owner.filter(|owner| load.get(*owner).is_some_and(|load| *load > bound)) {
            *scored += 1;
            full[owner].push((score(placed.hash, hashes[owner]), key));
        }
    }
    let free = homeless.len();
    for (owner, mut owned) in full.into_iter().enumerate().filter(|(_, owned)| !owned.is_empty()) {
        owned.sort_unstable();
        homeless.extend(owned.iter().take(load[owner] - bound).map(|(_, key)| *key));
        load[owner] = bound;
    }
    // In the order of the keys, whichever of them were released already: so that a half-done move goes on as it began.
    if homeless.len() > free {
        homeless.sort_unstable();
    }
}

/// Whether members differ in version: nothing moves for balance then. Those that drain or join count too.
pub(crate) fn mixed(nodes: &[Node]) -> bool {
    nodes.windows(2).any(|pair| (pair[0].revision, &pair[0].version) != (pair[1].revision, &pair[1].version))
}

/// Who may receive: serving members of the preferred version, which is that of the highest revision or, where none is set, that of the
/// youngest.
pub(crate) fn receivers(nodes: &[Node]) -> Vec<usize> {
    preferred(nodes, |node| node.serving)
}

/// Of these nodes those of the preferred version.
fn preferred(nodes: &[Node], of: impl Fn(&Node) -> bool) -> Vec<usize> {
    let these = || nodes.iter().enumerate().filter(|(_, node)| of(node));
    let top = these().map(|(_, node)| node.revision).max().unwrap_or(0);
    let youngest = these().map(|(_, node)| node).min_by_key(|node| (node.beats, &node.incarnation));
    let preferred = |node: &Node| match top {
        0 => youngest.is_some_and(|youngest| youngest.version == node.version),
        top => node.revision == top,
    };
    these().filter(|(_, node)| preferred(node)).map(|(index, _)| index).collect()
}

#[cfg(test)]
#[path = "placement_tests.rs"]
mod tests;
