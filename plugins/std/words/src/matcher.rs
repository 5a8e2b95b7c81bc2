use alloc::vec::Vec;
use core::ops::Range;

use crate::Index;

/// How words are compared with text.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Options {
    /// ASCII letters are equal in both cases.
    pub ignore_case: bool,
    /// A word's first and last character, where they belong to words, have none
    /// that does beside them. The end of the text counts as a border, also where
    /// it cuts a character.
    pub whole_word: bool,
}

/// The roots of the trie: words that may begin anywhere, and those that may not
/// begin behind a character of a word.
const ANYWHERE: u32 = 0;
const AT_BORDER: u32 = 1;

/// A node of the trie: a beginning of a word.
struct Node {
    byte: u8,
    /// A word ends here.
    end: bool,
    child: u32,
    sibling: u32,
    /// Its ranges, see `Matcher::ranges`.
    ranges: Range<u32>,
}

/// A set of words.
pub struct Matcher {
    options: Options,
    nodes: Vec<Node>,
    /// Parts of the sorted vocabulary: the tokens that complete a word where the
    /// text ends in the node's beginning.
    ranges: Vec<Range<u32>>,
    always: Always,
    /// Tokens that begin with the rest of a character and go on with a word that
    /// needs a border: the text in front of them decides.
    cut: Vec<u32>,
    longest: usize,
    most: usize,
}

/// Tokens that complete a word after any text.
#[derive(Default)]
pub struct Always {
    /// How many they are.
    pub count: usize,
    /// Bit t % 32 of word t / 32 is 0 for token t.
    pub mask: Vec<u32>,
    /// They, by rising id; empty where the mask is shorter.
    pub ids: Vec<u32>,
}

impl Always {
    fn add(&mut self, t: u32) {
        let word = &mut self.mask[t as usize / 32];
        self.count += (*word >> (t % 32) & 1) as usize;
        *word &= !(1 << (t % 32));
    }

    fn list(&mut self) {
        if self.count <= self.mask.len() {
            let mut ids = Vec::with_capacity(self.count);
            self.each(|t| ids.push(t));
            self.ids = ids;
        }
    }

    /// Calls `each` with every one of them, by rising id.
    pub fn each(&self, mut each: impl FnMut(u32)) {
        for (i, &word) in self.mask.iter().enumerate() {
            let mut zeros = !word;
            while zeros != 0 {
                each(i as u32 * 32 + zeros.trailing_zeros());
                zeros &= zeros - 1;
            }
        }
    }
}

/// What a text's end has in common with the words.
#[derive(Clone, Default)]
pub struct State {
    active: Vec<u32>,
    next: Vec<u32>,
    /// The text's last four bytes, the last one in the lowest bits.
    tail: u32,
}

impl State {
    /// Begins an empty text.
    pub fn clear(&mut self) {
        self.active.clear();
        self.tail = 0;
    }

    /// Whether the text ends in the beginning of a word, or in a word.
    pub fn begun(&self) -> bool {
        !self.active.is_empty()
    }

    /// Whether a few more bytes, the rest of a character at most, make the text
    /// end with a character of a word.
    fn behind_word(&self, more: &[u8]) -> bool {
        if more.is_empty() {
            return letters::ends(&self.tail.to_be_bytes());
        }
        let mut text = [0; 2 * letters::LONGEST];
        let (front, rest) = text.split_at_mut(letters::LONGEST);
        front.copy_from_slice(&self.tail.to_be_bytes());
        rest[..more.len()].copy_from_slice(more);
        letters::ends(&text[..letters::LONGEST + more.len()])
    }
}

/// The ASCII bytes that belong to no word, and -1, the end of a token, as intervals.
const BORDERS: [(i32, i32); 5] = [(-1, 0x2f), (0x3a, 0x40), (0x5b, 0x5e), (0x60, 0x60), (0x7b, 0x7f)];

/// Whether a word may end in front of a text that goes on like this.
fn border(text: &[u8]) -> bool {
    letters::begins(text) != Some(true)
}

impl Matcher {
    /// Looks the words up. Empty ones are passed over.
    pub fn new(index: &Index, words: &[impl AsRef<[u8]>], options: Options) -> Matcher {
        let root = || Node { byte: 0, end: false, child: 0, sibling: 0, ranges: 0..0 };
        let total: usize = words.iter().map(|w| w.as_ref().len()).sum();
        let mut nodes = Vec::with_capacity(total + 2);
        nodes.extend([root(), root()]);
        let mut m = Matcher { options, nodes, ranges: Vec::new(), always: Always::default(), cut: Vec::new(), longest: 0, most: 0 };
        m.always.mask.resize((index.size() + 31) / 32, u32::MAX);
        let mut found = Vec::with_capacity(total * if options.whole_word { 3 } else { 1 });
        let mut sorted: Vec<Vec<u8>> = words.iter().map(|w| m.fold(w.as_ref())).collect();
        // Short ones first: a word that contains another never gets its turn.
        sorted.sort_by_key(|w| w.len());
        for w in sorted.iter().filter(|w| !w.is_empty()) {
            if !m.contains_any(w) {
                m.add(index, w, &mut found);
            }
        }
        m.settle(index, found);
        m.most = m.chain(ANYWHERE) + m.chain(AT_BORDER) + m.cut.len();
        m
    }

    /// Whether there is no word.
    pub fn is_empty(&self) -> bool {
        self.longest == 0
    }

    /// The bytes of the longest word.
    pub fn longest(&self) -> usize {
        self.longest
    }

    /// How many tokens `completing` gives at most, whatever the text, counted as
    /// often as they come; some more where no text has them all.
    pub fn most(&self) -> usize {
        self.most
    }

    /// The most tokens of the nodes of one root that are active together: a
    /// beginning of a word and those that its end is, by the failure links of
    /// Aho and Corasick, "Efficient string matching", CACM 18 (1975).
    fn chain(&self, root: u32) -> usize {
        let own = |n: u32| {
            let r = self.nodes[n as usize].ranges.clone();
            self.ranges[r.start as usize..r.end as usize].iter().map(|r| r.len()).sum::<usize>()
        };
        let mut links = alloc::vec![(root, own(root)); self.nodes.len()];
        let (mut queue, mut at, mut most) = (alloc::vec![root], 0, own(root));
        while at < queue.len() {
            let n = queue[at];
            at += 1;
            let mut c = self.nodes[n as usize].child;
            while c != 0 {
                let mut shorter = links[n as usize].0;
                let link = loop {
                    match self.child(shorter, self.nodes[c as usize].byte) {
                        Some(x) if x != c => break x,
                        _ if shorter == root => break root,
                        _ => shorter = links[shorter as usize].0,
                    }
                };
                links[c as usize] = (link, own(c) + links[link as usize].1);
                most = most.max(links[c as usize].1);
                queue.push(c);
                c = self.nodes[c as usize].sibling;
            }
        }
        most
    }

    fn fold(&self, w: &[u8]) -> Vec<u8> {
        if self.options.ignore_case {
            w.to_ascii_lowercase()
        } else {
            w.to_vec()
        }
    }

    /// Whether a word needs a border in front of it, and behind it.
    fn bound(&self, w: &[u8]) -> (bool, bool) {
        let whole = self.options.whole_word;
        (whole && letters::begins(w) == Some(true), whole && letters::ends(w))
    }

    fn root(&self, w: &[u8]) -> u32 {
        if self.bound(w).0 {
            AT_BORDER
        } else {
            ANYWHERE
        }
    }

    fn child(&self, node: u32, byte: u8) -> Option<u32> {
        let mut c = self.nodes[node as usize].child;
        while c != 0 && self.nodes[c as usize].byte != byte {
            c = self.nodes[c as usize].sibling;
        }
        if c == 0 {
            None
        } else {
            Some(c)
        }
    }

    fn contains_any(&self, w: &[u8]) -> bool {
        let mut s = self.start();
        (0..w.len()).any(|i| {
            self.byte(&mut s, w[i]);
            self.ended(&s) && (border(&w[i + 1..]) || !self.bound(&w[..=i]).1)
        })
    }

    /// Puts a word into the trie, and into `found` what each of its beginnings
    /// makes of tokens.
    fn add(&mut self, index: &Index, w: &[u8], found: &mut Vec<(u32, Range<u32>)>) {
        let fold = self.options.ignore_case;
        let (first_bound, last_bound) = self.bound(w);
        let mut node = self.root(w);
        for k in 0..w.len() {
            let rest = &w[k..];
            let range = index.beginning(fold, rest);
            let mut keep = |r: Range<usize>| {
                if !r.is_empty() {
                    found.push((node, r.start as u32..r.end as u32));
                }
            };
            if last_bound && !range.is_empty() {
                BORDERS.iter().for_each(|&(low, high)| keep(index.narrowed(fold, &range, rest.len(), low, high)));
                let beyond = index.narrowed(fold, &range, rest.len(), 0x80, 0xff);
                index.runs(fold, beyond, |bytes| border(&bytes[rest.len()..]), keep);
            } else {
                keep(range);
            }
            node = match self.child(node, w[k]) {
                Some(c) => c,
                None => self.grow(node, w[k]),
            };
        }
        self.nodes[node as usize].end = true;
        self.longest = self.longest.max(w.len());
        let (always, cut) = (&mut self.always, &mut self.cut);
        index.inside(fold, w, |token, bytes, at| {
            if last_bound && !border(&bytes[at + w.len()..]) {
                return;
            }
            if first_bound && at == letters::continued(bytes.iter()) {
                cut.push(token);
            } else if !first_bound || !letters::ends(&bytes[..at]) {
                always.add(token);
            }
        });
    }

    fn grow(&mut self, parent: u32, byte: u8) -> u32 {
        let new = self.nodes.len() as u32;
        let sibling = self.nodes[parent as usize].child;
        self.nodes.push(Node { byte, end: false, child: 0, sibling, ranges: 0..0 });
        self.nodes[parent as usize].child = new;
        new
    }

    /// Sorts what was found by node; the root that is always active goes to `always`.
    fn settle(&mut self, index: &Index, mut found: Vec<(u32, Range<u32>)>) {
        found.sort_unstable_by_key(|(n, r)| (*n, r.start, r.end));
        found.dedup();
        self.ranges.reserve_exact(found.len());
        for (n, r) in found {
            if n == ANYWHERE {
                index.tokens(self.options.ignore_case, r).iter().for_each(|&t| self.always.add(t));
                continue;
            }
            let at = self.ranges.len() as u32;
            let own = &mut self.nodes[n as usize].ranges;
            if own.start == own.end {
                *own = at..at;
            }
            own.end = at + 1;
            self.ranges.push(r);
        }
        self.always.list();
    }

    /// The state of an empty text.
    pub fn start(&self) -> State {
        let room = || Vec::with_capacity(self.longest + 2);
        State { active: room(), next: room(), tail: 0 }
    }

    fn byte(&self, s: &mut State, b: u8) {
        let b = if self.options.ignore_case { b.to_ascii_lowercase() } else { b };
        s.next.clear();
        for &n in s.active.iter().chain(&[ANYWHERE]) {
            s.next.extend(self.child(n, b));
        }
        if let Some(n) = self.child(AT_BORDER, b) {
            if !s.behind_word(&[]) {
                s.next.push(n);
            }
        }
        core::mem::swap(&mut s.active, &mut s.next);
        s.tail = s.tail << 8 | b as u32;
    }

    /// Appends bytes to the text.
    pub fn feed(&self, s: &mut State, bytes: &[u8]) {
        bytes.iter().for_each(|&b| self.byte(s, b));
    }

    /// Whether the text ends in a word.
    pub fn ended(&self, s: &State) -> bool {
        s.active.iter().any(|&n| self.nodes[n as usize].end)
    }

    /// The tokens that complete a word after any text.
    pub fn always(&self) -> &Always {
        &self.always
    }

    /// Calls `each` with the other tokens that complete a word after this text,
    /// piece by piece; one may come more than once.
    pub fn completing<'a>(&'a self, index: &'a Index, s: &State, mut each: impl FnMut(&'a [u32])) {
        let border = if s.behind_word(&[]) { &[][..] } else { &[AT_BORDER] };
        for &n in s.active.iter().chain(border) {
            let r = self.nodes[n as usize].ranges.clone();
            for r in &self.ranges[r.start as usize..r.end as usize] {
                each(index.tokens(self.options.ignore_case, r.clone()));
            }
        }
        for t in self.cut.chunks(1) {
            let bytes = index.bytes(t[0]);
            if !s.behind_word(&bytes[..letters::continued(bytes.iter())]) {
                each(t);
            }
        }
    }
}

#[cfg(test)]
mod tests;
