use alloc::{string::String, vec, vec::Vec};
use tgi_plugin::host;

/// The breakers of the original and of llama.cpp.
pub const USUAL: [&str; 4] = ["\n", ":", "\"", "*"];

/// How many tokens of a breaker are looked at after its first, as in llama.cpp.
const LONGEST_TAIL: usize = 20;

/// The bytes of all tokens, one after the other: asking the server for each at
/// every request would take longer than looking for the breakers.
pub struct Words {
    pub bytes: Vec<u8>,
    /// ends[id] is where the bytes of token id end.
    pub ends: Vec<u32>,
}

impl Words {
    /// Asks the server for them.
    pub fn load() -> Words {
        let n = host::vocab_size();
        let mut w = Words { bytes: Vec::with_capacity(n as usize * 8), ends: Vec::with_capacity(n as usize) };
        for id in 0..n {
            if let Some(b) = host::token_bytes(id) {
                w.bytes.extend_from_slice(&b);
            }
            w.ends.push(w.bytes.len() as u32);
        }
        w
    }
}

/// The tokens, and runs of tokens, that end a repetition: those whose text has
/// a breaker in it. A breaker may lie across tokens; then it is known by the
/// token in which it begins (the head) and those that follow (the tail).
pub struct Breakers {
    /// Bit per token: a breaker lies wholly in it.
    single: Vec<u32>,
    /// Bit per token: it is the head of one or more of `longer`.
    heads: Vec<u32>,
    /// By rising head.
    longer: Vec<(u32, Vec<u32>)>,
    longest_tail: usize,
}

fn has(set: &[u32], id: u32) -> bool {
    set.get(id as usize / 32).map_or(false, |w| w >> (id % 32) & 1 == 1)
}

fn add(set: &mut [u32], id: u32) {
    set[id as usize / 32] |= 1 << (id % 32);
}

/// The texts with the tails that follow a head in which the first n bytes lie.
struct Text<'a> {
    text: &'a str,
    /// tails[n], once it was asked for; None where the rest is not text by itself.
    tails: Vec<Option<Option<Vec<u32>>>>,
}

impl<'a> Text<'a> {
    fn tail(&mut self, n: usize) -> Option<&Vec<u32>> {
        let text = self.text;
        let tail = self.tails[n].get_or_insert_with(|| {
            let mut ids = host::encode(text.get(n..)?)?;
            ids.truncate(LONGEST_TAIL);
            Some(ids)
        });
        tail.as_ref()
    }
}

impl Breakers {
    /// Looks for the texts in all tokens.
    pub fn new(words: &Words, texts: &[String]) -> Breakers {
        let sets = (words.ends.len() + 31) / 32;
        let mut b = Breakers { single: vec![0; sets], heads: vec![0; sets], longer: Vec::new(), longest_tail: 0 };
        let mut texts: Vec<Text> = texts.iter().map(|t| Text { text: t, tails: vec![None; t.len()] }).collect();
        let mut first = [false; 256];
        for t in &texts {
            first[t.text.as_bytes()[0] as usize] = true;
        }
        let mut start = 0;
        for (id, &end) in words.ends.iter().enumerate() {
            let word = &words.bytes[start..end as usize];
            start = end as usize;
            // Most tokens have no byte that begins a breaker.
            if word.iter().any(|&c| first[c as usize]) {
                for t in &mut texts {
                    b.token(id as u32, word, t);
                }
            }
        }
        b
    }

    fn token(&mut self, id: u32, word: &[u8], t: &mut Text) {
        let text = t.text.as_bytes();
        if word.windows(text.len()).any(|w| w == text) {
            return add(&mut self.single, id);
        }
        // The text is longer than what is left of the word at each start now.
        for at in (word.len() + 1).saturating_sub(text.len())..word.len() {
            let n = word.len() - at;
            if word[at..] != text[..n] {
                continue;
            }
            if let Some(tail) = t.tail(n) {
                if self.longer.iter().rev().take_while(|l| l.0 == id).any(|l| l.1 == *tail) {
                    continue;
                }
                self.longest_tail = self.longest_tail.max(tail.len());
                self.longer.push((id, tail.clone()));
                add(&mut self.heads, id);
            }
        }
    }

    /// Whether a breaker lies in the token, which then gets no penalty.
    pub fn breaks(&self, id: u32) -> bool {
        has(&self.single, id)
    }

    /// The breaker that the last token of `tokens` completes: how many tokens
    /// follow its head. Of several, the one whose head comes last.
    pub fn completed(&self, tokens: &[u32]) -> Option<usize> {
        let last = tokens.len().checked_sub(1)?;
        if has(&self.single, tokens[last]) {
            return Some(0);
        }
        (1..=self.longest_tail.min(last)).find(|&n| {
            let head = tokens[last - n];
            has(&self.heads, head) && self.tails(head).any(|t| t == &tokens[last - n + 1..])
        })
    }

    fn tails(&self, head: u32) -> impl Iterator<Item = &Vec<u32>> {
        let from = self.longer.partition_point(|l| l.0 < head);
        self.longer[from..].iter().take_while(move |l| l.0 == head).map(|l| &l.1)
    }
}
