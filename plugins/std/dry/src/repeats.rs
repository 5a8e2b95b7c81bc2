use alloc::{vec, vec::Vec};
use core::mem;
use table::Table;

use crate::breakers::{Breakers, Kind};

/// The earlier occurrences of the sequence's end, and their lengths.
///
/// llama.cpp and koboldcpp run the Z-algorithm over all tokens at every step.
/// Here it runs once, over the prompt. From then on a repetition that ends at
/// j is one longer than that which ended at j-1 a step ago, and there is one
/// only where token j is the token just chosen: the cost of a step is in
/// proportion to the occurrences of that token.
pub struct Repeats {
    /// How many tokens back count; usize::MAX is all.
    range: usize,
    /// The first token looked at. Positions below count from here.
    base: usize,
    table: Table,
    words: Vec<Word>,
    /// For each position the entry of `words`.
    word_at: Vec<u32>,
    /// For each position the last one before with the same token, or NONE.
    before: Vec<u32>,
    /// The positions before the last that hold the last token, falling, with
    /// the length of what repeats there.
    ends: Vec<(u32, u32)>,
    old_ends: Vec<(u32, u32)>,
    breakers: Breakers,
    /// Each breaker that was the last one when it was complete.
    breaks: Vec<Break>,
    /// What the last call of `continuations` found.
    found: Vec<(u32, u32)>,
    calls: u32,
}

/// A token that the sequence has.
struct Word {
    id: u32,
    kind: Kind,
    last: u32,
    /// Its entry in `found`, if made in call `call`.
    entry: u32,
    call: u32,
}

/// A breaker: the position that completes it, its head, and how many tokens of it follow that.
struct Break {
    at: u32,
    head: u32,
    tail: u32,
}

const NONE: u32 = u32::MAX;

/// How many of the last occurrences of a token are considered. It bounds the cost of a step to what
/// the server allows. In a text of 100,000 tokens the most frequent one has about 5000.
const MOST: usize = 1 << 12;

impl Repeats {
    /// Adds the prompt.
    pub fn new(range: usize, prompt: &[u32], breakers: Breakers) -> Repeats {
        let range = if range == 0 { usize::MAX } else { range };
        let base = prompt.len() - prompt.len().min(range);
        let mut r = Repeats {
            range,
            base,
            table: Table::new(),
            words: Vec::new(),
            word_at: Vec::new(),
            before: Vec::new(),
            ends: Vec::new(),
            old_ends: Vec::new(),
            breakers,
            breaks: Vec::new(),
            found: Vec::new(),
            calls: 0,
        };
        let tokens = &prompt[base..];
        for at in 0..tokens.len() {
            r.enter(tokens, at);
        }
        r.compare(tokens);
        r
    }

    /// Makes `ends` those of the last of all tokens.
    fn compare(&mut self, tokens: &[u32]) {
        self.ends.clear();
        if let Some(&last) = self.before.last() {
            let z = from_the_end(tokens);
            let mut at = last;
            while at != NONE && self.ends.len() < MOST {
                self.ends.push((at, z[tokens.len() - 1 - at as usize]));
                at = self.before[at as usize];
            }
        }
    }

    /// Forgets all but the first n tokens, which are given.
    #[inline(never)]
    fn cut(&mut self, tokens: &[u32]) {
        while self.word_at.len() > tokens.len() {
            if let (Some(word), Some(before)) = (self.word_at.pop(), self.before.pop()) {
                self.words[word as usize].last = before;
            }
        }
        while self.breaks.last().map_or(false, |b| b.at as usize >= tokens.len()) {
            self.breaks.pop();
        }
        self.compare(tokens);
    }

    /// Adds the new tokens, which are the last `new`; those that were there in their place were taken back.
    pub fn extend(&mut self, tokens: &[u32], new: usize) {
        let tokens = &tokens[self.base..];
        let left = tokens.len() - new.min(tokens.len());
        if left < self.word_at.len() {
            self.cut(&tokens[..left]);
        }
        for at in self.word_at.len()..tokens.len() {
            self.enter(tokens, at);
            self.lengthen(at);
        }
    }

    fn enter(&mut self, tokens: &[u32], at: usize) {
        let id = tokens[at];
        let words = &self.words;
        let word = match self.table.get(id as u64, |w| words[w as usize].id == id) {
            Some(w) => w,
            None => self.meet(id),
        };
        self.word_at.push(word);
        self.before.push(mem::replace(&mut self.words[word as usize].last, at as u32));
        if let Some(tail) = self.completed(tokens, at) {
            // With the same head, the one that ends later is the longer one.
            if self.breaks.last().map_or(true, |b| at - tail >= b.head as usize) {
                self.breaks.push(Break { at: at as u32, head: (at - tail) as u32, tail: tail as u32 });
            }
        }
    }

    // Fuel is charged for the whole body of a loop, so rare code is outside.
    #[inline(never)]
    fn meet(&mut self, id: u32) -> u32 {
        let words = &self.words;
        let w = words.len() as u32;
        self.table.insert(id as u64, w, |w| words[w as usize].id as u64);
        self.words.push(Word { id, kind: self.breakers.kind(id), last: NONE, entry: 0, call: 0 });
        w
    }

    /// The breaker that the token at position `at` completes: how many tokens
    /// follow its head. Of several, the one whose head comes last.
    fn completed(&self, tokens: &[u32], at: usize) -> Option<usize> {
        if self.words[self.word_at[at] as usize].kind.breaks {
            return Some(0);
        }
        match self.breakers.longest_tail().min(at) {
            0 => None,
            longest => self.completed_across(tokens, at, longest),
        }
    }

    #[inline(never)]
    fn completed_across(&self, tokens: &[u32], at: usize, longest: usize) -> Option<usize> {
        (1..=longest).find(|&n| {
            let head = &self.words[self.word_at[at - n] as usize].kind;
            head.tails.iter().any(|&t| self.breakers.is_tail(t, &tokens[at - n + 1..=at]))
        })
    }

    /// Makes `ends` those of the token at position `at`.
    #[inline(never)]
    fn lengthen(&mut self, at: usize) {
        mem::swap(&mut self.ends, &mut self.old_ends);
        self.ends.clear();
        let (old, before, ends) = (&self.old_ends[..], &self.before[..], &mut self.ends);
        let start = (at + 1 - (at + 1).min(self.range)) as u32;
        let mut j = before[at];
        let mut i = 0;
        while j != NONE && j >= start && ends.len() < MOST {
            while i < old.len() && old[i].0 >= j {
                i += 1;
            }
            let longer = i < old.len() && old[i].0 + 1 == j;
            ends.push((j, 1 + if longer { old[i].1 } else { 0 }));
            j = before[j as usize];
        }
    }

    /// The first position that counts when there are n.
    fn start(&self, n: usize) -> usize {
        n - n.min(self.range)
    }

    /// Each token that would continue a repetition of at least `shortest`
    /// tokens and has no breaker in it, and how long the longest of the
    /// repetitions is without it.
    pub fn continuations(&mut self, tokens: &[u32], shortest: u32) -> &[(u32, u32)] {
        let n = self.word_at.len();
        let start = self.start(n);
        self.found.clear();
        self.calls += 1;
        let whole = match self.breaks.last() {
            Some(b) if b.head as usize >= start => n - 1 - b.head as usize - b.tail as usize,
            _ => n,
        };
        if whole < shortest as usize {
            return &self.found;
        }
        for i in 0..self.ends.len() {
            let (j, length) = (self.ends[i].0 as usize, self.ends[i].1);
            if j < start {
                break;
            }
            // A repetition begins neither before the range nor before a breaker.
            let length = length.min(whole as u32).min((j - start + 1) as u32);
            if length < shortest {
                continue;
            }
            self.note(j + 1, tokens[self.base + j + 1], length);
        }
        &self.found
    }

    /// Records that the token at position `at` would continue a repetition.
    #[inline(never)]
    fn note(&mut self, at: usize, id: u32, length: u32) {
        let word = &mut self.words[self.word_at[at] as usize];
        if word.kind.breaks {
            return;
        }
        if word.call != self.calls {
            word.call = self.calls;
            word.entry = self.found.len() as u32;
            self.found.push((id, length));
        }
        let best = &mut self.found[word.entry as usize].1;
        *best = length.max(*best);
    }
}

/// For every k, how many tokens before the end equal those before the end
/// less k: the Z-algorithm (Gusfield, Algorithms on Strings, 1.3-1.4), backwards.
fn from_the_end(tokens: &[u32]) -> Vec<u32> {
    let n = tokens.len();
    let t = |i: usize| tokens[n - 1 - i];
    let mut z = vec![0u32; n];
    let (mut left, mut right) = (0, 0); // the match that reaches furthest: left..right
    for k in 1..n {
        let mut len = if k < right { (z[k - left] as usize).min(right - k) } else { 0 };
        if k + len >= right {
            while k + len < n && t(len) == t(k + len) {
                len += 1;
            }
            left = k;
            right = k + len;
        }
        z[k] = len as u32;
    }
    z
}
