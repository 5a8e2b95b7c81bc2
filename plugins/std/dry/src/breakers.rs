use alloc::{string::String, vec, vec::Vec};
use core::mem;
use tgi_plugin::host;

/// The breakers of the original and of llama.cpp.
pub const USUAL: [&str; 4] = ["\n", ":", "\"", "*"];

/// The maximum number of tokens of a breaker after its first, as in llama.cpp.
const LONGEST_TAIL: usize = 20;

/// The maximum number of texts.
pub const MOST: usize = 64;

/// Marks that there is no text.
const NONE: u8 = u8::MAX;

/// Finds the tokens of a sequence that end a repetition: those whose text contains a breaker. A
/// breaker may span tokens; it is then identified by the token in which it begins (the head) and
/// those that follow (the tail).
///
/// llama.cpp computes this for the whole vocabulary in advance. Only tokens of the sequence matter,
/// so here it is computed when a token first occurs.
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
    /// For the first n bytes in the head, once looked up, the entry of `tails`; None if the rest is
    /// not valid text.
    tails: Vec<Option<Option<u32>>>,
}

/// The relation of a token to the breakers.
#[derive(Debug, Default, PartialEq)]
pub struct Kind {
    /// It contains a whole breaker, so it gets no penalty either.
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

    /// The number of tokens of the longest tail found.
    pub fn longest_tail(&self) -> usize {
        self.longest_tail
    }

    /// Whether `tokens` are the tail of that number.
    pub fn is_tail(&self, tail: u32, tokens: &[u32]) -> bool {
        self.tails[tail as usize] == tokens
    }
}
