//! How the built-in plugins read their settings: the configuration in tgi.toml
//! replaces the plugin's own defaults, a request's parameters replace both.
//! Both are JSON objects with the same members.
//!
//! ```ignore
//! static DEFAULTS: Defaults<Ban> = Defaults::new(Ban { n: 3 });
//! impl Settings for Ban {
//!     fn member(&mut self, r: &mut Reader, key: &str) -> bool {
//!         match key {
//!             "n" => self.n = settings::whole(r, key, 1, 8),
//!             _ => return false,
//!         }
//!         true
//!     }
//! }
//! // init: DEFAULTS.configure(config); begin: DEFAULTS.with(params)
//! ```
#![cfg_attr(target_arch = "wasm32", no_std)]
#![warn(missing_docs)]

extern crate alloc;

use alloc::{format, string::String};
use tgi_plugin::{json::Reader, Result};

use cell::Cell;

/// The settings of a plugin.
pub trait Settings: Clone {
    /// Reads the value of member `key`, or returns false where there is no such
    /// setting. The value must be read or the reader failed.
    fn member(&mut self, r: &mut Reader, key: &str) -> bool;

    /// Called after the last member: validates combinations of members, and prepares expensive
    /// data, which is kept for those of the configuration.
    fn check(&mut self) -> Result<()> {
        Ok(())
    }
}

/// The settings of a sequence unless its request changes them. A plugin has one value, in a static,
/// because a guest has one thread. In native tests, which run side by side, each thread has its own.
pub struct Defaults<S>(Cell<S>);

/// The cell of a guest, which has one thread.
#[cfg(target_arch = "wasm32")]
mod cell {
    use core::cell::UnsafeCell;

    pub struct Cell<S>(UnsafeCell<S>);

    unsafe impl<S> Sync for Cell<S> {}

    impl<S: Clone> Cell<S> {
        pub const fn new(initial: S) -> Self {
            Cell(UnsafeCell::new(initial))
        }

        pub fn get(&self) -> S {
            // No reference into the cell outlives a method.
            unsafe { (*self.0.get()).clone() }
        }

        pub fn set(&self, value: S) {
            unsafe { *self.0.get() = value };
        }
    }
}

/// The cell of native tests: what a thread sets is for itself alone.
#[cfg(not(target_arch = "wasm32"))]
mod cell {
    use std::sync::Mutex;
    use std::thread::{current, ThreadId};

    pub struct Cell<S> {
        initial: S,
        set: Mutex<Vec<(ThreadId, S)>>,
    }

    impl<S: Clone> Cell<S> {
        pub const fn new(initial: S) -> Self {
            Cell { initial, set: Mutex::new(Vec::new()) }
        }

        pub fn get(&self) -> S {
            let set = self.set.lock().unwrap();
            set.iter().find(|(id, _)| *id == current().id()).map_or(&self.initial, |(_, s)| s).clone()
        }

        pub fn set(&self, value: S) {
            let mut set = self.set.lock().unwrap();
            set.retain(|(id, _)| *id != current().id());
            set.push((current().id(), value));
        }
    }
}

impl<S: Settings> Defaults<S> {
    /// The plugin's own defaults.
    pub const fn new(initial: S) -> Self {
        Defaults(Cell::new(initial))
    }

    /// Takes the configuration; called once, before any sequence begins.
    pub fn configure(&self, config: &[u8]) -> Result<()> {
        self.0.set(self.with(config)?);
        Ok(())
    }

    /// The settings of one sequence: the defaults, and what `params` replaces.
    pub fn with(&self, params: &[u8]) -> Result<S> {
        let mut s = self.0.get();
        let mut r = Reader::new(params);
        r.object(|r, key| {
            if !s.member(r, key) {
                r.fail(&format!("unknown parameter: {}", key));
            }
        });
        r.close()?;
        s.check()?;
        Ok(s)
    }
}

/// A number as text, for messages: rounded to 6 decimals. The formatting of
/// core is exact and takes 25 KB of a module.
pub fn decimal(v: f64) -> String {
    if !(-1e19..=1e19).contains(&v) {
        return String::from(if v > 0.0 { "a number above 1e19" } else { "a number below -1e19" });
    }
    let (sign, v) = if v < 0.0 { ("-", -v) } else { ("", v) };
    if v >= 1e12 {
        return format!("{}{}", sign, v as u64);
    }
    let millionths = (v * 1e6 + 0.5) as u64;
    let text = format!("{}{}.{:06}", sign, millionths / 1_000_000, millionths % 1_000_000);
    String::from(text.trim_end_matches('0').trim_end_matches('.'))
}

/// Reads a number from `low` to `high`.
pub fn number(r: &mut Reader, field: &str, low: f64, high: f64) -> f64 {
    if r.peek() != b'0' {
        r.fail(&format!("{}: want a number from {} to {}", field, decimal(low), decimal(high)));
        return low;
    }
    let v = r.number();
    if !(low..=high).contains(&v) {
        r.fail(&format!("{}: {} is not from {} to {}", field, decimal(v), decimal(low), decimal(high)));
        return low;
    }
    v
}

/// Reads a whole number from `low` to `high`.
pub fn whole(r: &mut Reader, field: &str, low: u32, high: u32) -> u32 {
    if r.peek() != b'0' {
        r.fail(&format!("{}: want a whole number from {} to {}", field, low, high));
        return low;
    }
    let v = r.number();
    if !(low as f64..=high as f64).contains(&v) || v != v as u32 as f64 {
        r.fail(&format!("{}: {} is not a whole number from {} to {}", field, decimal(v), low, high));
        return low;
    }
    v as u32
}

/// Reads true or false.
pub fn boolean(r: &mut Reader, field: &str) -> bool {
    if !matches!(r.peek(), b't' | b'f') {
        r.fail(&format!("{}: want true or false", field));
        return false;
    }
    r.boolean()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Clone, Debug, PartialEq)]
    struct Three {
        share: f64,
        n: u32,
        on: bool,
    }

    impl Settings for Three {
        fn member(&mut self, r: &mut Reader, key: &str) -> bool {
            match key {
                "share" => self.share = number(r, key, 0.0, 0.5),
                "n" => self.n = whole(r, key, 1, 8),
                "on" => self.on = boolean(r, key),
                _ => return false,
            }
            true
        }

        fn check(&mut self) -> Result<()> {
            if self.on && self.n == 8 {
                return Err("on: want n below 8".into());
            }
            Ok(())
        }
    }

    const INITIAL: Three = Three { share: 0.25, n: 2, on: false };

    #[test]
    fn layers() {
        let d = Defaults::new(INITIAL);
        assert_eq!(d.with(b"{}"), Ok(INITIAL));
        d.configure(br#"{"n":5,"on":true}"#).unwrap();
        assert_eq!(d.with(b"{}"), Ok(Three { n: 5, on: true, ..INITIAL }));
        assert_eq!(d.with(br#"{"n":3,"share":0}"#), Ok(Three { n: 3, on: true, share: 0.0 }));
        assert_eq!(d.with(b"{}"), Ok(Three { n: 5, on: true, ..INITIAL }), "a request changed the defaults");
        assert!(d.configure(br#"{"n":8}"#).is_err());
        assert_eq!(d.with(b"{}"), Ok(Three { n: 5, on: true, ..INITIAL }), "a refused configuration was taken");
    }

    /// Native tests share the static of a plugin.
    #[test]
    fn threads_have_their_own() {
        static SHARED: Defaults<Three> = Defaults::new(INITIAL);
        SHARED.configure(br#"{"n":5}"#).unwrap();
        std::thread::spawn(|| {
            assert_eq!(SHARED.with(b"{}"), Ok(INITIAL));
            SHARED.configure(br#"{"n":7}"#).unwrap();
            assert_eq!(SHARED.with(b"{}"), Ok(Three { n: 7, ..INITIAL }));
        })
        .join()
        .unwrap();
        assert_eq!(SHARED.with(b"{}"), Ok(Three { n: 5, ..INITIAL }));
    }

    #[test]
    fn decimals() {
        for (v, want) in [
            (0.0, "0"),
            (-0.05, "-0.05"),
            (100.0, "100"),
            (1.0 / 3.0, "0.333333"),
            (0.9999999, "1"),
            (4294967296.0, "4294967296"),
            (1e12, "1000000000000"),
            (9007199254740991.0, "9007199254740991"),
            (-1e20, "a number below -1e19"),
        ] {
            assert_eq!(decimal(v), want);
        }
    }

    #[test]
    fn refusals() {
        let d = Defaults::new(INITIAL);
        for (params, want) in [
            (r#"{"share":0.75}"#, "share: 0.75 is not from 0 to 0.5"),
            (r#"{"share":1e400}"#, "share: a number above 1e19 is not from 0 to 0.5"),
            (r#"{"share":"0"}"#, "share: want a number from 0 to 0.5"),
            (r#"{"n":0}"#, "n: 0 is not a whole number from 1 to 8"),
            (r#"{"n":2.5}"#, "n: 2.5 is not a whole number from 1 to 8"),
            (r#"{"n":null}"#, "n: want a whole number from 1 to 8"),
            (r#"{"on":1}"#, "on: want true or false"),
            (r#"{"on":true,"n":8}"#, "on: want n below 8"),
            (r#"{"m":1}"#, "unknown parameter: m"),
            ("[]", "want a JSON object"),
        ] {
            assert_eq!(d.with(params.as_bytes()), Err(want.into()), "{}", params);
        }
    }
}
