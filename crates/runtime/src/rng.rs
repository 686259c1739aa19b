//! Chance: one seeded generator, handed to whatever needs it.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use data_encoding::{Encoding, Specification};
use rand::rngs::StdRng;
use rand::{Rng as _, RngExt as _, SeedableRng as _};

/// A random generator; clones share one state, so a run from a seed is repeatable as a whole.
#[derive(Clone, Debug)]
pub struct Rng(Arc<Mutex<StdRng>>);

impl Rng {
    /// Seeded by the operating system.
    #[must_use]
    pub fn from_os() -> Self {
        let mut system = rand::rngs::SysRng;
        Self::from_generator(
            StdRng::try_from_rng(&mut system).expect("the operating system gives random bytes"),
        )
    }

    /// The same numbers every time.
    #[must_use]
    pub fn seeded(seed: u64) -> Self {
        Self::from_generator(StdRng::seed_from_u64(seed))
    }

    fn from_generator(generator: StdRng) -> Self {
        Self(Arc::new(Mutex::new(generator)))
    }

    fn with<T>(&self, draw: impl FnOnce(&mut StdRng) -> T) -> T {
        draw(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// A number below `end`; 0 when `end` is 0.
    #[must_use]
    pub fn below(&self, end: u64) -> u64 {
        if end == 0 {
            0
        } else {
            self.with(|generator| generator.random_range(0..end))
        }
    }

    /// True with the given probability, between 0 and 1.
    #[must_use]
    pub fn chance(&self, probability: f64) -> bool {
        self.with(|generator| generator.random_bool(probability.clamp(0.0, 1.0)))
    }

    /// Fills `buffer`.
    pub fn fill(&self, buffer: &mut [u8]) {
        self.with(|generator| generator.fill_bytes(buffer));
    }

    /// A pause between nothing and `ceiling` ("full jitter").
    #[must_use]
    pub fn jitter(&self, ceiling: Duration) -> Duration {
        ceiling.mul_f64(self.with(|generator| generator.random::<f64>()))
    }

    /// 128 random bits as 26 characters of lower-case base32: unique without asking anybody.
    #[must_use]
    pub fn id(&self) -> String {
        let mut bits = [0; 16];
        self.fill(&mut bits);
        base32().encode(&bits)
    }
}

fn base32() -> Encoding {
    let mut specification = Specification::new();
    specification
        .symbols
        .push_str("abcdefghijklmnopqrstuvwxyz234567");
    specification
        .encoding()
        .expect("32 distinct symbols make an encoding")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_repeats_and_ids_have_one_shape() {
        let (one, two) = (Rng::seeded(7), Rng::seeded(7));
        let id = one.id();
        assert_eq!(id, two.id());
        assert_ne!(id, one.id());
        assert_eq!(id.len(), 26);
        assert!(
            id.bytes()
                .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit())
        );
    }
}
