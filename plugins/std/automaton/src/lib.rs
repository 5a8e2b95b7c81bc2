//! Searches a text for many strings at once (Aho and Corasick, 1975): what a byte of the text costs does not grow with
//! the strings, nor with what they have in common with each other or with the text.
//!
//! A node is a beginning of a string: the longest one that the text ends in. Nodes are numbered by rising length, and
//! those of one length by their bytes, so that the children of a node are neighbours.
#![cfg_attr(target_arch = "wasm32", no_std)]
#![warn(missing_docs)]

extern crate alloc;

use alloc::vec::Vec;

/// The node of a text that no string begins in.
pub const ROOT: u32 = 0;

/// A byte that UTF-8 does not have, for a searcher's own signs in strings and texts. It has no length.
pub const SIGN: u8 = 0xff;

/// A set of strings.
pub struct Automaton {
    /// And one behind them, which has no children.
    nodes: Vec<Node>,
    /// The node of each byte behind [`ROOT`].
    first: Vec<u32>,
    longest: usize,
}

#[derive(Clone, Copy, Default)]
struct Node {
    /// Its children begin here, and end where those of the next node begin.
    child: u32,
    /// The longest of its ends, but for itself, that is a node.
    fail: u32,
    depth: u16,
    open: u16,
    ended: u16,
    /// Its last one.
    byte: u8,
}

/// The strings that begin with a node: a range of the sorted ones.
#[derive(Clone, Copy)]
struct Part {
    from: u16,
    to: u16,
}

impl Automaton {
    /// Of at most 65,535 strings of at most 65,535 bytes. Empty ones count for nothing.
    pub fn new(mut strings: Vec<Vec<u8>>) -> Automaton {
        strings.sort_unstable();
        strings.dedup();
        let count = 1 + new_bytes(&strings);
        let mut a = Automaton { nodes: Vec::with_capacity(count + 1), first: alloc::vec![ROOT; 256], longest: 0 };
        let mut parts = Vec::with_capacity(count);
        a.nodes.push(Node::default());
        parts.push(Part { from: 0, to: strings.len() as u16 });
        let (mut bytes, mut longer) = (0, 1);
        for node in 0..count {
            if node == longer {
                (bytes, longer) = (bytes + 1, parts.len());
            }
            a.grow(node, &strings, bytes, &mut parts);
        }
        a.nodes.push(Node { child: count as u32, ..Node::default() });
        a
    }

    /// Adds the children of a node of so many bytes. All nodes before it have theirs.
    fn grow(&mut self, node: usize, strings: &[Vec<u8>], bytes: usize, parts: &mut Vec<Part>) {
        let Part { from, to } = parts[node];
        let (mut at, to) = (from as usize, to as usize);
        let (child, fail, depth) = (self.nodes.len() as u32, self.nodes[node].fail, self.nodes[node].depth);
        let shorter = self.nodes[fail as usize];
        // they differ, so only the first one can end here
        let ends = at < to && strings[at].len() == bytes;
        at += ends as usize;
        let n = &mut self.nodes[node];
        n.child = child;
        n.ended = if ends { depth } else { shorter.ended };
        n.open = if at < to { depth } else { shorter.open };
        self.longest = self.longest.max(depth as usize);
        while at < to {
            let (first, byte) = (at, strings[at][bytes]);
            at += 1;
            while at < to && strings[at][bytes] == byte {
                at += 1;
            }
            let fail = if bytes > 0 { self.step(fail, byte) } else { ROOT };
            if bytes == 0 {
                self.first[byte as usize] = self.nodes.len() as u32;
            }
            let depth = depth + (byte != SIGN) as u16;
            self.nodes.push(Node { child: 0, fail, depth, open: 0, ended: 0, byte });
            parts.push(Part { from: first as u16, to: at as u16 });
        }
    }

    /// The node of a text with another byte at its end.
    pub fn step(&self, mut node: u32, byte: u8) -> u32 {
        while node != ROOT {
            let (mut low, mut high) = (self.nodes[node as usize].child, self.nodes[node as usize + 1].child);
            while low < high {
                let middle = (low + high) / 2;
                match self.nodes[middle as usize].byte {
                    b if b == byte => return middle,
                    b if b < byte => low = middle + 1,
                    _ => high = middle,
                }
            }
            node = self.nodes[node as usize].fail;
        }
        self.first[byte as usize]
    }

    /// How many bytes of the text's end begin a string.
    pub fn depth(&self, node: u32) -> usize {
        self.nodes[node as usize].depth as usize
    }

    /// How many bytes of the text's end begin a string that has more.
    pub fn open(&self, node: u32) -> usize {
        self.nodes[node as usize].open as usize
    }

    /// The length of the longest string that the text ends in, 0 without any.
    pub fn ended(&self, node: u32) -> usize {
        self.nodes[node as usize].ended as usize
    }

    /// The node of the longest end of a node's bytes, but for itself, that begins a string.
    pub fn shorter(&self, node: u32) -> u32 {
        self.nodes[node as usize].fail
    }

    /// The length of the longest string.
    pub fn longest(&self) -> usize {
        self.longest
    }
}

/// How many bytes sorted strings have that are no common beginning with the one before.
fn new_bytes(strings: &[Vec<u8>]) -> usize {
    let mut before: &[u8] = &[];
    let mut all = 0;
    for s in strings {
        all += s.len() - s.iter().zip(before).take_while(|(a, b)| a == b).count();
        before = s;
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Strings over tiny alphabets, which are parts of each other.
    #[test]
    fn as_by_brute_force() {
        let mut state = 1u64;
        let mut below = |n: usize| {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (state >> 33) as usize % n
        };
        let (mut ended, mut open) = (0, 0);
        for _ in 0..3000 {
            let letters = 1 + below(3);
            let mut any = |most: usize| (0..1 + below(most)).map(|_| b'a' + below(letters) as u8).collect::<Vec<u8>>();
            let (n, text) = (1 + any(9).len() % 8, any(60));
            let strings: Vec<Vec<u8>> = (0..n).map(|_| any(7)).collect();
            let a = Automaton::new(strings.clone());
            let mut node = ROOT;
            for end in 1..=text.len() {
                node = a.step(node, text[end - 1]);
                let text = &text[..end];
                let most = |wanted: &dyn Fn(&[u8]) -> bool| (0..=end).rev().find(|&n| wanted(&text[end - n..])).unwrap_or(0);
                let got = (a.depth(node), a.open(node), a.ended(node));
                assert_eq!(
                    got,
                    (
                        most(&|t| strings.iter().any(|s| s.starts_with(t))),
                        most(&|t| strings.iter().any(|s| s.starts_with(t) && s.len() > t.len())),
                        most(&|t| strings.iter().any(|s| s == t)),
                    ),
                    "{:?} in {:?}",
                    strings,
                    text
                );
                ended += (got.2 > 0) as usize;
                open += (got.1 != got.0) as usize;
            }
        }
        assert!(ended > 5000 && open > 1000, "{} {}", ended, open);
    }

    #[test]
    fn without_strings() {
        let a = Automaton::new(Vec::new());
        assert_eq!((a.step(ROOT, b'a'), a.longest(), a.open(ROOT), a.ended(ROOT)), (ROOT, 0, 0, 0));
    }
}
