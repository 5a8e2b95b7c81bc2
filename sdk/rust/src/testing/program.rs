//! A scripted model for programs in native tests.

use std::cell::RefCell;

use crate::json::Value;
use crate::program::{Calls, Request};
use crate::{host, Program, Result};

type Next = Box<dyn Fn(&str) -> String>;
type Read = Box<dyn Fn(&str) -> Calls>;
type Likely = Box<dyn Fn(&str, &str) -> f32>;

#[derive(Clone)]
struct Context {
    tokens: Vec<u32>,
    from: usize,
    count: usize, // of the run's tokens
    reason: u32,
    ended: bool, // the model ended the run, and nothing changed since
}

#[derive(Default)]
struct Model {
    next: Option<Next>,
    likely: Option<Likely>,
    contexts: Vec<Option<Context>>,
    emitted: String,
    why: String,
    runs: Vec<String>,
    grammar: Option<String>,
    asked: Vec<String>,
    calls: Option<Read>,
    prompt: usize,
}

thread_local!(static MODEL: RefCell<Model> = RefCell::new(Model::default()));

/// Sets what this thread's model writes behind a text, until it ends it. [`super::vocabulary`] comes first.
pub fn model(next: impl Fn(&str) -> String + 'static) {
    MODEL.with(|m| *m.borrow_mut() = Model { next: Some(Box::new(next)), ..Model::default() });
}

/// Sets the log-probability of a token behind a text, both as texts; -1 without it.
pub fn likely(f: impl Fn(&str, &str) -> f32 + 'static) {
    MODEL.with(|m| m.borrow_mut().likely = Some(Box::new(f)));
}

/// Sets what a text behind the prompt has of calls; none without it.
pub fn calls(f: impl Fn(&str) -> Calls + 'static) {
    MODEL.with(|m| m.borrow_mut().calls = Some(Box::new(f)));
}

/// Gives the request a grammar: this text, literally.
pub fn grammar(source: &str) {
    MODEL.with(|m| m.borrow_mut().grammar = Some(source.to_string()));
}

/// The settings of the runs since [`model`], as JSON.
pub fn runs() -> Vec<String> {
    MODEL.with(|m| m.borrow().runs.clone())
}

/// The texts of the questions since [`model`]; one about the next token is empty.
pub fn asked() -> Vec<String> {
    MODEL.with(|m| m.borrow().asked.clone())
}

/// Runs a program on a prompt, and returns what it emitted. `params` is JSON.
pub fn run<P: Program>(params: &str, prompt: &str) -> Result<String> {
    let mut plugin = P::open(&Value::parse(b"{}")?)?;
    let value = Value::parse(params.as_bytes())?;
    if !value.members().is_empty() {
        plugin.validate(&value)?;
    }
    let tokens = host::encode(prompt).ok_or("the prompt has no tokens")?;
    MODEL.with(|m| {
        let mut m = m.borrow_mut();
        m.prompt = tokens.len();
        m.contexts = vec![Some(Context { tokens, from: 0, count: 0, reason: 0, ended: false })];
        m.emitted.clear();
    });
    let settings = if MODEL.with(|m| m.borrow().grammar.is_some()) { r#"{"grammar":true}"# } else { "{}" };
    let request = format!(
        r#"{{"params":{},"settings":{},"prompt_count":0,"limits":{{"max_new_tokens":100,"tokens":10000}}}}"#,
        params, settings
    );
    plugin.run(&Request::parse(request.as_bytes())?)?;
    Ok(MODEL.with(|m| m.borrow().emitted.clone()))
}

fn spell(tokens: &[u32]) -> Vec<u8> {
    tokens.iter().filter(|&&t| !host::is_special(t)).flat_map(|&t| host::token_bytes(t).unwrap_or_default()).collect()
}

fn text(tokens: &[u32]) -> String {
    String::from_utf8_lossy(&spell(tokens)).into_owned()
}

impl Model {
    fn refuse(&mut self, status: i32, why: &str) -> i32 {
        self.why = why.to_string();
        status
    }

    fn get(&mut self, c: i32) -> Option<&mut Context> {
        self.contexts.get_mut(c as usize).and_then(|x| x.as_mut())
    }

    /// Writes a run: all of what the model says, up to max_tokens or a stop text. Where its first token is denied, or
    /// the end that comes first, there is none: the script knows no other.
    fn start(&mut self, c: i32, settings: &str) -> i32 {
        let set = Value::parse(if settings.is_empty() { b"{}" } else { settings.as_bytes() }).unwrap_or(Value::Null);
        self.runs.push(settings.to_string());
        let most = set.get("max_tokens").number().unwrap_or(100.0) as usize;
        let before = match self.get(c) {
            Some(x) => x.tokens.clone(),
            None => return self.refuse(-1, "there is no such context"),
        };
        let mut said = self.next.as_ref().map_or(String::new(), |f| f(&text(&before)));
        let mut reason = 2;
        for stop in set.get("stop").items() {
            if let Some(at) = stop.text().and_then(|s| said.find(s).map(|i| i + s.len())) {
                said.truncate(at);
                reason = 3;
            }
        }
        let mut ids = match host::encode(&said) {
            Some(ids) => ids,
            None => return self.refuse(-1, "the model's words are not in the vocabulary"),
        };
        if ids.len() >= most {
            ids.truncate(most);
            reason = 1;
        }
        let first = ids.first().copied().unwrap_or_else(end);
        if set.get("deny").items().iter().any(|t| t.number() == Some(first.into())) {
            ids.clear();
            reason = 4;
        }
        if set.get("emit").is_true() {
            self.emitted.push_str(&text(&ids));
        }
        let x = self.get(c).unwrap();
        x.from = x.tokens.len();
        x.count = ids.len();
        x.tokens.extend(ids);
        x.reason = reason;
        x.ended = reason == 2;
        0
    }
}

/// The token that ends texts: `</s>`, or 0 without one.
fn end() -> u32 {
    host::encode("</s>").and_then(|ids| ids.first().copied()).unwrap_or(0)
}

fn with(f: impl FnOnce(&mut Model) -> i32) -> i32 {
    MODEL.with(|m| f(&mut m.borrow_mut()))
}

fn on(c: i32, f: impl FnOnce(&mut Context) -> i32) -> i32 {
    with(|m| match m.get(c) {
        Some(x) => f(x),
        None => m.refuse(-1, "there is no such context"),
    })
}

unsafe fn str_of<'a>(at: *const u8, len: u32) -> &'a str {
    if len == 0 {
        return "";
    }
    std::str::from_utf8(std::slice::from_raw_parts(at, len as usize)).unwrap_or("")
}

unsafe fn ids_of(at: *const u32, n: u32) -> Vec<u32> {
    if n == 0 {
        return Vec::new();
    }
    std::slice::from_raw_parts(at, n as usize).to_vec()
}

pub(crate) unsafe fn ctx_fork(c: i32) -> i32 {
    with(|m| match m.get(c).cloned() {
        Some(x) => {
            m.contexts.push(Some(x));
            m.contexts.len() as i32 - 1
        }
        None => m.refuse(-1, "there is no such context"),
    })
}

pub(crate) unsafe fn ctx_drop(c: i32) -> i32 {
    with(|m| {
        m.contexts[c as usize] = None;
        0
    })
}

pub(crate) unsafe fn ctx_append(c: i32, text: *const u8, len: u32, _flags: u32) -> i32 {
    match host::encode(str_of(text, len)) {
        Some(ids) => on(c, |x| {
            x.tokens.extend(&ids);
            x.ended &= ids.is_empty();
            ids.len() as i32
        }),
        None => with(|m| m.refuse(-1, "the text is not in the vocabulary")),
    }
}

pub(crate) unsafe fn ctx_push(c: i32, ids: *const u32, count: u32) -> i32 {
    let ids = ids_of(ids, count);
    on(c, |x| {
        x.ended &= ids.is_empty();
        x.tokens.extend(ids);
        0
    })
}

pub(crate) unsafe fn ctx_len(c: i32) -> i32 {
    on(c, |x| x.tokens.len() as i32)
}

pub(crate) unsafe fn ctx_rewind(c: i32, n: i32) -> i32 {
    on(c, |x| {
        if n < 0 || n as usize > x.tokens.len() {
            return -1;
        }
        x.ended &= n as usize == x.tokens.len();
        x.tokens.truncate(n as usize);
        0
    })
}

pub(crate) unsafe fn ctx_read(c: i32, from: i32, what: u32, to: *mut u8, room: u32) -> i32 {
    on(c, |x| {
        if from < 0 || from as usize > x.tokens.len() {
            return -1;
        }
        let tokens = &x.tokens[from as usize..];
        let (n, bytes) = match what {
            0 => (tokens.len(), tokens.iter().flat_map(|t| t.to_le_bytes()).collect()),
            _ => {
                let b = spell(tokens);
                (b.len(), b)
            }
        };
        if n <= room as usize && n > 0 {
            std::ptr::copy_nonoverlapping(bytes.as_ptr(), to, bytes.len());
        }
        n as i32
    })
}

pub(crate) unsafe fn ctx_start(c: i32, settings: *const u8, len: u32) -> i32 {
    with(|m| m.start(c, str_of(settings, len)))
}

pub(crate) unsafe fn wait(list: *const i32, count: u32, _flags: u32) -> i32 {
    if count == 0 || list.is_null() {
        return with(|m| m.refuse(-1, "no contexts to wait for"));
    }
    0
}

pub(crate) unsafe fn span(c: i32, to: *mut u8) -> i32 {
    on(c, |x| {
        let mut b = [0u8; 24];
        b[..4].copy_from_slice(&(x.from as u32).to_le_bytes());
        b[4..8].copy_from_slice(&(x.count as u32).to_le_bytes());
        b[8..12].copy_from_slice(&x.reason.to_le_bytes());
        b[12..16].copy_from_slice(&if x.reason == 2 { end() } else { 0 }.to_le_bytes());
        b[16..].copy_from_slice(&(-(x.count as f64)).to_le_bytes());
        std::ptr::copy_nonoverlapping(b.as_ptr(), to, b.len());
        0
    })
}

fn row(c: i32) -> Option<Vec<f32>> {
    let words: Vec<String> = (0..host::vocab_size()).map(|id| text(&[id])).collect();
    MODEL.with(|m| {
        let mut m = m.borrow_mut();
        let before = text(&m.get(c)?.tokens.clone());
        Some(words.iter().map(|w| m.likely.as_ref().map_or(-1.0, |f| f(&before, w))).collect())
    })
}

pub(crate) unsafe fn ctx_row(c: i32, to: *mut f32) -> i32 {
    match row(c) {
        Some(r) => {
            std::ptr::copy_nonoverlapping(r.as_ptr(), to, r.len());
            r.len() as i32
        }
        None => -1,
    }
}

pub(crate) unsafe fn ctx_top(c: i32, k: i32, to: *mut u8) -> i32 {
    let mut r: Vec<(u32, f32)> = match row(c) {
        Some(r) => r.into_iter().enumerate().map(|(i, v)| (i as u32, v)).collect(),
        None => return -1,
    };
    r.sort_by(|a, b| b.1.partial_cmp(&a.1).unwrap());
    r.truncate(k.max(0) as usize);
    for (i, (id, v)) in r.iter().enumerate() {
        let mut b = [0u8; 12];
        b[..4].copy_from_slice(&id.to_le_bytes());
        b[4..8].copy_from_slice(&v.to_le_bytes());
        b[8..].copy_from_slice(&v.to_le_bytes());
        std::ptr::copy_nonoverlapping(b.as_ptr(), to.add(12 * i), 12);
    }
    r.len() as i32
}

pub(crate) unsafe fn ctx_entropy(c: i32, to: *mut f64) -> i32 {
    match row(c) {
        Some(r) => {
            let sum: f64 = r.iter().map(|&v| (v as f64).exp()).sum();
            *to = r.iter().map(|&v| ((v as f64).exp() / sum, v as f64 - sum.ln())).map(|(p, l)| -p * l).sum();
            0
        }
        None => -1,
    }
}

pub(crate) unsafe fn ctx_score(c: i32, ids: *const u32, count: u32, to: *mut f32) -> i32 {
    for (i, id) in ids_of(ids, count).into_iter().enumerate() {
        *to.add(i) = match row(c) {
            Some(r) => r[id as usize],
            None => return -1,
        };
    }
    0
}

pub(crate) unsafe fn ctx_ask(c: i32, ids: *const u32, count: u32) -> i32 {
    let asked = text(&ids_of(ids, count));
    with(|m| match m.get(c) {
        Some(_) => {
            m.asked.push(asked);
            0
        }
        None => m.refuse(-1, "there is no such context"),
    })
}

pub(crate) unsafe fn emit(c: i32, from: i32, count: i32) -> i32 {
    let said = MODEL.with(|m| {
        let mut m = m.borrow_mut();
        let x = m.get(c)?;
        let mut tokens = x.tokens.clone();
        tokens.extend(x.ended.then(end));
        Some(text(tokens.get(from as usize..(from + count) as usize)?))
    });
    match said {
        Some(s) => with(|m| {
            m.emitted.push_str(&s);
            0
        }),
        None => with(|m| m.refuse(-1, "there are no such tokens")),
    }
}

pub(crate) unsafe fn emit_text(text: *const u8, len: u32) -> i32 {
    with(|m| {
        m.emitted.push_str(str_of(text, len));
        0
    })
}

pub(crate) unsafe fn render(request: *const u8, len: u32) -> i32 {
    match host::encode(str_of(request, len)) {
        Some(tokens) => with(|m| {
            m.contexts.push(Some(Context { tokens, from: 0, count: 0, reason: 0, ended: false }));
            m.contexts.len() as i32 - 1
        }),
        None => with(|m| m.refuse(-1, "the conversation is not in the vocabulary")),
    }
}

/// The longest beginning that is also one of the grammar's source: the language "literal".
pub(crate) unsafe fn grammar_prefix(grammar: *const u8, len: u32, text: *const u8, text_len: u32) -> i32 {
    let g = Value::parse(str_of(grammar, len).as_bytes()).unwrap_or(Value::Null);
    let source = match MODEL.with(|m| m.borrow().grammar.clone()) {
        Some(source) if len == 0 => source.into_bytes(),
        _ if len == 0 => return with(|m| m.refuse(-1, "grammar: the request has none")),
        _ => g.get("source").text().unwrap_or("").as_bytes().to_vec(),
    };
    str_of(text, text_len).bytes().zip(source).take_while(|(a, b)| a == b).count() as i32
}

pub(crate) unsafe fn ctx_calls(c: i32) -> i32 {
    with(|m| {
        let prompt = m.prompt;
        let behind = match m.get(c) {
            Some(x) => text(x.tokens.get(prompt..).unwrap_or(&[])),
            None => return m.refuse(-1, "there is no such context"),
        };
        m.calls.as_ref().map_or(0, |f| f(&behind) as i32)
    })
}

pub(crate) unsafe fn why(to: *mut u8, room: u32) -> i32 {
    with(|m| {
        if m.why.len() <= room as usize && room > 0 {
            std::ptr::copy_nonoverlapping(m.why.as_ptr(), to, m.why.len());
        }
        m.why.len() as i32
    })
}
