//! Randomness: seeded, so that a simulation can replay it; `fork` gives each part its own stream.

use std::sync::Arc;

use parking_lot::Mutex;
use rand::{RngExt as _, SeedableRng as _, rngs::StdRng};

/// A shared source of randomness; cheap to clone. Never for secrets in a simulation, always fit for them in production.
#[derive(Clone)]
pub struct Rng(Arc<Mutex<StdRng>>);

impl Rng {
    /// Seeded by the operating system.
    pub fn from_entropy() -> Self {
        Self(Arc::new(Mutex::new(rand::make_rng())))
    }

    /// Seeded by a number: the same draws each time.
    pub fn seeded(seed: u64) -> Self {
        Self(Arc::new(Mutex::new(StdRng::seed_from_u64(seed))))
    }

    /// A source of its own, seeded from this one.
    #[must_use]
    pub fn fork(&self) -> Self {
        Self::seeded(self.next_u64())
    }

    /// 64 random bits.
    pub fn next_u64(&self) -> u64 {
        self.0.lock().random()
    }

    /// 128 random bits.
    pub fn next_u128(&self) -> u128 {
        self.0.lock().random()
    }

    /// A number in `0..bound`; 0 if the bound is 0.
    pub fn below(&self, bound: u64) -> u64 {
        if bound == 0 { 0 } else { self.0.lock().random_range(0..bound) }
    }

    /// A random UUID (version 4).
    pub fn uuid(&self) -> uuid::Uuid {
        uuid::Builder::from_u128(self.next_u128()).with_version(uuid::Version::Random).into_uuid()
    }
}

impl std::fmt::Debug for Rng {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Rng")
    }
}
