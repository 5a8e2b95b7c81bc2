//! Plugins in Rust, ABI version 1: for the token loop, and for what comes
//! before and after it in a conversation.
//!
//! A plugin is a `cdylib` that implements one or several of [`Logits`],
//! [`Sampler`], [`Guard`], [`Draft`], [`Template`], [`Tools`], [`Program`] and one of [`Grammar`] and [`Steps`], and
//! names them in [`plugin!`]:
//!
//! ```ignore
//! #![cfg_attr(target_arch = "wasm32", no_std)]
//! extern crate alloc;
//! use tgi_plugin::{plugin, Logits, Result, Step};
//!
//! struct BanZero;
//! impl Logits for BanZero {
//!     fn begin(_params: &[u8], _prompt: &[u32]) -> Result<Self> { Ok(BanZero) }
//!     fn process(&mut self, s: &mut Step) -> Result<()> { s.deny(&[0]); Ok(()) }
//! }
//! plugin! {
//!     description: r#"{"name":"ban-zero","version":"1.0.0","kinds":["logits"],"modes":["deny"]}"#,
//!     logits: BanZero,
//! }
//! ```
//!
//! An instance serves one sequence. Memory comes from a bump allocator and is
//! not freed: it goes back when the sequence ends. Names, layouts and limits
//! are those of `../abi`, where they are described.
//!
//! Natively the same crate compiles with std and is tested with `cargo test`
//! and the module `testing`.
#![cfg_attr(all(target_arch = "wasm32", not(tgi_std)), no_std)]
#![warn(missing_docs)]

extern crate alloc;

pub mod draft;
pub mod form;
pub mod grammar;
pub mod guard;
pub mod host;
pub mod json;
pub mod math;
pub mod program;
mod step;
pub mod template;
pub mod tools;
mod value;

#[cfg(target_arch = "wasm32")]
mod memory;

#[cfg(target_arch = "wasm32")]
#[doc(hidden)]
pub mod export;

#[cfg(not(target_arch = "wasm32"))]
pub mod testing;

use alloc::string::String;

pub use grammar::{Grammar, Steps};
pub use draft::Draft;
pub use guard::Guard;
pub use program::Program;
pub use step::{flag, mode, Answer, Candidate, Entry, Step, MAX_FORCED};
pub use template::Template;
pub use tools::Tools;

/// The error is the text that the server shows.
pub type Result<T> = core::result::Result<T, String>;

/// A plugin that edits logits; one value serves one sequence.
pub trait Logits: Sized {
    /// Starts a sequence. `params` is the JSON object of the request. An error
    /// refuses the request when it is admitted: then `begin` runs in an
    /// instance of its own with an empty prompt.
    fn begin(params: &[u8], prompt: &[u32]) -> Result<Self>;
    /// Looks at a step and calls the methods that set its result; calling none
    /// changes nothing. An error ends the sequence.
    fn process(&mut self, step: &mut Step) -> Result<()>;
}

/// A plugin that picks the token; one value serves one sequence.
pub trait Sampler: Sized {
    /// Starts a sequence, as [`Logits::begin`] does.
    fn begin(params: &[u8], prompt: &[u32]) -> Result<Self>;
    /// Returns the index of the chosen candidate. There is at least one, the
    /// most likely first. An error ends the sequence.
    fn sample(&mut self, candidates: &[Candidate]) -> Result<usize>;
}

/// Exports a plugin. `description` is JSON; `init`, `logits`, `sampler`,
/// `guard`, `draft`, `template`, `tools`, `grammar`, `steps` and `program` may be left out, in this order; a plugin has
/// one of `grammar` and `steps`. `init` is a
/// `fn(config: &[u8]) -> Result<()>` that runs once, before the server's
/// snapshot and before the other kinds' `open`.
#[macro_export]
macro_rules! plugin {
    (description: $d:expr, $(init: $i:path,)? $(logits: $l:ty,)? $(sampler: $s:ty,)? $(guard: $u:ty,)? $(draft: $a:ty,)? $(template: $m:ty,)? $(tools: $t:ty,)? $(grammar: $g:ty,)? $(steps: $p:ty,)? $(program: $r:ty,)?) => {
        #[cfg(target_arch = "wasm32")]
        const _: () = {
            #[no_mangle]
            extern "C" fn tgi_abi_v1() {}
            #[no_mangle]
            extern "C" fn tgi_alloc(size: u32) -> u32 { $crate::export::alloc(size) }
            #[no_mangle]
            extern "C" fn tgi_describe() -> u64 { $crate::export::pack($d) }
            #[no_mangle]
            extern "C" fn tgi_init(config: u32, len: u32) -> u64 {
                let _config = unsafe { $crate::export::slice::<u8>(config, len) };
                let result: $crate::Result<()> = Ok(());
                $(let result = result.and_then(|_| $i(_config));)?
                $(let result = result.and_then(|_| unsafe { $crate::export::open(core::ptr::addr_of_mut!(TEMPLATE), _config, <$m as $crate::Template>::open) });)?
                $(let result = result.and_then(|_| unsafe { $crate::export::open(core::ptr::addr_of_mut!(TOOLS), _config, <$t as $crate::Tools>::open) });)?
                $(let result = result.and_then(|_| unsafe { $crate::export::open(core::ptr::addr_of_mut!(GRAMMAR), _config, <$g as $crate::Grammar>::open) });)?
                $(let result = result.and_then(|_| unsafe { $crate::export::open(core::ptr::addr_of_mut!(STEPS), _config, <$p as $crate::Steps>::open) });)?
                $(let result = result.and_then(|_| unsafe { $crate::export::open(core::ptr::addr_of_mut!(PROGRAM), _config, <$r as $crate::Program>::open) });)?
                $crate::export::reserve();
                $crate::export::failure(result)
            }
            #[no_mangle]
            extern "C" fn tgi_validate(params: u32, len: u32) -> u64 {
                let _params = unsafe { $crate::export::slice::<u8>(params, len) };
                let result: $crate::Result<()> = Ok(());
                $(let result = result.and_then(|_| <$l as $crate::Logits>::begin(_params, &[]).map(|_| ()));)?
                $(let result = result.and_then(|_| <$s as $crate::Sampler>::begin(_params, &[]).map(|_| ()));)?
                $(let result = result.and_then(|_| <$u as $crate::Guard>::begin(_params, &[]).map(|_| ()));)?
                $(let result = result.and_then(|_| <$a as $crate::Draft>::begin(_params, &[]).map(|_| ()));)?
                $(let result = result.and_then(|_| unsafe { $crate::export::validate(core::ptr::addr_of_mut!(TEMPLATE), _params, <$m as $crate::Template>::validate) });)?
                $(let result = result.and_then(|_| unsafe { $crate::export::validate(core::ptr::addr_of_mut!(TOOLS), _params, <$t as $crate::Tools>::validate) });)?
                $(let result = result.and_then(|_| unsafe { $crate::export::validate(core::ptr::addr_of_mut!(GRAMMAR), _params, <$g as $crate::Grammar>::validate) });)?
                $(let result = result.and_then(|_| unsafe { $crate::export::validate(core::ptr::addr_of_mut!(STEPS), _params, <$p as $crate::Steps>::validate) });)?
                $(let result = result.and_then(|_| unsafe { $crate::export::validate(core::ptr::addr_of_mut!(PROGRAM), _params, <$r as $crate::Program>::validate) });)?
                $crate::export::failure(result)
            }
            $(
                static mut LOGITS: Option<$l> = None;
                #[no_mangle]
                extern "C" fn tgi_logits_step() -> u32 { $crate::export::step_room() }
                #[no_mangle]
                extern "C" fn tgi_logits_begin(params: u32, len: u32, prompt: u32, count: u32) -> u64 {
                    unsafe { $crate::export::logits_begin(core::ptr::addr_of_mut!(LOGITS), params, len, prompt, count) }
                }
                #[no_mangle]
                extern "C" fn tgi_logits_process(step: u32) -> i32 {
                    unsafe { $crate::export::logits_process(core::ptr::addr_of_mut!(LOGITS), step) }
                }
            )?
            $(
                static mut SAMPLER: Option<$s> = None;
                #[no_mangle]
                extern "C" fn tgi_sampler_begin(params: u32, len: u32, prompt: u32, count: u32) -> u64 {
                    unsafe { $crate::export::sampler_begin(core::ptr::addr_of_mut!(SAMPLER), params, len, prompt, count) }
                }
                #[no_mangle]
                extern "C" fn tgi_sampler_sample(candidates: u32, n: u32) -> i32 {
                    unsafe { $crate::export::sampler_sample(core::ptr::addr_of_mut!(SAMPLER), candidates, n) }
                }
            )?
            $(
                static mut GUARD: Option<$u> = None;
                #[no_mangle]
                extern "C" fn tgi_guard_step() -> u32 { $crate::export::guard_room() }
                #[no_mangle]
                extern "C" fn tgi_guard_begin(params: u32, len: u32, prompt: u32, count: u32) -> u64 {
                    unsafe { $crate::export::guard_begin(core::ptr::addr_of_mut!(GUARD), params, len, prompt, count) }
                }
                #[no_mangle]
                extern "C" fn tgi_guard_check(step: u32) -> i32 {
                    unsafe { $crate::export::guard_check(core::ptr::addr_of_mut!(GUARD), step) }
                }
            )?
            $(
                static mut DRAFT: Option<$a> = None;
                #[no_mangle]
                extern "C" fn tgi_draft_begin(params: u32, len: u32, prompt: u32, count: u32) -> u64 {
                    unsafe { $crate::export::draft_begin(core::ptr::addr_of_mut!(DRAFT), params, len, prompt, count) }
                }
                #[no_mangle]
                extern "C" fn tgi_draft_propose(tokens: u32, count: u32, fresh: u32, to: u32, room: u32) -> i32 {
                    unsafe { $crate::export::draft_propose(core::ptr::addr_of_mut!(DRAFT), tokens, count, fresh, to, room) }
                }
            )?
            $(
                static mut TEMPLATE: Option<$m> = None;
                #[no_mangle]
                extern "C" fn tgi_template_render(request: u32, len: u32) -> u32 {
                    unsafe { $crate::export::template_render(core::ptr::addr_of_mut!(TEMPLATE), request, len) }
                }
            )?
            $(
                static mut TOOLS: Option<$t> = None;
                #[no_mangle]
                extern "C" fn tgi_tools_begin(request: u32, len: u32) -> u64 {
                    unsafe { $crate::export::tools_begin(core::ptr::addr_of_mut!(TOOLS), request, len) }
                }
                #[no_mangle]
                extern "C" fn tgi_tools_feed(piece: u32, len: u32, flags: u32) -> u64 {
                    unsafe { $crate::export::tools_feed(core::ptr::addr_of_mut!(TOOLS), piece, len, flags) }
                }
                #[no_mangle]
                extern "C" fn tgi_tools_finish(reason: u32) -> u64 {
                    unsafe { $crate::export::tools_finish(core::ptr::addr_of_mut!(TOOLS), reason) }
                }
                #[no_mangle]
                extern "C" fn tgi_tools_constraint(request: u32, len: u32) -> u32 {
                    unsafe { $crate::export::tools_constraint(core::ptr::addr_of_mut!(TOOLS), request, len) }
                }
            )?
            $(
                static mut GRAMMAR: Option<$g> = None;
                #[no_mangle]
                extern "C" fn tgi_grammar_compile(request: u32, len: u32) -> u32 {
                    unsafe { $crate::export::grammar_compile(core::ptr::addr_of_mut!(GRAMMAR), request, len) }
                }
            )?
            $(
                static mut STEPS: Option<$p> = None;
                #[no_mangle]
                extern "C" fn tgi_grammar_begin(request: u32, len: u32) -> u64 {
                    unsafe { $crate::export::steps_begin(core::ptr::addr_of_mut!(STEPS), request, len) }
                }
                #[no_mangle]
                extern "C" fn tgi_grammar_accept(tokens: u32, count: u32) -> u32 {
                    unsafe { $crate::export::steps_accept(core::ptr::addr_of_mut!(STEPS), tokens, count) }
                }
                #[no_mangle]
                extern "C" fn tgi_grammar_mask(words: u32) -> u32 {
                    unsafe { $crate::export::steps_mask(core::ptr::addr_of_mut!(STEPS), words) }
                }
                #[no_mangle]
                extern "C" fn tgi_grammar_forced() -> u64 {
                    unsafe { $crate::export::steps_forced(core::ptr::addr_of_mut!(STEPS)) }
                }
                #[no_mangle]
                extern "C" fn tgi_grammar_key() -> u64 {
                    unsafe { $crate::export::steps_key(core::ptr::addr_of_mut!(STEPS)) }
                }
            )?
            $(
                static mut PROGRAM: Option<$r> = None;
                #[no_mangle]
                extern "C" fn tgi_program_run(request: u32, len: u32) -> u64 {
                    unsafe { $crate::export::program_run(core::ptr::addr_of_mut!(PROGRAM), request, len) }
                }
            )?
        };
    };
}
