use alloc::vec::Vec;
use core::cmp::Ordering;
use core::ops::Range;
use tgi_plugin::host;

/// The bytes of the vocabulary, sorted and searchable.
pub struct Index {
    /// The bytes of all tokens, one after the other, and PADDING zeros.
    bytes: Vec<u8>,
    /// Where the bytes of token t are: at[t]..at[t + 1]; empty for a token left out.
    at: Vec<u32>,
    starts: Starts,
    /// Tokens by rising bytes; and by rising bytes in lower case.
    order: Vec<u32>,
    folded: Vec<u32>,
    /// Where the bytes of tokens stand, but for their first, by rising value of
    /// the four bytes there in lower case, whether or not a token ends in them:
    /// what begins with pair p is places[pairs[p]..pairs[p + 1]].
    places: Vec<u32>,
    pairs: Vec<u32>,
}

/// So that four bytes can be read everywhere.
const PADDING: usize = 4;

impl Index {
    /// Reads the vocabulary. Special tokens are left out unless `special`;
    /// words that ignore case can be looked up if `folded`.
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
        bytes.extend_from_slice(&[0; PADDING]);
        bytes.shrink_to_fit();
        let starts = Starts::new(&at);
        // Memory is a stack: permanent data is allocated before temporary data.
        let text = starts.tokens.len();
        let (mut order, mut folds) = (Vec::with_capacity(text), Vec::with_capacity(if folded { text } else { 0 }));
        let mut places = alloc::vec![0; bytes.len() - PADDING - text];
        let mut pairs = alloc::vec![0; DIGITS + 1];
        let x = Index { bytes, at, starts, order: Vec::new(), folded: Vec::new(), places: Vec::new(), pairs: Vec::new() };
        let mut room = alloc::vec![0; places.len().max(text)];
        x.sort(&mut order, &mut room, false);
        if folded {
            x.sort(&mut folds, &mut room, true);
        }
        x.place(&mut places, &mut room, &mut pairs);
        drop(room);
        Index { order, folded: folds, places, pairs, ..x }
    }

    /// Fills `order` with the tokens by rising bytes: a radix sort by the first
    /// eight, then a sort of those that are equal there.
    fn sort(&self, order: &mut Vec<u32>, room: &mut [u32], fold: bool) {
        let tokens = &self.starts.tokens;
        let mut keys: Vec<u64> = Vec::with_capacity(tokens.len());
        keys.extend(tokens.iter().map(|&t| self.head(t, fold)));
        let mut next = alloc::vec![0u32; DIGITS + 1];
        order.extend(0..tokens.len() as u32);
        let room = &mut room[..tokens.len()];
        for shift in [0, 16, 32, 48] {
            let digit = |i: u32| (keys[i as usize] >> shift) as usize % DIGITS;
            next.iter_mut().for_each(|n| *n = 0);
            order.iter().for_each(|&i| next[digit(i) + 1] += 1);
            sum(&mut next);
            order.iter().for_each(|&i| put(room, &mut next[digit(i)], i));
            order.copy_from_slice(room);
        }
        let mut from = 0;
        for i in 1..=order.len() {
            if i == order.len() || keys[order[i] as usize] != keys[order[from] as usize] {
                if i - from > 1 {
                    self.sort_alike(&mut order[from..i], fold);
                }
                from = i;
            }
        }
        order.iter_mut().for_each(|i| *i = tokens[*i as usize]);
    }

    /// Sorts tokens, given by their place among those that have bytes.
    #[inline(never)]
    fn sort_alike(&self, alike: &mut [u32], fold: bool) {
        alike.sort_unstable_by(|&a, &b| {
            let (a, b) = (self.starts.tokens[a as usize], self.starts.tokens[b as usize]);
            compare(self.bytes(a), self.bytes(b), fold).then(a.cmp(&b))
        });
    }

    /// The first eight bytes of a token as a number, zeros where it is shorter.
    fn head(&self, token: u32, fold: bool) -> u64 {
        let b = self.bytes(token);
        let mut head = [0; 8];
        let n = b.len().min(8);
        head[..n].copy_from_slice(&b[..n]);
        let key = u64::from_be_bytes(head);
        if fold {
            (lower((key >> 32) as u32) as u64) << 32 | lower(key as u32) as u64
        } else {
            key
        }
    }

    /// Sorts the places: a radix sort of two digits of two bytes each.
    fn place(&self, places: &mut [u32], room: &mut [u32], pairs: &mut [u32]) {
        let low = self.bytes.to_ascii_lowercase();
        let each = |found: &mut dyn FnMut(u32, u32)| {
            let mut key = u32::from_be_bytes([0, low[0], low[1], low[2]]);
            for (p, &b) in low[3..low.len() - 1].iter().enumerate() {
                key = key << 8 | b as u32;
                if !self.starts.begins(p as u32) {
                    found(key, p as u32);
                }
            }
        };
        let mut next = alloc::vec![0u32; DIGITS + 1];
        each(&mut |key, _| {
            next[key as usize % DIGITS + 1] += 1;
            pairs[(key >> 16) as usize + 1] += 1;
        });
        sum(&mut next);
        sum(pairs);
        each(&mut |key, p| put(room, &mut next[key as usize % DIGITS], p));
        next.copy_from_slice(pairs);
        for &p in &room[..places.len()] {
            let pair = (low[p as usize] as usize) << 8 | low[p as usize + 1] as usize;
            put(places, &mut next[pair], p);
        }
    }

    /// The four bytes at a place, in lower case, the first in the highest bits.
    fn key(&self, place: u32) -> u32 {
        let p = place as usize;
        lower(match self.bytes[p..p + 4] {
            [a, b, c, d] => u32::from_be_bytes([a, b, c, d]),
            _ => 0,
        })
    }

    /// The bytes of a token; empty for one left out and for no token.
    pub fn bytes(&self, id: u32) -> &[u8] {
        match (self.at.get(id as usize), self.at.get(id as usize + 1)) {
            (Some(&a), Some(&b)) => &self.bytes[a as usize..b as usize],
            _ => &[],
        }
    }

    /// The number of token ids.
    pub fn size(&self) -> usize {
        self.at.len() - 1
    }

    fn order(&self, fold: bool) -> &[u32] {
        if fold {
            &self.folded
        } else {
            &self.order
        }
    }

    /// The tokens of a range of the order.
    pub(crate) fn tokens(&self, fold: bool, r: Range<u32>) -> &[u32] {
        &self.order(fold)[r.start as usize..r.end as usize]
    }

    /// The tokens that begin with `v`, as a range of the order.
    pub(crate) fn beginning(&self, fold: bool, v: &[u8]) -> Range<usize> {
        let head = |t: u32| {
            let b = self.bytes(t);
            compare(&b[..b.len().min(v.len())], v, fold)
        };
        let order = self.order(fold);
        let low = order.partition_point(|&t| head(t) == Ordering::Less);
        match order.get(low) {
            Some(&t) if head(t) == Ordering::Equal => low..low + order[low..].partition_point(|&t| head(t) == Ordering::Equal),
            _ => low..low,
        }
    }

    /// Of a range of tokens with the same first `n` bytes those whose next byte
    /// lies from `low` to `high`; -1 is the end of the token.
    pub(crate) fn narrowed(&self, fold: bool, range: &Range<usize>, n: usize, low: i32, high: i32) -> Range<usize> {
        let next = |t: u32| match self.bytes(t).get(n) {
            Some(b) if fold => b.to_ascii_lowercase() as i32,
            Some(&b) => b as i32,
            None => -1,
        };
        let part = &self.order(fold)[range.clone()];
        let from = part.partition_point(|&t| next(t) < low);
        let to = from + part[from..].partition_point(|&t| next(t) <= high);
        range.start + from..range.start + to
    }

    /// Calls `each` with the runs of tokens of a range whose bytes are as `wanted` says.
    pub(crate) fn runs(&self, fold: bool, range: Range<usize>, wanted: impl Fn(&[u8]) -> bool, mut each: impl FnMut(Range<usize>)) {
        let mut from = range.start;
        for i in range.clone() {
            if !wanted(self.bytes(self.order(fold)[i])) {
                each(from..i);
                from = i + 1;
            }
        }
        each(from..range.end);
    }

    /// Calls `found` with token, its bytes and the place in them for every place
    /// where `word` lies inside a token but not at its beginning. If `fold`, word
    /// is in lower case.
    pub(crate) fn inside(&self, fold: bool, word: &[u8], mut found: impl FnMut(u32, &[u8], usize)) {
        let (offset, places) = self.rarest(word);
        for &p in places {
            let token = self.starts.token(p);
            let (from, to) = (self.at[token as usize] as usize, self.at[token as usize + 1] as usize);
            // Places have neither the borders of tokens nor the case of letters.
            if (p as usize) <= from + offset || p as usize - offset + word.len() > to {
                continue;
            }
            let bytes = &self.bytes[from..to];
            let at = p as usize - offset - from;
            if equal(&bytes[at..at + word.len()], word, fold) {
                found(token, bytes, at);
            }
        }
    }

    /// The places of the rarest four bytes of `word`, or of all where it is
    /// shorter, and where in the word they stand.
    fn rarest(&self, word: &[u8]) -> (usize, &[u32]) {
        let all = word.windows(word.len().min(4)).map(|w| self.places_of(w)).enumerate();
        all.min_by_key(|(_, p)| p.len()).unwrap_or((0, &[]))
    }

    /// Where up to four bytes stand, both cases taken together.
    fn places_of(&self, w: &[u8]) -> &[u32] {
        let mut key = [[0; 4], [0xff; 4]];
        key.iter_mut().for_each(|k| k[..w.len()].copy_from_slice(w));
        let [least, most] = [lower(u32::from_be_bytes(key[0])), lower(u32::from_be_bytes(key[1]))];
        let pairs = |p: u32| self.pairs[p as usize] as usize;
        let bucket = &self.places[pairs(least >> 16)..pairs((most >> 16) + 1)];
        if w.len() <= 2 {
            return bucket;
        }
        let from = bucket.partition_point(|&p| self.key(p) < least);
        &bucket[from..from + bucket[from..].partition_point(|&p| self.key(p) <= most)]
    }
}

/// The values of a digit of the radix sorts.
const DIGITS: usize = 1 << 16;

/// Puts a value where the counter of its digit stands.
fn put(to: &mut [u32], next: &mut u32, value: u32) {
    to[*next as usize] = value;
    *next += 1;
}

/// Makes of counts, each one place further on, where each digit begins.
fn sum(counts: &mut [u32]) {
    let mut all = 0;
    for c in counts {
        all += *c;
        *c = all;
    }
}

/// Four bytes at once in lower case: the sums set a byte's highest bit where it
/// lies from 'A' up and where it lies behind 'Z'.
fn lower(x: u32) -> u32 {
    let low = x & 0x7f7f_7f7f;
    let upper = (low + 0x3f3f_3f3f) ^ (low + 0x2525_2525);
    x | (upper & !x & 0x8080_8080) >> 2
}

/// Whether `a`, in lower case if `fold`, is `b`.
#[inline(never)]
fn equal(a: &[u8], b: &[u8], fold: bool) -> bool {
    a.iter().zip(b).all(|(a, b)| a == b || fold && a.to_ascii_lowercase() == *b)
}

/// The order of `a` and `b`, in lower case if `fold`.
#[inline(never)]
fn compare(a: &[u8], b: &[u8], fold: bool) -> Ordering {
    if !fold {
        return a.cmp(b);
    }
    for (x, y) in a.iter().zip(b) {
        let (x, y) = (x.to_ascii_lowercase(), y.to_ascii_lowercase());
        if x != y {
            return x.cmp(&y);
        }
    }
    a.len().cmp(&b.len())
}

/// Tells in constant time which token a place belongs to: a bit for each byte
/// where one begins, and how many begin before each word of bits.
struct Starts {
    bits: Vec<u32>,
    before: Vec<u32>,
    /// The tokens that have bytes.
    tokens: Vec<u32>,
}

impl Starts {
    fn new(at: &[u32]) -> Starts {
        let spans = || at.windows(2).enumerate().filter(|(_, w)| w[0] < w[1]);
        let mut tokens = Vec::with_capacity(spans().count());
        let words = at.last().map_or(0, |&n| n as usize) / 32 + 1;
        let (mut bits, mut before) = (alloc::vec![0u32; words], Vec::with_capacity(words));
        for (t, w) in spans() {
            bits[w[0] as usize / 32] |= 1 << (w[0] % 32);
            tokens.push(t as u32);
        }
        let mut all = 0;
        before.extend(bits.iter().map(|b| {
            all += b.count_ones();
            all - b.count_ones()
        }));
        Starts { bits, before, tokens }
    }

    fn begins(&self, place: u32) -> bool {
        self.bits[place as usize / 32] >> (place % 32) & 1 != 0
    }

    fn token(&self, place: u32) -> u32 {
        let word = place as usize / 32;
        let upto = self.bits[word] << (31 - place % 32);
        self.tokens[(self.before[word] + upto.count_ones()) as usize - 1]
    }
}

#[cfg(test)]
mod tests {
    use super::lower;

    #[test]
    fn four_at_once() {
        for b in 0..=255u8 {
            let four = [b, b'A', b.wrapping_add(64), 0xff];
            assert_eq!(lower(u32::from_be_bytes(four)), u32::from_be_bytes(four.map(|b| b.to_ascii_lowercase())));
        }
    }
}
