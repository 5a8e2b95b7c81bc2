use alloc::{string::String, vec, vec::Vec};
use core::mem;
use tgi_plugin::host;

/// The breakers of the original and of llama.cpp.
pub const USUAL: [&str; 4] = ["\n", ":", "\"", "*"];

/// How many tokens of a breaker are looked at after its first, as in llama.cpp.
const LONGEST_TAIL: usize = 20;

/// How many texts there may be.
pub const MOST: usize = 64;

/// Marks that there is no text.
const NONE: u8 = u8::MAX;

/// Tells of the tokens of a sequence which end a repetition: those whose text
/// has a breaker in it. A breaker may lie across tokens; then it is known by
/// the token in which it begins (the head) and those that follow (the tail).
///
/// llama.cpp asks this of the whole vocabulary beforehand. Only tokens that
/// the sequence has can matter, so here it is asked when one comes first.
pub struct Breakers {
    texts: Vec<Text>,
    /// By first byte, one of the texts that begin with it, or NONE.
    first: [u8; 256],
    tails: Vec<Vec<u32>>,
    longest_tail: usize,
}

struct Text {
    bytes: Vec<u8>,
    /// Another one with the same first byte, or NONE.
    next: u8,
    /// For the n bytes that lie in the head, once they were looked up, the
    /// entry of `tails`; None where the rest is not text by itself.
    tails: Vec<Option<Option<u32>>>,
}

/// What a token has to do with breakers.
#[derive(Debug, Default, PartialEq)]
pub struct Kind {
    /// One lies wholly in it: then it gets no penalty either.
    pub breaks: bool,
    /// It is the head of one with each of these tails, see `Breakers::is_tail`.
    pub tails: Vec<u32>,
}

impl Breakers {
    /// Takes texts that are not empty.
    pub fn new(texts: &[String]) -> Breakers {
        let mut b = Breakers { texts: Vec::new(), first: [NONE; 256], tails: Vec::new(), longest_tail: 0 };
        for (i, t) in texts.iter().enumerate() {
            let bytes = t.as_bytes().to_vec();
            let next = mem::replace(&mut b.first[bytes[0] as usize], i as u8);
            b.texts.push(Text { next, tails: vec![None; bytes.len()], bytes });
        }
        b
    }

    /// Looks at a token.
    pub fn kind(&mut self, id: u32) -> Kind {
        let word = host::token_bytes(id).unwrap_or_default();
        let mut kind = Kind::default();
        let mut whole = 0u64; // bit per text that was found wholly: it needs no tail
        for at in 0..word.len() {
            let mut i = self.first[word[at] as usize];
            while i != NONE {
                let text = &self.texts[i as usize].bytes;
                let n = word[at..].iter().zip(text).take_while(|(a, b)| a == b).count();
                if n == text.len() {
                    kind.breaks = true;
                    whole |= 1 << i;
                } else if at + n == word.len() && whole >> i & 1 == 0 {
                    kind.tails.extend(self.tail(i, n).filter(|t| !kind.tails.contains(t)));
                }
                i = self.texts[i as usize].next;
            }
        }
        kind
    }

    /// The entry of `tails` for what follows the first n bytes of a text.
    fn tail(&mut self, text: u8, n: usize) -> Option<u32> {
        let t = &mut self.texts[text as usize];
        if let Some(known) = t.tails[n] {
            return known;
        }
        let ids = core::str::from_utf8(&t.bytes[n..]).ok().and_then(host::encode);
        let entry = ids.map(|mut ids| {
            ids.truncate(LONGEST_TAIL);
            self.longest_tail = self.longest_tail.max(ids.len());
            self.tails.push(ids);
            self.tails.len() as u32 - 1
        });
        t.tails[n] = Some(entry);
        entry
    }

    /// How many tokens the longest tail has that a token was found to have.
    pub fn longest_tail(&self) -> usize {
        self.longest_tail
    }

    /// Whether `tokens` are the tail of that number.
    pub fn is_tail(&self, tail: u32, tokens: &[u32]) -> bool {
        self.tails[tail as usize] == tokens
    }
}
