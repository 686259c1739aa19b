//! Chance by the block: gigabytes of text need more draws than a lock each allows.

use cannery_runtime::Rng;

/// A seeded source of small numbers.
#[derive(Clone, Debug)]
pub(super) struct Draw {
    rng: Rng,
    block: Box<[u8; 4096]>,
    at: usize,
}

impl Draw {
    pub(super) fn seeded(seed: u64) -> Self {
        Self {
            rng: Rng::seeded(seed),
            block: Box::new([0; 4096]),
            at: 4096,
        }
    }

    /// A source of its own, which depends on this one.
    pub(super) fn branch(&mut self) -> Self {
        let seed = u64::from(self.word()) << 32 | u64::from(self.word());
        Self::seeded(seed)
    }

    pub(super) fn word(&mut self) -> u32 {
        if self.at == self.block.len() {
            self.rng.fill(&mut self.block[..]);
            self.at = 0;
        }
        let bytes = self.block[self.at..self.at + 4].try_into();
        self.at += 4;
        u32::from_le_bytes(bytes.expect("four bytes"))
    }

    /// A number below `end`, which is small: the last few are a little rarer.
    pub(super) fn below(&mut self, end: u32) -> u32 {
        let wide = (u64::from(self.word()) * u64::from(end)) >> 32;
        u32::try_from(wide).expect("it is below a u32")
    }

    pub(super) fn index(&mut self, length: usize) -> usize {
        let end = u32::try_from(length).expect("a short list");
        usize::try_from(self.below(end)).expect("a usize has 32 bits")
    }

    /// True once in `often` times.
    pub(super) fn once_in(&mut self, often: u32) -> bool {
        self.below(often) == 0
    }

    pub(super) fn pick<'a>(&mut self, choices: &[&'a str]) -> &'a str {
        choices[self.index(choices.len())]
    }

    /// So many lower-case hexadecimal digits.
    pub(super) fn hex(&mut self, digits: usize) -> String {
        let mut text = String::with_capacity(digits + 8);
        while text.len() < digits {
            text += &format!("{:08x}", self.word());
        }
        text.truncate(digits);
        text
    }

    /// An address of a network for documentation.
    pub(super) fn address(&mut self) -> String {
        let network = self.pick(&["192.0.2", "198.51.100", "203.0.113"]);
        format!("{network}.{}", 1 + self.below(254))
    }

    /// Letters and digits that say nothing.
    pub(super) fn id(&mut self) -> String {
        self.branch().rng.id()
    }
}
