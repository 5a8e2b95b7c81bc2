// A guest with a heap, collections and formatting. Built by build.sh; rusty.wasm is committed.
use std::cell::RefCell;
use std::collections::BTreeMap;

thread_local!(static SEEN: RefCell<BTreeMap<u32, String>> = RefCell::new(BTreeMap::new()));

#[no_mangle]
pub extern "C" fn remember(v: u32) -> u32 {
    SEEN.with(|s| {
        let mut s = s.borrow_mut();
        let old = s.len() as u32;
        s.insert(v, format!("{v:08x}"));
        old
    })
}

#[no_mangle]
pub extern "C" fn digest(n: u32) -> u64 {
    let mut words: Vec<String> = (0..n).map(|i| format!("{}-{:.3}", i.wrapping_mul(2654435761), (i as f64).sqrt())).collect();
    words.sort();
    words.iter().flat_map(|w| w.bytes()).fold(14695981039346656037, |h, b| (h ^ b as u64).wrapping_mul(1099511628211))
}

#[no_mangle]
pub extern "C" fn index(i: u32) -> u32 {
    let v = [1u32, 2, 3];
    v[i as usize]
}
