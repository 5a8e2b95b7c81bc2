use alloc::vec::Vec;
use table::Table;

/// Factor of the rolling hash: odd, bits well mixed. Equality decides, so that
/// a bad hash costs time alone.
const FACTOR: u64 = 0x9e3779b97f4a7c15;
const NONE: u32 = u32::MAX;

/// The runs of n tokens of a sequence, by their first n-1. Each is kept once,
/// as the position of its last token.
pub struct Index {
    n: usize,
    seen: usize,
    /// Hash of the last n-1 tokens, or of all while there are fewer.
    hash: u64,
    /// FACTOR to the power of n-2: what the oldest of n-1 tokens weighs.
    weight: u64,
    /// Runs by the hash of all n tokens.
    runs: Table,
    /// By the hash of n-1 tokens, the entry of `heads` for them.
    starts: Table,
    /// For each start, the run found last.
    heads: Vec<u32>,
    found: Vec<Run>,
}

#[derive(Clone, Copy)]
struct Run {
    /// Position of the last token.
    at: u32,
    /// Run with the same start found before, or NONE.
    next: u32,
    /// Hash of the first n-1 tokens.
    start: u64,
    /// Hash of all n.
    whole: u64,
}

fn same(a: &[u32], b: &[u32]) -> bool {
    a.len() == b.len() && a.iter().zip(b).all(|(a, b)| a == b)
}

impl Index {
    pub fn new(n: usize) -> Index {
        let weight = (2..n).fold(1u64, |w, _| w.wrapping_mul(FACTOR));
        Index { n, seen: 0, hash: 0, weight, runs: Table::new(), starts: Table::new(), heads: Vec::new(), found: Vec::new() }
    }

    /// Takes in the tokens that it has not seen. All but those at the end are
    /// the ones of the last call.
    pub fn extend(&mut self, tokens: &[u32]) {
        while self.seen < tokens.len() {
            self.push(tokens);
        }
    }

    fn push(&mut self, tokens: &[u32]) {
        let (at, k) = (self.seen, self.n - 1);
        let token = tokens[at] as u64 + 1; // 0 would not change the hash of nothing
        let whole = self.hash.wrapping_mul(FACTOR).wrapping_add(token);
        if at >= k {
            self.keep(tokens, at, whole);
        }
        if k > 0 {
            let out = if at >= k { (tokens[at - k] as u64 + 1).wrapping_mul(self.weight) } else { 0 };
            self.hash = self.hash.wrapping_sub(out).wrapping_mul(FACTOR).wrapping_add(token);
        }
        self.seen += 1;
    }

    /// Keeps the run that ends at `at`, unless there is one like it.
    fn keep(&mut self, tokens: &[u32], at: usize, whole: u64) {
        let found = &self.found;
        let k = self.n - 1;
        let run = |end: usize| &tokens[end - k..=end];
        if self.runs.get(whole, |i| same(run(found[i as usize].at as usize), run(at))).is_some() {
            return;
        }
        let new = found.len() as u32;
        let start = self.hash;
        let head = self.start(tokens, at);
        let next = match head {
            Some(h) => core::mem::replace(&mut self.heads[h as usize], new),
            None => {
                let (heads, found) = (&self.heads, &self.found);
                let hash_of = |h: u32| found[heads[h as usize] as usize].start;
                self.starts.insert(start, heads.len() as u32, hash_of);
                self.heads.push(new);
                NONE
            }
        };
        let found = &self.found;
        self.runs.insert(whole, new, |i| found[i as usize].whole);
        self.found.push(Run { at: at as u32, next, start, whole });
    }

    /// The entry of `heads` for the n-1 tokens before position `at`, whose hash
    /// is `self.hash`.
    fn start(&self, tokens: &[u32], at: usize) -> Option<u32> {
        let k = self.n - 1;
        let before = |end: usize| &tokens[end - k..end];
        self.starts.get(self.hash, |h| {
            let run = self.found[self.heads[h as usize] as usize];
            same(before(run.at as usize), before(at))
        })
    }

    /// Appends the tokens that have followed the last n-1, each once.
    pub fn continuations(&self, tokens: &[u32], to: &mut Vec<u32>) {
        if tokens.len() + 1 < self.n {
            return;
        }
        let mut i = match self.start(tokens, tokens.len()) {
            Some(h) => self.heads[h as usize],
            None => NONE,
        };
        while i != NONE {
            let run = self.found[i as usize];
            to.push(tokens[run.at as usize]);
            i = run.next;
        }
    }
}
