use alloc::vec::Vec;
use core::cmp::Ordering;
use core::ops::Range;
use tgi_plugin::host;

/// The bytes of the vocabulary, sorted and searchable.
pub struct Index {
    /// Where the bytes of token t are: at[t]..at[t + 1]; empty for a token left out.
    at: Vec<u32>,
    exact: Sorted,
    folded: Option<Sorted>,
}

/// The vocabulary under one notion of equal bytes.
pub struct Sorted {
    bytes: Vec<u8>,
    /// Tokens by rising bytes.
    order: Vec<u32>,
    /// Places in `bytes` by the two bytes that stand there, 0 for the second
    /// where the token ends; those of pair p are places[pairs[p]..pairs[p + 1]].
    places: Vec<u32>,
    pairs: Vec<u32>,
}

impl Index {
    /// Reads the vocabulary. Special tokens are left out unless `special`;
    /// words that ignore case can be looked for if `folded`.
    pub fn new(special: bool, folded: bool) -> Index {
        let n = host::vocab_size();
        let mut at = Vec::with_capacity(n as usize + 1);
        let mut bytes: Vec<u8> = Vec::with_capacity(n as usize * 8);
        for id in 0..n {
            at.push(bytes.len() as u32);
            if special || !(host::is_special(id) || host::is_end(id)) {
                bytes.extend_from_slice(&host::token_bytes(id).unwrap_or_default());
            }
        }
        at.push(bytes.len() as u32);
        let lower = if folded { Some(bytes.to_ascii_lowercase()) } else { None };
        let folded = lower.map(|b| Sorted::new(b, &at));
        Index { exact: Sorted::new(bytes, &at), folded, at }
    }

    /// The bytes of a token; empty for one left out and for no token.
    pub fn bytes(&self, id: u32) -> &[u8] {
        match (self.at.get(id as usize), self.at.get(id as usize + 1)) {
            (Some(&a), Some(&b)) => &self.exact.bytes[a as usize..b as usize],
            _ => &[],
        }
    }

    /// The number of token ids.
    pub fn size(&self) -> usize {
        self.at.len() - 1
    }

    /// # Panics
    /// Where case is to be ignored and the index was made without.
    pub(crate) fn sorted(&self, ignore_case: bool) -> &Sorted {
        if ignore_case {
            self.folded.as_ref().expect("BUG: index without folded bytes")
        } else {
            &self.exact
        }
    }

    pub(crate) fn span(&self, token: u32) -> Range<usize> {
        self.at[token as usize] as usize..self.at[token as usize + 1] as usize
    }

    /// The token that the byte at `place` belongs to.
    fn token_at(&self, place: u32) -> u32 {
        self.at.partition_point(|&a| a <= place) as u32 - 1
    }

    /// The tokens that begin with `v`, as a range of the order.
    pub(crate) fn beginning(&self, s: &Sorted, v: &[u8]) -> Range<usize> {
        let head = |t: u32| {
            let b = &s.bytes[self.span(t)];
            b[..b.len().min(v.len())].cmp(v)
        };
        let low = s.order.partition_point(|&t| head(t) == Ordering::Less);
        let high = low + s.order[low..].partition_point(|&t| head(t) == Ordering::Equal);
        low..high
    }

    /// The byte behind the first `n` of a token, -1 where the token ends.
    pub(crate) fn behind(&self, s: &Sorted, token: u32, n: usize) -> i32 {
        s.bytes[self.span(token)].get(n).map_or(-1, |&b| b as i32)
    }

    /// Calls `found` with token, its bytes and the place in them for every place
    /// where `word` lies inside a token but not at its beginning.
    pub(crate) fn inside(&self, s: &Sorted, word: &[u8], mut found: impl FnMut(u32, &[u8], usize)) {
        let (offset, places) = s.rarest(word);
        for &p in places {
            let token = self.token_at(p);
            let span = self.span(token);
            let bytes = &s.bytes[span.clone()];
            let before = p as usize - span.start;
            if before > offset && bytes[before - offset..].starts_with(word) {
                found(token, bytes, before - offset);
            }
        }
    }
}

impl Sorted {
    fn new(bytes: Vec<u8>, at: &[u32]) -> Sorted {
        let token = |t: u32| &bytes[at[t as usize] as usize..at[t as usize + 1] as usize];
        let n = at.len() as u32 - 1;
        let mut order = Vec::with_capacity(n as usize);
        order.extend((0..n).filter(|&t| !token(t).is_empty()));
        order.sort_unstable_by(|&a, &b| token(a).cmp(token(b)).then(a.cmp(&b)));
        let mut pairs = alloc::vec![0u32; (1 << 16) + 1];
        let each = |found: &mut dyn FnMut(usize, u32)| {
            for t in 0..n {
                let b = token(t);
                for i in 0..b.len() {
                    let second = b.get(i + 1).copied().unwrap_or(0);
                    found((b[i] as usize) << 8 | second as usize, at[t as usize] + i as u32);
                }
            }
        };
        // A counting sort: how many, where they begin, and then the places.
        each(&mut |pair, _| pairs[pair + 1] += 1);
        for p in 0..1 << 16 {
            pairs[p + 1] += pairs[p];
        }
        let mut next = pairs.clone();
        let mut places = alloc::vec![0; bytes.len()];
        each(&mut |pair, place| {
            places[next[pair] as usize] = place;
            next[pair] += 1;
        });
        Sorted { bytes, order, places, pairs }
    }

    /// The tokens of a range of the order.
    pub(crate) fn tokens(&self, r: Range<u32>) -> &[u32] {
        &self.order[r.start as usize..r.end as usize]
    }

    /// The tokens of `range` alone for which `at` lies from `low` to `high`, by
    /// which the range must be ordered.
    pub(crate) fn narrowed(&self, range: &Range<usize>, at: impl Fn(u32) -> i32, low: i32, high: i32) -> Range<usize> {
        let part = &self.order[range.clone()];
        let from = part.partition_point(|&t| at(t) < low);
        let to = from + part[from..].partition_point(|&t| at(t) <= high);
        range.start + from..range.start + to
    }

    /// The places of the pair of neighbours in `word` that is rarest in the
    /// vocabulary, and where in the word it stands.
    fn rarest(&self, word: &[u8]) -> (usize, &[u32]) {
        let places = |low: usize, high: usize| &self.places[self.pairs[low] as usize..self.pairs[high] as usize];
        if let [b] = *word {
            return (0, places((b as usize) << 8, (b as usize + 1) << 8));
        }
        let pair = |w: &[u8]| (w[0] as usize) << 8 | w[1] as usize;
        let all = word.windows(2).map(|w| places(pair(w), pair(w) + 1)).enumerate();
        all.min_by_key(|(_, p)| p.len()).unwrap_or((0, &[]))
    }
}
