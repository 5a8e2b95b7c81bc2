//! What [`crate::plugin!`] calls: the contract's exports, free of the plugin's types.

use alloc::string::String;
use alloc::vec::Vec;
use core::alloc::Layout;
use core::slice;

use crate::json::Value;
use crate::step::{mode, Answer, Candidate, Step};
use crate::guard::{Held, Verdict};
use crate::template::Output;
use crate::tools::{Events, Finish, FINISH_CUT, PIECE_SPECIAL};
use crate::{grammar, host, program, template, tools};
use crate::{Draft, Grammar, Guard, Logits, Program, Result, Sampler, Steps, Template, Tools};

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

/// # Safety
/// As for `logits_begin`.
pub unsafe fn draft_begin<D: Draft>(plugin: *mut Option<D>, params: u32, len: u32, prompt: u32, count: u32) -> u64 {
    failure(D::begin(slice(params, len), slice(prompt, count)).map(|d| *plugin = Some(d)))
}

/// # Safety
/// As for `logits_begin`; `to` has room for so many tokens.
pub unsafe fn draft_propose<D: Draft>(
    plugin: *mut Option<D>, tokens: u32, count: u32, fresh: u32, to: u32, room: u32,
) -> i32 {
    let result = match &mut *plugin {
        Some(d) => {
            let to = core::slice::from_raw_parts_mut(to as *mut u32, room as usize);
            d.propose(slice(tokens, count), fresh as usize, to)
        }
        None => Err(String::from("propose before begin")),
    };
    match result {
        Ok(n) => n as i32,
        Err(text) => {
            host::log(host::ERROR, &text);
            -1
        }
    }
}

/// The guard's struct of the contract.
#[repr(C, align(16))]
struct RawGuard {
    size: u32,
    tokens: u32,
    token_count: u32,
    prompt_count: u32,
    new_count: u32,
    released: u32,
    text: u32,
    text_bytes: u32,
    context: u32,
    ends: u32,
    reason: u32,
    verdict: u32,
    position: u32,
    out: u32,
    out_count: u32,
    flags: u32,
}

static mut RAW_GUARD: core::mem::MaybeUninit<RawGuard> = core::mem::MaybeUninit::uninit();
static mut VERDICT: Verdict = Verdict::new();

#[allow(unused_unsafe)] // taking the address was unsafe before Rust 1.77
pub fn guard_room() -> u32 {
    unsafe { core::ptr::addr_of!(RAW_GUARD) as u32 }
}

/// # Safety
/// As for `logits_begin`.
pub unsafe fn guard_begin<G: Guard>(plugin: *mut Option<G>, params: u32, len: u32, prompt: u32, count: u32) -> u64 {
    failure(G::begin(slice(params, len), slice(prompt, count)).map(|g| *plugin = Some(g)))
}

/// # Safety
/// As for `logits_begin`; `step` is `guard_room()`, filled by the server.
pub unsafe fn guard_check<G: Guard>(plugin: *mut Option<G>, step: u32) -> i32 {
    let raw = &mut *(step as *mut RawGuard);
    let verdict = &mut *core::ptr::addr_of_mut!(VERDICT);
    verdict.clear(raw.token_count as usize);
    let mut held = Held {
        tokens: slice(raw.tokens, raw.token_count),
        prompt: raw.prompt_count as usize,
        new: raw.new_count as usize,
        released: raw.released as usize,
        text: slice(raw.text, raw.text_bytes),
        context: raw.context as usize,
        ends: slice(raw.ends, raw.token_count - raw.released),
        reason: raw.reason,
        verdict,
    };
    let result = match &mut *plugin {
        Some(g) => g.check(&mut held),
        None => Err(String::from("check before begin")),
    };
    if let Err(text) = result {
        let packed = failure(Err(text));
        raw.out = (packed >> 32) as u32;
        raw.out_count = packed as u32;
        return 1;
    }
    let v = &mut *core::ptr::addr_of_mut!(VERDICT);
    raw.verdict = v.kind;
    raw.position = v.position as u32;
    let (out, count) = match v.kind {
        crate::guard::verdict::REWIND => (v.biases.as_ptr() as u32, v.biases.len() as u32),
        _ if v.exact => {
            let words = v.text.as_ptr() as u32;
            v.edits.iter_mut().for_each(|e| e.words += words);
            (v.edits.as_ptr() as u32, v.edits.len() as u32)
        }
        _ => (v.text.as_ptr() as u32, v.text.len() as u32),
    };
    raw.out = out;
    raw.out_count = count;
    raw.flags = v.done as u32 | (v.exact as u32) << 1;
    0
}

/// # Safety
/// As for `logits_begin`; `config` is room of this instance that the server has filled.
pub unsafe fn open<P>(plugin: *mut Option<P>, config: &[u8], open: fn(&Value) -> Result<P>) -> Result<()> {
    *plugin = Some(open(&Value::parse(config)?)?);
    Ok(())
}

/// # Safety
/// As for `logits_begin`.
pub unsafe fn validate<P>(plugin: *mut Option<P>, params: &[u8], validate: fn(&P, &Value) -> Result<()>) -> Result<()> {
    let params = Value::parse(params)?;
    match &*plugin {
        Some(p) => validate(p, &params),
        None => Err(String::from("validate before init")),
    }
}

/// The result of a template.
#[repr(C)]
struct Rendered {
    status: u32,
    text: u32,
    text_bytes: u32,
    spans: u32,
    span_count: u32,
}

static mut RENDERED: Rendered = Rendered { status: 0, text: 0, text_bytes: 0, spans: 0, span_count: 0 };
static mut OUTPUT: Output = Output::new();

/// # Safety
/// As for `logits_begin`.
pub unsafe fn template_render<T: Template>(plugin: *mut Option<T>, request: u32, len: u32) -> u32 {
    let out = &mut *core::ptr::addr_of_mut!(OUTPUT);
    let rendered = &mut *core::ptr::addr_of_mut!(RENDERED);
    let result = match &mut *plugin {
        Some(t) => template::Request::parse(slice(request, len)).and_then(|r| t.render(&r, out)),
        None => Err(String::from("render before init")),
    };
    *rendered = match result {
        Ok(()) => Rendered {
            status: 0,
            text: out.text.as_ptr() as u32,
            text_bytes: out.text.len() as u32,
            spans: out.spans.as_ptr() as u32,
            span_count: out.spans.len() as u32,
        },
        Err(text) => {
            let packed = failure(Err(text));
            Rendered { status: 1, text: (packed >> 32) as u32, text_bytes: packed as u32, spans: 0, span_count: 0 }
        }
    };
    rendered as *const Rendered as u32
}

static mut EVENTS: Events = Events::new();

/// # Safety
/// As for `logits_begin`.
pub unsafe fn tools_begin<T: Tools>(plugin: *mut Option<T>, request: u32, len: u32) -> u64 {
    failure(match &mut *plugin {
        Some(t) => tools::Request::parse(slice(request, len)).and_then(|r| t.begin(&r)),
        None => Err(String::from("begin before init")),
    })
}

/// # Safety
/// As for `logits_begin`; `piece` is UTF-8.
pub unsafe fn tools_feed<T: Tools>(plugin: *mut Option<T>, piece: u32, len: u32, flags: u32) -> u64 {
    let piece = core::str::from_utf8_unchecked(slice(piece, len));
    told(plugin, |t, events| t.feed(piece, flags & PIECE_SPECIAL != 0, events))
}

/// # Safety
/// As for `logits_begin`.
pub unsafe fn tools_finish<T: Tools>(plugin: *mut Option<T>, reason: u32) -> u64 {
    let end = if reason == FINISH_CUT { Finish::Cut } else { Finish::End };
    told(plugin, |t, events| t.finish(end, events))
}

/// Collects the events of one call and gives their texts the addresses that
/// they have now that the room grows no more.
unsafe fn told<T: Tools>(plugin: *mut Option<T>, each: impl FnOnce(&mut T, &mut Events)) -> u64 {
    let events = &mut *core::ptr::addr_of_mut!(EVENTS);
    events.clear();
    if let Some(t) = &mut *plugin {
        each(t, events);
    }
    let room = events.room.as_ptr() as u32;
    for e in &mut events.list {
        for (at, bytes) in [(&mut e.text, e.text_bytes), (&mut e.name, e.name_bytes), (&mut e.id, e.id_bytes)] {
            *at = if bytes > 0 { *at + room } else { 0 };
        }
    }
    if events.list.is_empty() {
        return 0;
    }
    (events.list.as_ptr() as u64) << 32 | events.list.len() as u64
}

/// # Safety
/// As for `logits_begin`.
pub unsafe fn tools_constraint<T: Tools>(plugin: *mut Option<T>, request: u32, len: u32) -> u32 {
    let compiled = &mut *core::ptr::addr_of_mut!(COMPILED);
    let result = match &mut *plugin {
        Some(t) => tools::Request::parse(slice(request, len)).and_then(|r| t.constraint(&r)),
        None => Err(String::from("constraint before init")),
    };
    *compiled = done(result.map(|c| (c.json().into_bytes(), grammar::notes(&c.dropped))));
    compiled as *const Compiled as u32
}

/// The result of a compilation.
#[repr(C)]
struct Compiled {
    status: u32,
    text: u32,
    text_bytes: u32,
    notes: u32,
    note_bytes: u32,
}

static mut COMPILED: Compiled = Compiled { status: 0, text: 0, text_bytes: 0, notes: 0, note_bytes: 0 };
static mut FORM: Vec<u8> = Vec::new();
static mut FORCED: Vec<u32> = Vec::new();

/// Keeps a form and its notes until the next call.
unsafe fn done(result: Result<(Vec<u8>, String)>) -> Compiled {
    match result {
        Ok((text, left)) => {
            let form = &mut *core::ptr::addr_of_mut!(FORM);
            let notes = &mut *core::ptr::addr_of_mut!(TEXT);
            *form = text;
            *notes = left;
            Compiled {
                status: 0,
                text: form.as_ptr() as u32,
                text_bytes: form.len() as u32,
                notes: notes.as_ptr() as u32,
                note_bytes: notes.len() as u32,
            }
        }
        Err(text) => {
            let packed = failure(Err(text));
            Compiled { status: 1, text: (packed >> 32) as u32, text_bytes: packed as u32, notes: 0, note_bytes: 0 }
        }
    }
}

/// # Safety
/// As for `logits_begin`.
pub unsafe fn grammar_compile<G: Grammar>(plugin: *mut Option<G>, request: u32, len: u32) -> u32 {
    let compiled = &mut *core::ptr::addr_of_mut!(COMPILED);
    let result = match &mut *plugin {
        Some(g) => grammar::Request::parse(slice(request, len)).and_then(|r| g.compile(&r)),
        None => Err(String::from("compile before init")),
    };
    *compiled = done(result.map(|c| (c.form, grammar::notes(&c.dropped))));
    compiled as *const Compiled as u32
}

/// # Safety
/// As for `logits_begin`.
pub unsafe fn steps_begin<S: Steps>(plugin: *mut Option<S>, request: u32, len: u32) -> u64 {
    failure(match &mut *plugin {
        Some(s) => grammar::Request::parse(slice(request, len)).and_then(|r| s.begin(&r)),
        None => Err(String::from("begin before init")),
    })
}

/// # Safety
/// As for `logits_begin`.
pub unsafe fn steps_accept<S: Steps>(plugin: *mut Option<S>, tokens: u32, count: u32) -> u32 {
    if let Some(s) = &mut *plugin {
        for &t in slice::<u32>(tokens, count) {
            if let Err(text) = s.accept(t) {
                host::log(host::ERROR, &text);
                return 1;
            }
        }
    }
    0
}

/// # Safety
/// As for `logits_begin`; `words` is room for a bit of each token.
pub unsafe fn steps_mask<S: Steps>(plugin: *mut Option<S>, words: u32) -> u32 {
    let mut mask = grammar::Mask::new(slice_mut(words, (host::vocab_size() + 31) / 32));
    if let Some(s) = &mut *plugin {
        s.mask(&mut mask);
    }
    if mask.all {
        2
    } else {
        0
    }
}

/// # Safety
/// As for `logits_begin`.
pub unsafe fn steps_forced<S: Steps>(plugin: *mut Option<S>) -> u64 {
    let forced = &mut *core::ptr::addr_of_mut!(FORCED);
    *forced = match &mut *plugin {
        Some(s) => s.forced(),
        None => Vec::new(),
    };
    if forced.is_empty() {
        return 0;
    }
    (forced.as_ptr() as u64) << 32 | forced.len() as u64
}

/// # Safety
/// As for `logits_begin`.
pub unsafe fn steps_key<S: Steps>(plugin: *mut Option<S>) -> u64 {
    match &mut *plugin {
        Some(s) => s.key(),
        None => 0,
    }
}

/// # Safety
/// As for `logits_begin`.
pub unsafe fn program_run<P: Program>(plugin: *mut Option<P>, request: u32, len: u32) -> u64 {
    failure(match &mut *plugin {
        Some(p) => program::Request::parse(slice(request, len)).and_then(|r| p.run(&r)),
        None => Err(String::from("run before init")),
    })
}
