use super::*;
use tgi_plugin::testing;

/// A small generator of random numbers (MMIX).
struct Random(u64);

impl Random {
    fn below(&mut self, n: usize) -> usize {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        ((self.0 >> 33) as usize) % n
    }

    fn text(&mut self, alphabet: &[char], longest: usize) -> String {
        (0..1 + self.below(longest)).map(|_| alphabet[self.below(alphabet.len())]).collect()
    }
}

/// Whether a character belongs to a word, as the standard library has it, and
/// marks: pieces of U+0301 may meet others to be one of those around it.
fn of_word(c: Option<char>) -> bool {
    c.map_or(false, |c| c.is_alphanumeric() || c == '_' || ('\u{300}'..='\u{36f}').contains(&c))
}

/// Whether the text contains a word, by looking at every place. What is no
/// character, or cut at the text's end, is U+FFFD here, which is a symbol.
fn contains(text: &[u8], words: &[String], o: Options) -> bool {
    let fold = |b: &[u8]| if o.ignore_case { b.to_ascii_lowercase() } else { b.to_vec() };
    let text = fold(text);
    words.iter().any(|w| {
        let whole = o.whole_word;
        let (first, last) = (whole && of_word(w.chars().next()), whole && of_word(w.chars().last()));
        let w = fold(w.as_bytes());
        (0..text.len()).any(|i| {
            text[i..].starts_with(&w)
                && !(first && of_word(String::from_utf8_lossy(&text[..i]).chars().last()))
                && !(last && of_word(String::from_utf8_lossy(&text[i + w.len()..]).chars().next()))
        })
    })
}

fn denied(m: &Matcher, index: &Index, s: &State) -> Vec<bool> {
    let mut d = vec![false; index.size()];
    let always = m.always();
    let masked: Vec<u32> = (0..index.size() as u32).filter(|t| always.mask[*t as usize / 32] >> (t % 32) & 1 == 0).collect();
    assert_eq!(always.count, masked.len());
    assert_eq!(always.ids, if masked.len() > always.mask.len() { &[][..] } else { &masked });
    masked.iter().for_each(|&t| d[t as usize] = true);
    m.completing(index, s, |part| part.iter().for_each(|&t| d[t as usize] = true));
    d
}

/// Random vocabularies, words and texts: a token is denied exactly when the text
/// with it contains a word. No text grows by a denied token.
#[test]
fn as_by_brute_force() {
    let alphabet = ['a', 'b', 'A', ' ', '-', 'é', '_', '—', '\u{301}', '\u{a0}', '🙂', '𝒜'];
    let mut r = Random(7);
    let (mut checked, mut hits, mut near) = (0, 0, 0);
    for round in 0..300 {
        let letters = &alphabet[..2 + r.below(alphabet.len() - 1)];
        // Tokens cut characters.
        let mut vocabulary: Vec<Vec<u8>> = (0..4 + r.below(30))
            .map(|_| {
                let text = r.text(letters, if round % 3 == 0 { 9 } else { 5 }).into_bytes();
                let from = if r.below(2) == 0 { 0 } else { r.below(text.len()) };
                let to = if r.below(2) == 0 { text.len() } else { from + 1 + r.below(text.len() - from) };
                text[from..to].to_vec()
            })
            .collect();
        vocabulary.push("<a>".into());
        vocabulary.push("</s>".into());
        testing::vocabulary_bytes(&vocabulary);
        let index = Index::new(false, true);
        let words: Vec<String> = (0..1 + r.below(5)).map(|_| r.text(letters, 1 + round % 8)).collect();
        let o = Options { ignore_case: round % 2 == 1, whole_word: round / 2 % 2 == 1 };
        let m = Matcher::new(&index, &words, o);
        let (mut text, mut s) = (Vec::new(), m.start());
        let mut most = 0f32;
        for _ in 0..30 {
            let d = denied(&m, &index, &s);
            let mut given = 0;
            m.completing(&index, &s, |p| given += p.len());
            assert!(given <= m.most(), "{} of {}", given, m.most());
            most = most.max(given as f32 / m.most().max(1) as f32);
            for (t, word) in vocabulary.iter().enumerate() {
                let special = t + 2 >= vocabulary.len();
                let want = !special && contains(&[&text[..], word].concat(), &words, o);
                assert_eq!(d[t], want, "text {:?} token {:?} words {:?} {:?}", String::from_utf8_lossy(&text), word, words, o);
                checked += 1;
                hits += want as usize;
            }
            let t = match (0..20).map(|_| r.below(vocabulary.len())).find(|&t| !d[t]) {
                Some(t) => t,
                None => break,
            };
            text.extend_from_slice(index.bytes(t as u32));
            m.feed(&mut s, index.bytes(t as u32));
            assert!(!contains(&text, &words, o));
        }
        near += (most >= 0.9) as usize;
    }
    assert!(checked > 100_000 && hits > 10_000 && near > 50, "{} {} {}", checked, hits, near);
}

/// After words that someone else forced the text is followed on.
#[test]
fn beyond_a_word() {
    testing::vocabulary(&["b", "ab", "c", "x", "bc"]);
    let index = Index::new(false, false);
    let m = Matcher::new(&index, &["ab", "bbc"], Options::default());
    let mut s = m.start();
    m.feed(&mut s, b"abb");
    assert_eq!(denied(&m, &index, &s), [false, true, true, false, true]);
    assert_eq!((s.begun(), m.ended(&s)), (true, false));
    m.feed(&mut s, b"c");
    assert!(m.ended(&s));
    s.clear();
    assert_eq!((s.begun(), m.ended(&s)), (false, false));
}

#[test]
fn words_that_contain_others_are_left_out() {
    testing::vocabulary(&["a", "b", "c"]);
    let index = Index::new(false, false);
    let m = Matcher::new(&index, &["abc", "b", "b", "", "cab"], Options::default());
    assert_eq!((m.longest(), m.nodes.len(), m.always().ids.clone()), (1, 3, vec![1]));
    assert!(Matcher::new(&index, &[""], Options::default()).is_empty());
}

#[test]
fn special_tokens_on_request() {
    testing::vocabulary(&["a", "<a>"]);
    let index = Index::new(true, false);
    let m = Matcher::new(&index, &["<a>"], Options::default());
    assert_eq!(m.always().ids, [1]);
}
