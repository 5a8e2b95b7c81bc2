//! The official JSON Schema test suite, as a ratchet: how each case comes out is
//! written in `suite.txt`, and a case may only come out better.
//!
//! A case's instance is put to the grammar as its canonical text: no white
//! space, numbers without exponent and needless zeros, strings with the escapes
//! that JSON asks for. The grammar decides on an order of members, so an
//! instance counts as admitted when it is in some order of its members.
//!
//! In the files `format` the keyword is an annotation, as the drafts have it by
//! default; they are compiled with `formats` off. Everywhere else it is on.
//!
//! JSON_SCHEMA_TEST_SUITE names another copy of the suite. `UPDATE=1` rewrites
//! the file.

mod instance;
mod matcher;

use grammar::json::{self, Value};
use grammar::{compile, schema::Draft, Options, Whitespace};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

const RESULTS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/suite.txt");

fn suite() -> PathBuf {
    let ours = Path::new(env!("CARGO_MANIFEST_DIR")).join("../testdata/json-schema-test-suite");
    std::env::var_os("JSON_SCHEMA_TEST_SUITE").map_or(ours, PathBuf::from)
}

fn files(dir: &Path, out: &mut Vec<PathBuf>) {
    let mut entries: Vec<PathBuf> = fs::read_dir(dir).unwrap().map(|e| e.unwrap().path()).collect();
    entries.sort();
    for e in entries {
        if e.is_dir() {
            files(&e, out);
        } else {
            out.push(e);
        }
    }
}

fn text(v: &Value, k: &str) -> String {
    v.get(k).and_then(Value::as_str).unwrap_or("").to_string()
}

fn list<'a>(v: &'a Value, k: &str) -> &'a [Value] {
    match v.get(k) {
        Some(Value::Arr(v)) => v,
        _ => &[],
    }
}

fn run(root: &Path, draft: &str, results: &mut BTreeMap<String, &'static str>) {
    let o = Options {
        whitespace: Whitespace::Compact,
        draft: if draft == "draft7" { Draft::Seven } else { Draft::Current },
        ..Options::default()
    };
    let (base, mut paths) = (root.join("tests").join(draft), Vec::new());
    files(&base, &mut paths);
    for path in paths {
        let groups = match json::parse(&fs::read_to_string(&path).unwrap()) {
            Ok(Value::Arr(g)) => g,
            Ok(_) => panic!("{}: want an array", path.display()),
            Err(e) => panic!("{}: {}", path.display(), e),
        };
        let name = path.strip_prefix(&base).unwrap().with_extension("").display().to_string();
        let o = Options { formats: name != "format", ..o.clone() };
        for g in &groups {
            let schema = instance::as_written(g.get("schema").unwrap());
            if std::env::var("SHOW").is_ok() {
                println!("{} {}: {}", draft, name, text(g, "description"));
            }
            let compiled = compile("json_schema", &schema, &o);
            // Nothing is admitted by a grammar that has no text.
            let nothing = matches!(&compiled, Err(e) if e.reason.ends_with("nothing satisfies the grammar"));
            if std::env::var("SHOW").is_ok() {
                if let Err(e) = &compiled {
                    println!("{} {}: {}: {}", draft, name, text(g, "description"), e);
                }
            }
            let grammar = compiled.as_ref().ok().map(|c| matcher::Grammar::read(&c.ir));
            for t in list(g, "tests") {
                let valid = t.get("valid") == Some(&Value::Bool(true));
                let admitted = match &grammar {
                    Some(m) => instance::admits(m, t.get("data").unwrap()),
                    None => false,
                };
                let result = match (grammar.is_some() || nothing, admitted, valid) {
                    (false, _, _) => "refused",
                    (true, true, false) => "false accept",
                    (true, false, true) => "false reject",
                    _ => "pass",
                };
                let key = format!("{} {}: {}: {}", draft, name, text(g, "description"), text(t, "description"));
                let key = key.replace('\n', " ");
                results.insert(key, result);
            }
        }
    }
}

fn sums(results: &BTreeMap<String, &str>) -> String {
    let mut counts: BTreeMap<(String, &str), usize> = BTreeMap::new();
    for (k, v) in results {
        *counts.entry((k.split(' ').next().unwrap().into(), v)).or_default() += 1;
    }
    counts.iter().map(|((d, r), n)| format!("# {} {}: {}\n", d, r, n)).collect()
}

#[test]
fn ratchet() {
    let committed = fs::read_to_string(RESULTS).unwrap_or_default();
    let mut before: BTreeMap<String, &str> = BTreeMap::new();
    for line in committed.lines().filter(|l| !l.starts_with('#')) {
        let (result, key) = line.split_once('\t').unwrap();
        before.insert(key.into(), result);
    }
    assert!(
        committed.starts_with(&sums(&before)) || std::env::var("UPDATE").is_ok(),
        "the sums of suite.txt are not those of its cases"
    );
    let root = suite();
    let mut results = BTreeMap::new();
    for draft in ["draft7", "draft2020-12"] {
        run(&root, draft, &mut results);
    }
    let rank = |r: &str| ["pass", "refused", "false reject", "false accept"].iter().position(|x| *x == r);
    let worse: Vec<_> = results.iter().filter(|(k, r)| before.get(*k).map_or(false, |b| rank(b) < rank(r))).collect();
    let text: String = results.iter().map(|(k, r)| format!("{}\t{}\n", r, k)).collect();
    println!("{}", sums(&results));
    if std::env::var("UPDATE").is_ok() {
        fs::write(RESULTS, sums(&results) + &text).unwrap();
        return;
    }
    assert!(worse.is_empty(), "worse than before: {:#?}", worse);
    assert!(
        results.iter().map(|(k, v)| (k.as_str(), *v)).eq(before.iter().map(|(k, v)| (k.as_str(), *v))),
        "better or other cases than in suite.txt: run with UPDATE=1"
    );
}
