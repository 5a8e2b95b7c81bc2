//! What [`crate::plugin!`] calls: the contract's exports, free of the plugin's types.

use alloc::string::String;
use core::alloc::Layout;
use core::slice;

use crate::step::{mode, Answer, Candidate, Step};
use crate::{host, Logits, Result, Sampler};

/// Room that init leaves before the snapshot, in bytes.
const RESERVE: usize = 1 << 20;

/// The step struct of the contract.
#[repr(C, align(16))]
struct Raw {
    size: u32,
    tokens: u32,
    token_count: u32,
    prompt_count: u32,
    new_count: u32,
    view: u32,
    view_count: u32,
    row: u32,
    row_count: u32,
    mode: u32,
    out: u32,
    out_count: u32,
    flags: u32,
    temperature: f32,
    force: u32,
    force_count: u32,
}

static mut RAW: core::mem::MaybeUninit<Raw> = core::mem::MaybeUninit::uninit();
static mut ANSWER: Answer = Answer::new();
static mut TEXT: String = String::new();

pub fn alloc(size: u32) -> u32 {
    match Layout::from_size_align(size.max(1) as usize, 16) {
        Ok(layout) if size < 1 << 31 => unsafe { alloc::alloc::alloc(layout) as u32 },
        _ => 0,
    }
}

/// Grows memory now, so that a sequence need not and its instance can be used again.
pub fn reserve() {
    if let Ok(layout) = Layout::from_size_align(RESERVE, 16) {
        unsafe {
            let at = alloc::alloc::alloc(layout);
            if !at.is_null() {
                at.write_volatile(0); // or the compiler leaves out both calls
                alloc::alloc::dealloc(at, layout);
            }
        }
    }
}

/// # Safety
/// The server hands over room of this instance that nothing else writes to.
pub unsafe fn slice<'a, T>(at: u32, n: u32) -> &'a [T] {
    slice_mut(at, n)
}

unsafe fn slice_mut<'a, T>(at: u32, n: u32) -> &'a mut [T] {
    if n == 0 {
        return &mut [];
    }
    slice::from_raw_parts_mut(at as *mut T, n as usize)
}

pub fn pack(s: &str) -> u64 {
    if s.is_empty() {
        return 0;
    }
    (s.as_ptr() as u64) << 32 | s.len() as u64
}

/// Keeps the text until the next call.
pub fn failure(r: Result<()>) -> u64 {
    match r {
        Ok(()) => 0,
        Err(text) => unsafe {
            let kept = core::ptr::addr_of_mut!(TEXT);
            *kept = if text.is_empty() { String::from("error without text") } else { text };
            pack(&*kept)
        },
    }
}

#[allow(unused_unsafe)] // taking the address was unsafe before Rust 1.77
pub fn step_room() -> u32 {
    unsafe { core::ptr::addr_of!(RAW) as u32 }
}

/// # Safety
/// `plugin` is the guest's one static; calls do not overlap.
pub unsafe fn logits_begin<L: Logits>(plugin: *mut Option<L>, params: u32, len: u32, prompt: u32, count: u32) -> u64 {
    failure(L::begin(slice(params, len), slice(prompt, count)).map(|l| *plugin = Some(l)))
}

/// # Safety
/// As for `logits_begin`; `step` is `step_room()`, filled by the server.
pub unsafe fn logits_process<L: Logits>(plugin: *mut Option<L>, step: u32) -> i32 {
    let raw = &mut *(step as *mut Raw);
    let answer = &mut *core::ptr::addr_of_mut!(ANSWER);
    answer.clear();
    let mut s = Step {
        tokens: slice(raw.tokens, raw.token_count),
        prompt: raw.prompt_count as usize,
        new: raw.new_count as usize,
        view: slice_mut(raw.view, raw.view_count),
        row: slice_mut(raw.row, raw.row_count),
        answer,
    };
    let result = match &mut *plugin {
        Some(l) => l.process(&mut s),
        None => Err(String::from("process before begin")),
    };
    if let Err(text) = result {
        let packed = failure(Err(text));
        raw.out = (packed >> 32) as u32;
        raw.out_count = packed as u32;
        return 1;
    }
    write(raw, &*core::ptr::addr_of!(ANSWER));
    0
}

fn write(raw: &mut Raw, a: &Answer) {
    raw.mode = a.mode;
    let (out, count) = match a.mode {
        mode::PASS => (0, 0),
        mode::SPARSE => (a.entries.as_ptr() as u32, a.entries.len() as u32),
        mode::VIEW => (raw.view, a.kept as u32),
        mode::ROW => (raw.row, raw.row_count),
        _ => (a.ids.as_ptr() as u32, a.ids.len() as u32),
    };
    raw.out = out;
    raw.out_count = count;
    raw.flags = a.flags;
    raw.temperature = a.temperature;
    raw.force = a.force.as_ptr() as u32;
    raw.force_count = a.force.len() as u32;
}

/// # Safety
/// As for `logits_begin`.
pub unsafe fn sampler_begin<S: Sampler>(plugin: *mut Option<S>, params: u32, len: u32, prompt: u32, count: u32) -> u64 {
    failure(S::begin(slice(params, len), slice(prompt, count)).map(|s| *plugin = Some(s)))
}

/// # Safety
/// As for `logits_begin`.
pub unsafe fn sampler_sample<S: Sampler>(plugin: *mut Option<S>, candidates: u32, n: u32) -> i32 {
    let result = match &mut *plugin {
        Some(s) => s.sample(slice::<Candidate>(candidates, n)),
        None => Err(String::from("sample before begin")),
    };
    match result {
        Ok(i) => i as i32,
        Err(text) => {
            host::log(host::ERROR, &text);
            -1
        }
    }
}
