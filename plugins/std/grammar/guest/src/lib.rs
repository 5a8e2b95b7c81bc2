//! The built-in plugin grammar: the exports of kind "grammar" (sdk/abi) over the
//! library beside it. It does without the SDK of sdk/rust, whose memory is never
//! freed: compiling a large source takes and gives back much more than it keeps.
#![cfg(target_arch = "wasm32")]

mod memory;
mod settings;
mod vocabulary;

use compiler::json::{self, Value};
use compiler::re::Pool;
use compiler::{prepare, Compiled, Options};
use std::ptr::{addr_of, addr_of_mut};

/// What init leaves free before the snapshot, so that instances need not grow.
const HEADROOM: usize = 24 << 20;

#[global_allocator]
static MEMORY: memory::Lists = memory::Lists::new();

static mut DESCRIPTION: String = String::new();
static mut OPTIONS: Option<Options> = None;
static mut POOL: Option<Pool> = None;
static mut TEXT: String = String::new();
static mut IR: Vec<u8> = Vec::new();

/// The result struct of the contract.
#[repr(C)]
struct Result {
    status: u32,
    text: u32,
    text_bytes: u32,
    notes: u32,
    note_bytes: u32,
}

static mut RESULT: Result = Result { status: 0, text: 0, text_bytes: 0, notes: 0, note_bytes: 0 };

#[no_mangle]
extern "C" fn tgi_abi_v1() {}

#[no_mangle]
extern "C" fn tgi_alloc(size: u32) -> u32 {
    match std::alloc::Layout::from_size_align(size.max(1) as usize, 16) {
        Ok(layout) => unsafe { std::alloc::alloc(layout) as u32 },
        Err(_) => 0,
    }
}

#[no_mangle]
extern "C" fn tgi_describe() -> u64 {
    let languages: Vec<String> = compiler::LANGUAGES.iter().map(|l| quote(l)).collect();
    let text = format!(
        r#"{{"name":"grammar","version":"{}","config":true,"doc":"JSON Schema, regular expressions, choices, GBNF, Lark and structural tags.","kinds":["grammar"],"languages":[{}],"params":{}}}"#,
        env!("CARGO_PKG_VERSION"),
        languages.join(","),
        settings::SCHEMA
    );
    unsafe { keep(addr_of_mut!(DESCRIPTION), text) }
}

#[no_mangle]
extern "C" fn tgi_init(config: u32, len: u32) -> u64 {
    let headroom: Vec<u8> = Vec::with_capacity(HEADROOM);
    // Or the compiler leaves out both calls.
    unsafe { (headroom.as_ptr() as *mut u8).write_volatile(0) };
    drop(headroom);
    unsafe { *addr_of_mut!(POOL) = Some(prepare::pool()) };
    let read = Options::default().with(text(config, len));
    let answer = failure(read.map(|o| unsafe { *addr_of_mut!(OPTIONS) = Some(o) }).map_err(|e| e.to_string()));
    MEMORY.forget();
    answer
}

#[no_mangle]
extern "C" fn tgi_validate(params: u32, len: u32) -> u64 {
    failure(options().with(text(params, len)).map(|_| ()).map_err(|e| e.to_string()))
}

#[no_mangle]
extern "C" fn tgi_grammar_compile(request: u32, len: u32) -> u32 {
    let result = match compile(text(request, len)) {
        Ok(c) => {
            let notes = notes(&c);
            unsafe {
                *addr_of_mut!(IR) = c.ir;
                let kept = &*addr_of!(IR);
                let packed = keep(addr_of_mut!(TEXT), notes);
                Result {
                    status: 0,
                    text: kept.as_ptr() as u32,
                    text_bytes: kept.len() as u32,
                    notes: (packed >> 32) as u32,
                    note_bytes: packed as u32,
                }
            }
        }
        Err(why) => {
            let packed = failure(Err(why));
            Result { status: 1, text: (packed >> 32) as u32, text_bytes: packed as u32, notes: 0, note_bytes: 0 }
        }
    };
    unsafe {
        *addr_of_mut!(RESULT) = result;
        addr_of!(RESULT) as u32
    }
}

fn compile(request: &str) -> std::result::Result<Compiled, String> {
    let v = json::parse(request).map_err(|e| e.to_string())?;
    let member = |name| v.get(name).and_then(Value::as_str).unwrap_or("");
    let o = match v.get("params") {
        Some(Value::Obj(p)) => options().with_members(p).map_err(|e| e.to_string())?,
        Some(other) => return Err(format!("params: want an object, got {}", other.kind())),
        None => options(),
    };
    // It stays where it is: giving it back would take longer than most compilations.
    let pool = unsafe { &mut *addr_of_mut!(POOL) }.get_or_insert_with(Pool::new);
    compiler::compile_with(pool, member("language"), member("source"), &o, &vocabulary::Host).map_err(|e| e.to_string())
}

/// The JSON array of what was left out; no text for nothing.
fn notes(c: &Compiled) -> String {
    if c.dropped.is_empty() {
        return String::new();
    }
    let list: Vec<String> = c
        .dropped
        .iter()
        .map(|d| {
            format!(
                r#"{{"pointer":{},"keyword":{},"reason":{}}}"#,
                quote(&d.pointer),
                quote(&d.keyword),
                quote(&d.reason)
            )
        })
        .collect();
    format!("[{}]", list.join(","))
}

/// A string of JSON.
fn quote(s: &str) -> String {
    let mut out = String::from("\"");
    for c in s.chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            c if c < ' ' => out.push_str(&format!("\\u{:04x}", c as u32)),
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

fn options() -> Options {
    unsafe { (*addr_of!(OPTIONS)).clone() }.unwrap_or_default()
}

/// The text that the server has written to room of this instance.
fn text<'a>(at: u32, len: u32) -> &'a str {
    if len == 0 {
        return "";
    }
    let bytes = unsafe { std::slice::from_raw_parts(at as *const u8, len as usize) };
    std::str::from_utf8(bytes).unwrap_or("")
}

/// Keeps a text until the next call.
unsafe fn keep(place: *mut String, s: String) -> u64 {
    if s.is_empty() {
        return 0;
    }
    *place = s;
    let kept: &String = &*place;
    (kept.as_ptr() as u64) << 32 | kept.len() as u64
}

fn failure(r: std::result::Result<(), String>) -> u64 {
    match r {
        Ok(()) => 0,
        Err(s) => unsafe { keep(addr_of_mut!(TEXT), if s.is_empty() { "error without text".into() } else { s }) },
    }
}
