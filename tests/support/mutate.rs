//! Inputs that are near those of a corpus.

use rand::rngs::StdRng;
use rand::{Rng, RngExt, SeedableRng};

/// Bytes that formats give a meaning.
const SPECIAL: &[u8] =
    b"\x00\x01\x02\x7f\x80\xff \t\r\n\\\"'{}[](),:;=#!$<>-+.0123456789eEuabcdefxyzAZ";

/// Makes inputs of those of a corpus: some bytes changed, taken out, doubled, or from another.
pub(crate) struct Mutator<'c> {
    corpus: &'c [Vec<u8>],
    random: StdRng,
    max_len: usize,
    input: Vec<u8>,
}

impl<'c> Mutator<'c> {
    pub(crate) fn new(corpus: &'c [Vec<u8>], seed: u64, max_len: usize) -> Self {
        let random = StdRng::seed_from_u64(seed);
        Mutator {
            corpus,
            random,
            max_len,
            input: Vec::new(),
        }
    }

    fn below(&mut self, end: usize) -> usize {
        if end == 0 {
            0
        } else {
            self.random.random_range(..end)
        }
    }

    /// A part of an input of the corpus.
    fn part(&mut self) -> Vec<u8> {
        let from = self.below(self.corpus.len());
        let Some(from) = self.corpus.get(from) else {
            return Vec::new();
        };
        let start = self.below(from.len() + 1);
        let length = self.below(from.len() - start + 1);
        from[start..start + length].to_vec()
    }

    fn byte(&mut self) -> u8 {
        match self.below(2) {
            0 => SPECIAL[self.below(SPECIAL.len())],
            _ => self.random.random(),
        }
    }

    /// The next input.
    pub(crate) fn input(&mut self) -> &[u8] {
        let base = self.below(self.corpus.len() + 1);
        self.input = self.corpus.get(base).cloned().unwrap_or_default();
        if self.input.is_empty() {
            let length = self.below(64);
            self.input.resize(length, 0);
            self.random.fill_bytes(&mut self.input);
        }
        for _ in 0..=self.below(6) {
            self.mutate();
        }
        self.input.truncate(self.max_len);
        &self.input
    }

    fn mutate(&mut self) {
        let length = self.input.len();
        let place = self.below(length);
        let end = place + self.below((length - place + 1).min(32));
        match self.below(8) {
            0 | 1 if length > 0 => self.input[place] = self.byte(),
            2 if length > 0 => self.input[place] ^= 1 << self.below(8),
            3 => {
                let byte = self.byte();
                self.input.insert(place, byte);
            }
            4 => drop(self.input.drain(place..end)),
            5 => {
                let part = self.part();
                self.input.splice(place..place, part);
            }
            6 => {
                let times = 1 + self.below(64);
                let part = self.input[place..end].repeat(times);
                self.input.splice(place..end, part);
            }
            _ if length >= place + 4 => {
                let number: i32 = [0, -1, 1, 2, i32::MAX, i32::MIN, 1 << 16][self.below(7)];
                self.input[place..place + 4].copy_from_slice(&number.to_be_bytes());
            }
            _ => {}
        }
    }
}
