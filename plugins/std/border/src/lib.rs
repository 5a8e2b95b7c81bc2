//! The text at the end of a prompt. A client chooses where prompts end and outputs begin, so what a guard looks for may
//! begin in the one and end in the other.
#![cfg_attr(target_arch = "wasm32", no_std)]
#![warn(missing_docs)]

extern crate alloc;

use alloc::vec::Vec;
use tgi_plugin::guard::unfinished;
use tgi_plugin::host;

/// The last bytes of a prompt's text behind its last special token, at most so many. A character that is not complete is
/// none of them: its text begins the output, where the rest of its bytes are.
pub fn tail(prompt: &[u32], most: usize) -> Vec<u8> {
    let mut list = Vec::with_capacity(most);
    for &id in prompt.iter().rev().take(most) {
        if host::is_special(id) || list.len() >= most {
            break;
        }
        list.extend(host::token_bytes(id).unwrap_or_default().iter().rev());
    }
    list.truncate(most);
    list.reverse();
    list.truncate(list.len() - unfinished(&list));
    list
}

#[cfg(test)]
mod tests {
    use super::*;
    use tgi_plugin::testing;

    /// A prompt that ends inside a character ends in front of it, however many of its bytes there are.
    #[test]
    fn ends_inside_a_character() {
        let text = "aé日🙂b";
        let bytes: Vec<&[u8]> = text.as_bytes().chunks(1).collect();
        testing::vocabulary_bytes(&bytes);
        for n in 0..=text.len() {
            let whole = (0..=n).rev().find(|&i| text.is_char_boundary(i)).unwrap();
            let prompt: Vec<u32> = (0..n as u32).collect();
            assert_eq!(tail(&prompt, 64), &text.as_bytes()[..whole], "{} bytes", n);
        }
    }

    /// Bytes that no more bytes make a character stay.
    #[test]
    fn other_bytes_stay() {
        for text in [&b"a\x80"[..], b"\xff", b"\xe2\x28", b"\xed\xa0", b"\xf0\x9f\x99\x82\x99"] {
            testing::vocabulary_bytes(&[text]);
            assert_eq!(tail(&[0], 64), text);
        }
    }
}
