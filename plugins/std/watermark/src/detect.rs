//! The detector, for native code: what the plugin's tests use, and a model for
//! one in another language (see detect.py).

use crate::scheme::Greens;

/// What was found in a text.
#[derive(Clone, Debug, PartialEq)]
pub struct Score {
    /// Windows looked at.
    pub scored: usize,
    /// Windows whose last token is green.
    pub green: usize,
    /// Standard deviations above what text without the watermark shows.
    pub z: f64,
}

/// Scores the tokens of a text, the prompt left out. Windows that repeat count
/// once if `once`: repetition otherwise looks like a watermark or hides one.
pub fn score(tokens: &[u32], width: usize, ratio: f64, greens: &mut Greens, once: bool) -> Score {
    let mut seen = std::collections::HashSet::new();
    let (mut scored, mut green) = (0, 0);
    for w in tokens.windows(width) {
        if once && !seen.insert(w) {
            continue;
        }
        scored += 1;
        greens.each(&w[..width - 1], &w[width - 1..], |_| green += 1);
    }
    let n = scored as f64;
    Score { scored, green, z: (green as f64 - ratio * n) / (n * ratio * (1.0 - ratio)).sqrt() }
}
