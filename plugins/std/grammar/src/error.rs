//! Errors in a source, with their position.

use std::fmt;

/// Why a source can't be compiled. The text is for the author of the source: it names the position,
/// what is there and what was expected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error {
    /// `line 3, column 7` of a text, or a JSON pointer such as `#/properties/a`; empty for the
    /// whole source.
    pub place: String,
    /// The keyword of a schema that cannot be enforced; empty elsewhere.
    pub keyword: String,
    /// What is wrong.
    pub reason: String,
}

/// Result of everything that can fail here.
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    /// An error that concerns the whole source.
    pub fn whole(reason: impl Into<String>) -> Error {
        Error { place: String::new(), keyword: String::new(), reason: reason.into() }
    }

    /// An error at byte `offset` of `text`. Columns count characters from 1.
    pub fn at(text: &str, offset: usize, reason: impl Into<String>) -> Error {
        let before = &text.as_bytes()[..offset.min(text.len())];
        let line = before.iter().filter(|&&b| b == b'\n').count() + 1;
        let start = before.iter().rposition(|&b| b == b'\n').map_or(0, |i| i + 1);
        // Continuation bytes do not count as characters.
        let column = before[start..].iter().filter(|&&b| b & 0xC0 != 0x80).count() + 1;
        Error { place: format!("line {}, column {}", line, column), keyword: String::new(), reason: reason.into() }
    }

    /// An error at a keyword of a schema, or at a value that has no keyword.
    pub fn pointer(pointer: &str, keyword: &str, reason: impl Into<String>) -> Error {
        Error { place: format!("#{}", pointer), keyword: keyword.into(), reason: reason.into() }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.place.is_empty(), self.keyword.is_empty()) {
            (true, _) => write!(f, "{}", self.reason),
            (false, true) => write!(f, "{}: {}", self.place, self.reason),
            (false, false) => write!(f, "{}: {}: {}", self.place, self.keyword, self.reason),
        }
    }
}
