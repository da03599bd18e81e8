//! The room's randomness: part of its state, so that a move does not change what comes next.

use bevy_ecs::{change_detection::ResMut, resource::Resource, system::SystemParam};
use serde::{Deserialize, Serialize};

/// State of the generator (xoshiro256++). It may be used in tests on its own.
#[derive(Resource, Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RngState([u64; 4]);

impl RngState {
    /// Seeded by one number (spread by splitmix64, so that near seeds are far apart).
    pub fn seeded(seed: u64) -> Self {
        let mut x = seed;
        let mut next = || {
            x = x.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mut z = x;
            z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            z ^ (z >> 31)
        };
        Self([next(), next(), next(), next()])
    }

    /// 64 random bits.
    pub fn next_u64(&mut self) -> u64 {
        let s = &mut self.0;
        let out = s[0].wrapping_add(s[3]).rotate_left(23).wrapping_add(s[0]);
        let t = s[1] << 17;
        s[2] ^= s[0];
        s[3] ^= s[1];
        s[1] ^= s[2];
        s[0] ^= s[3];
        s[2] ^= t;
        s[3] = s[3].rotate_left(45);
        out
    }

    /// A number in `0..bound`; 0 if the bound is 0.
    pub fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.next_u64()) * u128::from(bound)) >> 64) as u64
    }

    /// A number in `low..high`.
    pub fn between(&mut self, low: f32, high: f32) -> f32 {
        const STEPS: f32 = (1_u32 << 24) as f32;
        let part = (self.next_u64() >> 40) as f32 / STEPS;
        low + (high - low) * part
    }

    /// `true` with probability `p`.
    pub fn chance(&mut self, p: f32) -> bool {
        self.between(0.0, 1.0) < p
    }

    /// One of these; `None` if there are none.
    pub fn pick<'a, T>(&mut self, from: &'a [T]) -> Option<&'a T> {
        from.get(self.below(from.len() as u64) as usize)
    }

    /// Shuffles in place.
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for i in (1..items.len()).rev() {
            items.swap(i, self.below(i as u64 + 1) as usize);
        }
    }
}

/// The room's own randomness. It is persisted: after a move the same numbers come.
#[derive(SystemParam, Debug)]
pub struct RoomRng<'w> {
    state: ResMut<'w, RngState>,
}

impl std::ops::Deref for RoomRng<'_> {
    type Target = RngState;
    fn deref(&self) -> &RngState {
        &self.state
    }
}
impl std::ops::DerefMut for RoomRng<'_> {
    fn deref_mut(&mut self) -> &mut RngState {
        &mut self.state
    }
}

#[cfg(test)]
mod tests {
    use super::RngState;

    #[test]
    fn draws_are_in_range_and_follow_the_state() {
        let mut rng = RngState::seeded(7);
        let mut copy = rng.clone();
        for _ in 0..1_000 {
            assert!(rng.below(6) < 6);
            assert!((2.0..3.0).contains(&rng.between(2.0, 3.0)));
        }
        for _ in 0..2_000 {
            copy.next_u64();
        }
        assert_eq!(rng, copy);
        assert_eq!(rng.below(0), 0);
        let mut items: Vec<u32> = (0..20).collect();
        rng.shuffle(&mut items);
        assert_ne!(items, (0..20).collect::<Vec<_>>());
        items.sort_unstable();
        assert_eq!(items, (0..20).collect::<Vec<_>>());
    }
}
