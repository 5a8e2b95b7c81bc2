use alloc::vec::Vec;
use tgi_plugin::host;
use words::{Index, Matcher, Options, State};

/// A marker and how much of it the text has matched.
pub enum Marker {
    /// One special token: text that merely looks like it is no marker.
    Token(u32),
    /// Bytes, over any tokens.
    Text(Matcher, State),
}

impl Marker {
    /// `ids` are the tokens of the marker's text.
    pub fn new(index: &Index, text: &str, ids: &[u32]) -> Marker {
        if let [id] = *ids {
            if host::is_special(id) {
                return Marker::Token(id);
            }
        }
        let m = Matcher::new(index, &[text], Options::default());
        let start = m.start();
        Marker::Text(m, start)
    }

    /// Resets the match.
    pub fn clear(&mut self) {
        if let Marker::Text(_, s) = self {
            s.clear();
        }
    }

    /// Whether the text ends with a part of the marker.
    pub fn begun(&self) -> bool {
        matches!(self, Marker::Text(_, s) if s.begun())
    }

    /// Matches the bytes of a token until the marker ends, and returns how many those were.
    pub fn find(&mut self, token: u32, bytes: &[u8]) -> Option<usize> {
        match self {
            Marker::Token(id) if *id == token => Some(bytes.len()),
            Marker::Token(_) => None,
            Marker::Text(m, s) => {
                let at = bytes.iter().position(|&b| {
                    m.feed(s, &[b]);
                    m.ended(s)
                });
                at.map(|i| i + 1)
            }
        }
    }

    /// Adds the tokens that would complete the marker.
    pub fn completing(&self, index: &Index, out: &mut Vec<u32>) {
        match self {
            Marker::Token(id) => out.push(*id),
            Marker::Text(m, s) => {
                m.always().each(|t| out.push(t));
                m.completing(index, s, |part| out.extend_from_slice(part));
            }
        }
    }
}
