//! What a bot said, seat after seat, and what a room may have of it at the end (H4): of the seat that it has, everything; of a seat that
//! ended, a beginning, and what was saved at least. Of what is paid and done, the same (H6).

use std::collections::BTreeSet;

use crate::lab::Say;

/// What was said from one seat.
#[derive(Clone, Debug, Default)]
pub struct Life {
    /// Numbers begin above this one.
    pub base: u64,
    pub said: Vec<Say>,
    /// Highest number known to be saved.
    pub saved: u64,
}

impl Life {
    pub fn from(base: u64) -> Self {
        Self { base, said: Vec::new(), saved: base }
    }

    /// The last number given.
    pub fn last(&self) -> u64 {
        self.base + self.said.len() as u64
    }

    pub fn get(&self, number: u64) -> Option<&Say> {
        let at = number.checked_sub(self.base + 1)?;
        self.said.get(usize::try_from(at).ok()?)
    }

    fn kept(&self, count: usize) -> Vec<u64> {
        self.said[..count].iter().filter_map(|say| if let Say::Keep(n) = say { Some(*n) } else { None }).collect()
    }

    fn work(&self, count: usize) -> BTreeSet<&str> {
        self.said[..count]
            .iter()
            .filter_map(|say| if let Say::Later(key, _) = say { Some(&**key) } else { None })
            .collect()
    }

    fn gifts(&self, count: usize) -> Paid {
        let gifts =
            self.said[..count].iter().filter_map(|say| if let Say::Gift(gold) = say { Some(*gold) } else { None });
        gifts.fold((0, 0), |(gold, gifts), more| (gold + more, gifts + 1))
    }
}

/// Gold, and the gifts that it came in.
pub type Paid = (i64, usize);

/// What may have been paid, by what was applied and done.
///
/// # Errors
/// What is wrong.
pub fn judge(lives: &[Life], applied: &[u64], done: &[String]) -> Result<BTreeSet<Paid>, String> {
    let mut rest = applied;
    let mut paid = BTreeSet::from([(0, 0)]);
    for (at, life) in lives.iter().enumerate() {
        let all = life.said.len();
        let saved = usize::try_from(life.saved - life.base).expect("small");
        let least = if at + 1 == lives.len() { all } else { saved };
        let here = life.kept(all);
        let (part, after) = rest.split_at(rest.iter().take_while(|n| here.contains(n)).count());
        rest = after;
        let counts: Vec<usize> = (least..=all).filter(|count| life.kept(*count) == part).collect();
        if counts.is_empty() {
            let said = &life.said;
            return Err(format!(
                "H4: seat {at}: {said:?} was said, {saved} saved; applied was {part:?}, then {after:?}"
            ));
        }
        let here: BTreeSet<&str> =
            life.work(all).into_iter().filter(|key| done.iter().any(|done| done == key)).collect();
        let counts: Vec<usize> = counts.into_iter().filter(|count| life.work(*count) == here).collect();
        if counts.is_empty() {
            return Err(format!("H6: seat {at}: {:?} was said, {saved} saved; done was {here:?}", life.said));
        }
        let more: Vec<Paid> = counts.into_iter().map(|count| life.gifts(count)).collect();
        paid = paid.iter().flat_map(|(gold, n)| more.iter().map(move |(g, m)| (gold + g, n + m))).collect();
    }
    if rest.is_empty() { Ok(paid) } else { Err(format!("H4: {rest:?} was applied beyond what was said, or again")) }
}

/// The same of a store that forgot something: what was applied is in order and once; what is missing of the seat that it has was told to be
/// rolled back, `rollbacks` times. Gifts may be lost with it, or shown and lost, and none is paid twice.
///
/// # Errors
/// What is wrong.
pub fn judge_what_is_left(lives: &[Life], applied: &[u64], rollbacks: usize) -> Result<BTreeSet<Paid>, String> {
    let kept: Vec<u64> = lives.iter().flat_map(|life| life.kept(life.said.len())).collect();
    if !applied.is_sorted_by(|a, b| a < b) || applied.iter().any(|n| !kept.contains(n)) {
        return Err(format!("H4: {kept:?} was said; applied was {applied:?}, not in order and once"));
    }
    let last = lives.last().map(|life| life.kept(life.said.len())).unwrap_or_default();
    let missing: Vec<&u64> = last.iter().filter(|n| !applied.contains(n)).collect();
    if rollbacks == 0 && !missing.is_empty() {
        return Err(format!("H4: {missing:?} is missing of {last:?}, and nobody was told"));
    }
    let gifts = lives.iter().flat_map(|life| &life.said);
    let gifts = gifts.filter_map(|say| if let Say::Gift(gold) = say { Some(*gold) } else { None });
    Ok(gifts.fold(BTreeSet::from([(0, 0)]), |sums, gold| {
        sums.iter().flat_map(|(sum, n)| [(*sum, *n), (sum + gold, n + 1)]).collect()
    }))
}

#[test]
fn a_seat_that_ended_may_lose_its_end_and_nothing_else() {
    let life =
        |base: u64, saved: u64, said: &[u64]| Life { base, saved, said: said.iter().map(|n| Say::Keep(*n)).collect() };
    let lives = [life(0, 1, &[0, 1, 2]), life(0, 0, &[3, 4])];
    let ok = |applied: &[u64]| judge(&lives, applied, &[]).is_ok();
    assert!(ok(&[0, 3, 4]) && ok(&[0, 1, 3, 4]) && ok(&[0, 1, 2, 3, 4]));
    for wrong in [&[3, 4][..], &[0, 2, 3, 4], &[0, 1, 3], &[0, 1, 1, 3, 4], &[0, 3, 4, 1], &[0, 3, 4, 4], &[1, 0, 3, 4]]
    {
        assert!(!ok(wrong), "{wrong:?}");
    }
}
