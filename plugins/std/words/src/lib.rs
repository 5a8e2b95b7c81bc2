//! Tells which tokens of the vocabulary would complete one of a set of words in
//! a text, wherever token borders fall: [`Index`] is made once, in init,
//! [`Matcher`] for each set of words, [`State`] for each text.
//!
//! A word that a token completes lies either inside the token from its second
//! byte on, which does not depend on the text, or it begins earlier: then the
//! text ends in the word's first k bytes and the token begins with the rest.
//! Tokens that begin alike are neighbours in byte order, so each rest is a range
//! of the sorted vocabulary, found when the words become known; a step only
//! follows the text through the words' trie (Fredkin, 1960) and collects ranges.
#![cfg_attr(target_arch = "wasm32", no_std)]
#![warn(missing_docs)]

extern crate alloc;

mod index;
mod matcher;

pub use index::Index;
pub use matcher::{Always, Matcher, Options, State};
