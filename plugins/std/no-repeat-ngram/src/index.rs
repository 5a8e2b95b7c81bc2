use alloc::vec::Vec;
use core::mem;
use table::Table;

/// Factor of the rolling hash: odd, with well-mixed bits. Tokens are compared too, so a hash
/// collision only costs time.
const FACTOR: u64 = 0x9e3779b97f4a7c15;
const NONE: u32 = u32::MAX;

/// The runs of n tokens of a sequence, by their first n-1.
pub struct Index {
    n: usize,
    seen: usize,
    /// Hash of the last n-1 tokens, or of all while there are fewer.
    hash: u64,
    /// FACTOR to the power of n-2: the weight of the oldest of n-1 tokens.
    weight: u64,
    /// By the hash of n-1 tokens, the entry of `heads` for them.
    starts: Table,
    heads: Vec<Head>,
    runs: Vec<Run>,
}

/// n-1 tokens.
struct Head {
    hash: u64,
    /// The run found last that begins with them; NONE if all were taken back.
    run: u32,
}

#[derive(Clone, Copy)]
struct Run {
    /// Position of the last token.
    at: u32,
    /// The entry of `heads` for the others.
    head: u32,
    /// Run with the same start found before, or NONE.
    next: u32,
}

fn same(a: &[u32], b: &[u32]) -> bool {
    a.len() == b.len() && a.iter().zip(b).all(|(a, b)| a == b)
}

impl Index {
    pub fn new(n: usize) -> Index {
        let weight = (2..n).fold(1u64, |w, _| w.wrapping_mul(FACTOR));
        Index { n, seen: 0, hash: 0, weight, starts: Table::new(), heads: Vec::new(), runs: Vec::new() }
    }

    /// Adds the new tokens, which are the last `new`; those that were there in their place were taken back. All others
    /// are the same as in the last call.
    pub fn extend(&mut self, tokens: &[u32], new: usize) {
        let k = self.n - 1;
        let left = tokens.len() - new.min(tokens.len());
        if left < self.seen {
            self.cut(&tokens[..left]);
        }
        while self.seen < tokens.len() {
            let at = self.seen;
            let token = tokens[at] as u64 + 1; // 0 would not change the hash of nothing
            let mut out = 0;
            if at >= k {
                self.keep(tokens, at);
                out = (tokens[at - k] as u64 + 1).wrapping_mul(self.weight);
            }
            if k > 0 {
                self.hash = self.hash.wrapping_sub(out).wrapping_mul(FACTOR).wrapping_add(token);
            }
            self.seen += 1;
        }
    }

    /// Forgets all but the first n tokens, which are given. A head without runs stays, and is never found.
    #[inline(never)]
    fn cut(&mut self, tokens: &[u32]) {
        while self.runs.last().map_or(false, |r| r.at as usize >= tokens.len()) {
            if let Some(r) = self.runs.pop() {
                self.heads[r.head as usize].run = r.next;
            }
        }
        self.seen = tokens.len();
        let last = &tokens[tokens.len() - tokens.len().min(self.n - 1)..];
        self.hash = last.iter().fold(0u64, |h, &t| h.wrapping_mul(FACTOR).wrapping_add(t as u64 + 1));
    }

    // Fuel is charged for the whole body of a loop, so this and other rare code are outside.
    #[inline(never)]
    fn keep(&mut self, tokens: &[u32], at: usize) {
        match self.head(tokens, at) {
            Some(h) => {
                let last = &mut self.heads[h as usize].run;
                // In a text that loops it is the run found last.
                if tokens[self.runs[*last as usize].at as usize] != tokens[at] {
                    let next = mem::replace(last, self.runs.len() as u32);
                    self.runs.push(Run { at: at as u32, head: h, next });
                }
            }
            None => self.add(at),
        }
    }

    #[inline(never)]
    fn add(&mut self, at: usize) {
        let heads = &self.heads;
        let head = heads.len() as u32;
        self.starts.insert(self.hash, heads.len() as u32, |h| heads[h as usize].hash);
        self.heads.push(Head { hash: self.hash, run: self.runs.len() as u32 });
        self.runs.push(Run { at: at as u32, head, next: NONE });
    }

    /// The entry of `heads` for the n-1 tokens before position `at`, whose hash
    /// is `self.hash`.
    fn head(&self, tokens: &[u32], at: usize) -> Option<u32> {
        let k = self.n - 1;
        self.starts.get(self.hash, |h| {
            let head = &self.heads[h as usize];
            if head.hash != self.hash || head.run == NONE {
                return false;
            }
            let end = self.runs[head.run as usize].at as usize;
            same(&tokens[end - k..end], &tokens[at - k..at])
        })
    }

    /// Appends the tokens that followed earlier occurrences of the last n-1. There may be
    /// duplicates.
    pub fn continuations(&self, tokens: &[u32], to: &mut Vec<u32>) {
        if tokens.len() + 1 < self.n {
            return;
        }
        let mut i = match self.head(tokens, tokens.len()) {
            Some(h) => self.heads[h as usize].run,
            None => NONE,
        };
        while i != NONE {
            let run = self.runs[i as usize];
            to.push(tokens[run.at as usize]);
            i = run.next;
        }
    }
}
