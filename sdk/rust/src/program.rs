//! The kind program: generates the texts of a request itself, by contexts of the model that it forks, rewinds and
//! scores.
//!
//! ```ignore
//! fn run(&mut self, r: &Request) -> Result<()> {
//!     let kids = r.context.fork_n(3)?;
//!     generate(&kids, &Settings::new())?;
//!     let best = kids.iter().min_by_key(|k| k.span().count).unwrap();
//!     best.emit_span()
//! }
//! ```

use alloc::format;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;

use crate::json::Value;
use crate::template::no_parameters;
use crate::value::quote;
use crate::{host, Result};

/// A plugin that generates texts; one value generates one of them.
pub trait Program: Sized {
    /// Reads the JSON object of the configuration, once, before the server's snapshot. An error refuses the plugin.
    fn open(config: &Value) -> Result<Self>;

    /// Looks at the JSON object of the request's parameters, when the request is admitted; they come again in
    /// [`Request::params`]. A program without this method takes no parameters.
    fn validate(&self, params: &Value) -> Result<()> {
        no_parameters(params)
    }

    /// Generates the text: what was emitted when it returns. An error fails it.
    fn run(&mut self, request: &Request) -> Result<()>;
}

/// What a program is asked for.
pub struct Request {
    /// The request's prompt.
    pub context: Context,
    /// The request's parameters for this plugin.
    pub params: Value,
    /// The request's own settings: those that a run has which sets nothing.
    pub settings: Value,
    /// The conversation, an array; null without one.
    pub messages: Value,
    /// The most tokens that can be emitted.
    pub max_new_tokens: u32,
    /// How many tokens may be computed.
    pub purse: u32,
}

impl Request {
    /// Reads the request.
    pub fn parse(request: &[u8]) -> Result<Request> {
        let v = Value::parse(request)?;
        let limit = |name: &str| v.get("limits").get(name).number().unwrap_or(0.0) as u32;
        Ok(Request {
            context: Context(0),
            params: v.get("params").clone(),
            settings: v.get("settings").clone(),
            messages: v.get("messages").clone(),
            max_new_tokens: limit("max_new_tokens"),
            purse: limit("tokens"),
        })
    }
}

/// Why a call failed. The text of an error begins with it, and [`failure`] finds it again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// An argument is out of bounds, or the context is not in the state for it.
    Argument = -1,
    /// All tokens that may be computed were, or all forks.
    Purse = -2,
    /// There are as many contexts as may be, or the text would be too long for the model.
    Room = -3,
    /// The grammar cannot be compiled, or does not admit what it is to begin with.
    Grammar = -4,
    /// What was emitted is refused.
    Refused = -5,
    /// A plugin of the run failed, or is not there.
    Plugin = -6,
}

/// The status of the last call that failed. A guest has one thread.
#[cfg(target_arch = "wasm32")]
mod last {
    static mut LAST: i32 = 0;

    pub fn get() -> i32 {
        unsafe { LAST }
    }

    pub fn set(status: i32) {
        unsafe { LAST = status }
    }
}

/// Native tests run side by side: each thread has its own.
#[cfg(not(target_arch = "wasm32"))]
mod last {
    use core::cell::Cell;

    std::thread_local!(static LAST: Cell<i32> = const { Cell::new(0) });

    pub fn get() -> i32 {
        LAST.with(Cell::get)
    }

    pub fn set(status: i32) {
        LAST.with(|l| l.set(status));
    }
}

/// Why the last call that failed did.
pub fn failure() -> Option<Failure> {
    match last::get() {
        -1 => Some(Failure::Argument),
        -2 => Some(Failure::Purse),
        -3 => Some(Failure::Room),
        -4 => Some(Failure::Grammar),
        -5 => Some(Failure::Refused),
        -6 => Some(Failure::Plugin),
        _ => None,
    }
}

#[cfg(target_arch = "wasm32")]
mod import {
    #[link(wasm_import_module = "tgi")]
    extern "C" {
        pub fn ctx_fork(c: i32) -> i32;
        pub fn ctx_drop(c: i32) -> i32;
        pub fn ctx_append(c: i32, text: *const u8, len: u32, flags: u32) -> i32;
        pub fn ctx_push(c: i32, ids: *const u32, count: u32) -> i32;
        pub fn ctx_len(c: i32) -> i32;
        pub fn ctx_rewind(c: i32, n: i32) -> i32;
        pub fn ctx_read(c: i32, from: i32, what: u32, to: *mut u8, room: u32) -> i32;
        pub fn ctx_start(c: i32, settings: *const u8, len: u32) -> i32;
        pub fn wait(list: *const i32, count: u32, flags: u32) -> i32;
        pub fn span(c: i32, to: *mut u8) -> i32;
        pub fn ctx_top(c: i32, k: i32, to: *mut u8) -> i32;
        pub fn ctx_row(c: i32, to: *mut f32) -> i32;
        pub fn ctx_entropy(c: i32, to: *mut f64) -> i32;
        pub fn ctx_score(c: i32, ids: *const u32, count: u32, to: *mut f32) -> i32;
        pub fn ctx_ask(c: i32, ids: *const u32, count: u32) -> i32;
        pub fn emit(c: i32, from: i32, count: i32) -> i32;
        pub fn emit_text(text: *const u8, len: u32) -> i32;
        pub fn render(request: *const u8, len: u32) -> i32;
        pub fn grammar_prefix(grammar: *const u8, len: u32, text: *const u8, text_len: u32) -> i32;
        pub fn ctx_calls(c: i32) -> i32;
        pub fn why(to: *mut u8, room: u32) -> i32;
    }
}

#[cfg(not(target_arch = "wasm32"))]
use crate::testing::program as import;

/// The result of a call, or the server's reason against it.
fn check(n: i32) -> Result<usize> {
    if n >= 0 {
        return Ok(n as usize);
    }
    last::set(n);
    unsafe {
        let size = import::why(core::ptr::null_mut(), 0).max(0) as usize;
        let mut text = vec![0u8; size];
        import::why(text.as_mut_ptr(), size as u32);
        Err(String::from_utf8(text).unwrap_or_else(|_| format!("status {}", n)))
    }
}

fn done(n: i32) -> Result<()> {
    check(n).map(|_| ())
}

/// A text of tokens. It rests, or it runs, from [`Context::start`] until it was waited for. It ends with
/// [`Context::close`], not when it goes out of scope.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Context(i32);

/// Why a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// The context has not run yet.
    NotRun,
    /// It has as many tokens as it may.
    Length,
    /// The model ended the text.
    End,
    /// A stop text, which is part of the context.
    Stop,
    /// Its first token could only be one that [`Settings::deny`] denies. It has none.
    Denied,
}

/// What a context generated in its last run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Span {
    /// The first token.
    pub from: usize,
    /// How many.
    pub count: usize,
    /// Why the run ended.
    pub reason: Reason,
    /// The token that ended it, where the model did, or 0. It is no part of the context.
    pub end: u32,
    /// The sum of the log-probabilities.
    pub logprob: f64,
}

/// What a text has of calls of tools.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Calls {
    /// None.
    None,
    /// It ends inside a call, or with what may begin one.
    Open,
    /// It has calls, and does not end inside one.
    Made,
    /// It has something of a call that the request's strict tools do not allow. Runs that go on from there are not held
    /// to these.
    Broken,
}

/// A token that may come next.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Likely {
    /// The token.
    pub id: u32,
    /// The model's own logit.
    pub logit: f32,
    /// Its log-probability among all tokens.
    pub logprob: f32,
}

fn u32_at(b: &[u8], at: usize) -> u32 {
    u32::from_le_bytes([b[at], b[at + 1], b[at + 2], b[at + 3]])
}

impl Context {
    /// A context with the same tokens. It costs nothing until it differs.
    pub fn fork(&self) -> Result<Context> {
        check(unsafe { import::ctx_fork(self.0) }).map(|n| Context(n as i32))
    }

    /// Forks n times.
    pub fn fork_n(&self, n: usize) -> Result<Vec<Context>> {
        (0..n).map(|_| self.fork()).collect()
    }

    /// Ends the context, also while it runs.
    pub fn close(self) {
        unsafe { import::ctx_drop(self.0) };
    }

    /// Appends a text, in which no special token is recognised.
    pub fn append(&self, text: &str) -> Result<usize> {
        check(unsafe { import::ctx_append(self.0, text.as_ptr(), text.len() as u32, 0) })
    }

    /// Appends a text, in which special tokens are recognised. Never append what a client wrote with it.
    pub fn append_special(&self, text: &str) -> Result<usize> {
        check(unsafe { import::ctx_append(self.0, text.as_ptr(), text.len() as u32, 1) })
    }

    /// Appends tokens.
    pub fn push(&self, ids: &[u32]) -> Result<()> {
        done(unsafe { import::ctx_push(self.0, ids.as_ptr(), ids.len() as u32) })
    }

    /// The number of tokens; 0 for a context that was closed.
    pub fn len(&self) -> usize {
        unsafe { import::ctx_len(self.0) }.max(0) as usize
    }

    /// Whether there are no tokens.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Leaves the first n tokens.
    pub fn rewind(&self, n: usize) -> Result<()> {
        done(unsafe { import::ctx_rewind(self.0, n as i32) })
    }

    fn read(&self, from: usize, what: u32, each: usize) -> Vec<u8> {
        let n = unsafe { import::ctx_read(self.0, from as i32, what, core::ptr::null_mut(), 0) };
        let mut b = vec![0u8; n.max(0) as usize * each];
        if n > 0 {
            unsafe { import::ctx_read(self.0, from as i32, what, b.as_mut_ptr(), n as u32) };
        }
        b
    }

    /// The tokens from a place on; empty if there is no such place.
    pub fn tokens(&self, from: usize) -> Vec<u32> {
        self.read(from, 0, 4).chunks(4).map(|c| u32_at(c, 0)).collect()
    }

    /// The text of the tokens from a place on, without special ones. A character that is not complete is U+FFFD.
    pub fn text(&self, from: usize) -> String {
        String::from_utf8_lossy(&self.bytes(from)).into_owned()
    }

    /// The bytes of that text.
    pub fn bytes(&self, from: usize) -> Vec<u8> {
        self.read(from, 1, 1)
    }

    /// The text of the last run.
    pub fn span_text(&self) -> String {
        self.text(self.span().from)
    }

    /// Rewinds so that the text from a place on is as long as possible and at most so many bytes long, to a border of
    /// tokens.
    pub fn rewind_bytes(&self, from: usize, bytes: usize) -> Result<()> {
        let behind = |n: usize| unsafe { import::ctx_read(self.0, n as i32, 1, core::ptr::null_mut(), 0) }.max(0) as usize;
        let (all, end) = (behind(from), self.len());
        if all <= bytes {
            return Ok(());
        }
        let (mut low, mut high) = (from, end); // up to low the text is short enough, up to high it is too long
        while low + 1 < high {
            let n = low + (high - low) / 2;
            if all - behind(n) <= bytes {
                low = n;
            } else {
                high = n;
            }
        }
        self.rewind(low)
    }

    /// Lets the context generate, and returns at once.
    pub fn start(&self, s: &Settings) -> Result<()> {
        let text = s.json();
        done(unsafe { import::ctx_start(self.0, text.as_ptr(), text.len() as u32) })
    }

    /// Lets the context generate, and waits for it.
    pub fn generate(&self, s: &Settings) -> Result<Span> {
        generate(&[*self], s)?;
        Ok(self.span())
    }

    /// What the last run generated.
    pub fn span(&self) -> Span {
        let mut b = [0u8; 24];
        unsafe { import::span(self.0, b.as_mut_ptr()) };
        let mut sum = [0u8; 8];
        sum.copy_from_slice(&b[16..]);
        Span {
            from: u32_at(&b, 0) as usize,
            count: u32_at(&b, 4) as usize,
            reason: match u32_at(&b, 8) {
                1 => Reason::Length,
                2 => Reason::End,
                3 => Reason::Stop,
                4 => Reason::Denied,
                _ => Reason::NotRun,
            },
            end: u32_at(&b, 12),
            logprob: f64::from_le_bytes(sum),
        }
    }

    /// Whether the text ends where the model ended it in the last run.
    pub fn ended(&self) -> bool {
        let s = self.span();
        s.reason == Reason::End && s.from + s.count == self.len()
    }

    /// Up to k of the likeliest next tokens, best first.
    pub fn top(&self, k: usize) -> Result<Vec<Likely>> {
        let mut b = vec![0u8; k.min(4096) * 12];
        let n = check(unsafe { import::ctx_top(self.0, k as i32, b.as_mut_ptr()) })?;
        Ok(b.chunks(12)
            .take(n)
            .map(|c| Likely {
                id: u32_at(c, 0),
                logit: f32::from_bits(u32_at(c, 4)),
                logprob: f32::from_bits(u32_at(c, 8)),
            })
            .collect())
    }

    /// The raw logits of the next token, one for each id.
    pub fn row(&self) -> Result<Vec<f32>> {
        let mut row = vec![0f32; host::vocab_size() as usize];
        check(unsafe { import::ctx_row(self.0, row.as_mut_ptr()) })?;
        Ok(row)
    }

    /// The entropy of the next token, in nats.
    pub fn entropy(&self) -> Result<f64> {
        let mut h = 0.0;
        check(unsafe { import::ctx_entropy(self.0, &mut h) })?;
        Ok(h)
    }

    /// The log-probability of a text if it came next, the sum over its tokens.
    pub fn score(&self, text: &str) -> Result<f64> {
        match host::encode(text) {
            Some(ids) if !ids.is_empty() => Ok(self.score_tokens(&ids)?.iter().map(|&p| p as f64).sum()),
            _ => Err(String::from("the text to score has no tokens")),
        }
    }

    /// The log-probability of each of the tokens if they came next, one after the other.
    pub fn score_tokens(&self, ids: &[u32]) -> Result<Vec<f32>> {
        let mut out = vec![0f32; ids.len()];
        check(unsafe { import::ctx_score(self.0, ids.as_ptr(), ids.len() as u32, out.as_mut_ptr()) })?;
        Ok(out)
    }

    /// Begins to compute what [`Context::score`] of a text tells, or of an empty one, and of one token, what
    /// [`Context::top`], [`Context::row`] and [`Context::entropy`] do, and returns at once. The context runs until it was
    /// waited for; those answer at once then. So the answers of many contexts are computed together.
    pub fn ask(&self, text: &str) -> Result<()> {
        let ids = if text.is_empty() { Vec::new() } else { host::encode(text).ok_or("the text to score has no tokens")? };
        done(unsafe { import::ctx_ask(self.0, ids.as_ptr(), ids.len() as u32) })
    }

    /// What the text behind the prompt has of calls of tools, as the parser of the reply reads it.
    pub fn calls(&self) -> Result<Calls> {
        Ok(match check(unsafe { import::ctx_calls(self.0) })? {
            1 => Calls::Open,
            2 => Calls::Made,
            3 => Calls::Broken,
            _ => Calls::None,
        })
    }

    /// Lets a context whose text ends inside a call of a tool, or with what may begin one, generate until it does not,
    /// and tells whether it has calls then: such a text is an answer, and what is appended to it is read as its content.
    /// `s` are the settings of the runs; they set no [`Settings::max_tokens`].
    pub fn finish_call(&self, s: &Settings) -> Result<bool> {
        let mut most = 1;
        while self.calls()? == Calls::Open && self.generate(&s.clone().max_tokens(most))?.reason == Reason::Length {
            most = (2 * most).min(64);
        }
        Ok(self.calls()? == Calls::Made)
    }

    /// Gives the client tokens. Where the model ended the last run, and the context did not change since, there is one
    /// more behind them, the end.
    pub fn emit(&self, from: usize, count: usize) -> Result<()> {
        done(unsafe { import::emit(self.0, from as i32, count as i32) })
    }

    /// Gives the client all tokens from a place on.
    pub fn emit_from(&self, from: usize) -> Result<()> {
        self.emit(from, self.len().saturating_sub(from))
    }

    /// Gives the client all tokens from a place on and, if the model ended the text there, the end, behind which nothing
    /// can be emitted: a guard that reads the end refuses it here, and not when the program is over.
    pub fn emit_to_end(&self, from: usize) -> Result<()> {
        self.emit(from, (self.len() + usize::from(self.ended())).saturating_sub(from))
    }

    /// Gives the client what the last run generated.
    pub fn emit_span(&self) -> Result<()> {
        let s = self.span();
        self.emit(s.from, s.count)
    }
}

/// Lets contexts generate at the same time, and waits for all.
pub fn generate(list: &[Context], s: &Settings) -> Result<()> {
    for c in list {
        c.start(s)?;
    }
    wait(list)
}

/// Waits until none of the contexts runs.
pub fn wait(list: &[Context]) -> Result<()> {
    let ids: Vec<i32> = list.iter().map(|c| c.0).collect();
    done(unsafe { import::wait(ids.as_ptr(), ids.len() as u32, 0) })
}

/// Waits for the first of the contexts that does not run any more, and returns its place. The reply then depends on
/// which one that is: the same request may get another one.
pub fn race(list: &[Context]) -> Result<usize> {
    let ids: Vec<i32> = list.iter().map(|c| c.0).collect();
    check(unsafe { import::wait(ids.as_ptr(), ids.len() as u32, 1) })
}

/// Gives the client a text.
pub fn emit_text(text: &str) -> Result<()> {
    done(unsafe { import::emit_text(text.as_ptr(), text.len() as u32) })
}

/// A context of a conversation through the model's template. `request` is a template's, as JSON.
pub fn render(request: &str) -> Result<Context> {
    check(unsafe { import::render(request.as_ptr(), request.len() as u32) }).map(|n| Context(n as i32))
}

/// How many bytes of a text a text of the grammar can begin with.
pub fn grammar_prefix(g: &Grammar, text: &str) -> Result<usize> {
    let call = g.call();
    check(unsafe { import::grammar_prefix(call.as_ptr(), call.len() as u32, text.as_ptr(), text.len() as u32) })
}

/// What a run, or a text, is held to. The default is the grammar of the request, if [`Request::has_grammar`].
#[derive(Clone, Debug, Default)]
pub struct Grammar {
    /// Language of `source`: "json_schema", "json_object", "regex" and others; empty for the request's own grammar.
    pub language: String,
    /// The grammar.
    pub source: String,
}

impl Grammar {
    fn json(&self) -> String {
        let mut b = String::from("{\"language\":");
        quote(&self.language, &mut b);
        b.push_str(",\"source\":");
        quote(&self.source, &mut b);
        b.push('}');
        b
    }
}

/// Settings of a run; what they do not set is as the request says.
#[derive(Clone, Debug, Default)]
pub struct Settings(String, Option<usize>); // the members, and where a further plugin goes in them

impl Settings {
    /// Settings that set nothing.
    pub fn new() -> Settings {
        Settings::default()
    }

    fn with(mut self, name: &str, value: &str) -> Settings {
        if !self.0.is_empty() {
            self.0.push(',');
        }
        quote(name, &mut self.0);
        self.0.push(':');
        self.0.push_str(value);
        self
    }

    /// Bounds the tokens of the run.
    pub fn max_tokens(self, n: usize) -> Settings {
        self.with("max_tokens", &format!("{}", n))
    }

    /// Divides the logits; 0 takes the most likely token.
    pub fn temperature(self, t: f32) -> Settings {
        self.with("temperature", &format!("{}", t))
    }

    /// Keeps the smallest set of tokens with at least that probability.
    pub fn top_p(self, p: f32) -> Settings {
        self.with("top_p", &format!("{}", p))
    }

    /// Keeps that many of the likeliest tokens; 0 keeps all.
    pub fn top_k(self, k: usize) -> Settings {
        self.with("top_k", &format!("{}", k))
    }

    /// Keeps tokens at least that times as likely as the likeliest.
    pub fn min_p(self, p: f32) -> Settings {
        self.with("min_p", &format!("{}", p))
    }

    /// Adds a plugin of the run. The first one takes the place of all of the request. `params` is JSON, or empty.
    pub fn plugin(mut self, name: &str, params: &str) -> Settings {
        let mut one = String::from(r#"{"name":"#);
        quote(name, &mut one);
        if !params.is_empty() {
            one.push_str(r#","params":"#);
            one.push_str(params);
        }
        one.push('}');
        if let Some(at) = self.1 {
            self.0.insert_str(at, &format!(",{}", one));
            self.1 = Some(at + 1 + one.len());
            return self;
        }
        self = self.with("plugins", &format!("[{}]", one));
        self.1 = Some(self.0.len() - 1);
        self
    }

    /// Texts that end the run. They are part of the context.
    pub fn stop(self, texts: &[&str]) -> Settings {
        let mut b = String::from("[");
        for (i, t) in texts.iter().enumerate() {
            if i > 0 {
                b.push(',');
            }
            quote(t, &mut b);
        }
        b.push(']');
        self.with("stop", &b)
    }

    /// Holds the run to a grammar.
    pub fn grammar(self, g: &Grammar) -> Settings {
        self.held(g)
    }

    /// Holds the run to a grammar, which the tokens from a place on have already begun.
    pub fn grammar_from(self, g: &Grammar, from: usize) -> Settings {
        self.grammar(g).with("grammar_from", &format!("{}", from))
    }

    /// Holds the run to no grammar, also if the request has one.
    pub fn free(self) -> Settings {
        self.with("grammar", "null")
    }

    /// Keeps tokens from being the first one of the run, at most 1024 of them. The run takes one of the others, as
    /// grammar, plugins and settings say, and ends with [`Reason::Denied`] where there is none.
    pub fn deny(self, tokens: &[u32]) -> Settings {
        let list: Vec<String> = tokens.iter().map(|t| format!("{}", t)).collect();
        self.with("deny", &format!("[{}]", list.join(",")))
    }

    /// Gives the client each token as soon as it is there.
    pub fn emit(self) -> Settings {
        self.with("emit", "true")
    }

    fn json(&self) -> String {
        if self.0.is_empty() {
            return String::new();
        }
        format!("{{{}}}", self.0)
    }
}

impl Request {
    /// Whether the client wants the reply held to a grammar, such as a schema. A run that sets none is held to it.
    pub fn has_grammar(&self) -> bool {
        self.settings.get("grammar").is_true()
    }
}

impl Grammar {
    /// The grammar as imports want it; nothing for the request's.
    fn call(&self) -> String {
        if self.language.is_empty() {
            return String::new();
        }
        self.json()
    }
}

impl Settings {
    fn held(self, g: &Grammar) -> Settings {
        match g.call() {
            request if request.is_empty() => self,
            own => self.with("grammar", &own),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{self, program as script};

    fn gives(s: Settings, want: &str) {
        assert_eq!(s.json(), want);
        if !want.is_empty() {
            crate::json::Value::parse(want.as_bytes()).unwrap();
        }
    }

    #[test]
    fn settings_are_json_in_any_order() {
        gives(Settings::new(), "");
        gives(Settings::new().min_p(0.25), r#"{"min_p":0.25}"#);
        gives(Settings::new().plugin("x", ""), r#"{"plugins":[{"name":"x"}]}"#);
        gives(
            Settings::new().top_k(2).plugin("x", r#"{"a":1}"#).max_tokens(3).plugin("y\"", "").plugin("z", ""),
            r#"{"top_k":2,"plugins":[{"name":"x","params":{"a":1}},{"name":"y\""},{"name":"z"}],"max_tokens":3}"#,
        );
        gives(Settings::new().grammar(&Grammar::default()), "");
        gives(Settings::new().grammar_from(&Grammar::default(), 3), r#"{"grammar_from":3}"#);
        gives(Settings::new().deny(&[]).emit(), r#"{"deny":[],"emit":true}"#);
        gives(Settings::new().deny(&[7, 70000]), r#"{"deny":[7,70000]}"#);
    }

    struct Asks;
    impl Program for Asks {
        fn open(_: &Value) -> Result<Self> {
            Ok(Asks)
        }
        fn run(&mut self, r: &Request) -> Result<()> {
            let kids = r.context.fork_n(3)?;
            for (k, text) in kids.iter().zip(["", " a b", " b"]) {
                k.ask(text)?;
            }
            wait(&kids)?;
            assert_eq!(kids[1].score(" a b")?, -2.0);
            assert!(r.context.ask("elsewhere").is_err());
            Ok(())
        }
    }

    #[test]
    fn questions_are_asked_together() {
        testing::vocabulary(&["Q", " a", " b", "</s>"]);
        script::model(|_| String::new());
        script::run::<Asks>("{}", "Q").unwrap();
        assert_eq!(script::asked(), ["", " a b", " b"]);
    }

    struct Fails;
    impl Program for Fails {
        fn open(_: &Value) -> Result<Self> {
            Ok(Fails)
        }
        fn run(&mut self, r: &Request) -> Result<()> {
            assert!(r.context.rewind(99).is_err());
            assert_eq!(failure(), Some(Failure::Argument));
            Ok(())
        }
    }

    #[test]
    fn failures_are_the_threads_own() {
        testing::vocabulary(&["Q", "</s>"]);
        script::model(|_| String::new());
        script::run::<Fails>("{}", "Q").unwrap();
        assert_eq!(std::thread::spawn(failure).join().unwrap(), None);
    }

    struct Denies;
    impl Program for Denies {
        fn open(_: &Value) -> Result<Self> {
            Ok(Denies)
        }
        fn run(&mut self, r: &Request) -> Result<()> {
            let c = r.context; // Q
            assert_eq!(c.generate(&Settings::new().deny(&[1]))?.reason, Reason::Denied); // the script has " a" alone
            assert_eq!((c.len(), c.ended(), c.emit(1, 1).is_err()), (1, false, true));
            let s = c.generate(&Settings::new().deny(&[2, 3]))?;
            assert_eq!((s.count, s.reason, s.end, c.ended()), (1, Reason::End, 3, true));
            let f = c.fork()?;
            c.push(&[2])?;
            assert_eq!((c.ended(), c.emit(1, 3).is_err()), (false, true));
            f.emit_to_end(1)?;
            assert!(f.emit(1, 3).is_err());
            assert_eq!(f.generate(&Settings::new().deny(&[3]))?.reason, Reason::Denied); // only the end comes
            Ok(())
        }
    }

    #[test]
    fn first_tokens_are_denied_and_ends_emitted() {
        testing::vocabulary(&["Q", " a", " b", "</s>"]);
        script::model(|text| String::from(if text == "Q" { " a" } else { "" }));
        assert_eq!(script::run::<Denies>("{}", "Q"), Ok(String::from(" a")));
    }

    struct Rewinds;
    impl Program for Rewinds {
        fn open(_: &Value) -> Result<Self> {
            Ok(Rewinds)
        }
        fn run(&mut self, r: &Request) -> Result<()> {
            // Q, " a", " bcd", a special token, " a"
            for (bytes, left) in [(99, 5), (8, 5), (7, 4), (6, 4), (5, 2), (2, 2), (1, 1), (0, 1)] {
                let c = r.context.fork()?;
                c.rewind_bytes(1, bytes)?;
                assert_eq!(c.len(), left, "{} bytes", bytes);
                c.rewind_bytes(1, bytes)?; // it changes nothing more
                assert_eq!(c.len(), left);
            }
            Ok(())
        }
    }

    #[test]
    fn rewinds_to_a_border_of_tokens() {
        testing::vocabulary(&["Q", " a", " bcd", "<so>", "</s>"]);
        script::model(|_| String::new());
        script::run::<Rewinds>("{}", "Q a bcd<so> a").unwrap();
    }
}
