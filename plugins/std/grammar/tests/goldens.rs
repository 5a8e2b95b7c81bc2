//! Random patterns and schemas against what Python's re and jsonschema say of
//! them; the scripts that asked are beside the answers in `testdata`.

mod instance;
mod matcher;

use grammar::json::{self, Value};
use grammar::{compile, Error, Options, Whitespace};

fn load(name: &str) -> Value {
    let path = format!("{}/testdata/{}", env!("CARGO_MANIFEST_DIR"), name);
    json::parse(&std::fs::read_to_string(path).unwrap()).unwrap()
}

fn list(v: Option<&Value>) -> &[Value] {
    match v {
        Some(Value::Arr(v)) => v,
        v => panic!("want an array, got {:?}", v),
    }
}

fn bits(v: &Value) -> Vec<bool> {
    v.as_str().unwrap().chars().map(|c| c == '1').collect()
}

// A grammar without a text is one that admits nothing.
fn grammar(language: &str, source: &str) -> Result<Option<matcher::Grammar>, Error> {
    let o = Options { whitespace: Whitespace::Compact, ..Options::default() };
    match compile(language, source, &o) {
        Ok(c) => Ok(Some(matcher::Grammar::read(&c.ir))),
        Err(e) if e.reason.ends_with("nothing satisfies the grammar") => Ok(None),
        Err(e) => Err(e),
    }
}

#[test]
fn patterns() {
    let all = load("patterns.json");
    let texts: Vec<&str> = list(all.get("texts")).iter().map(|t| t.as_str().unwrap()).collect();
    let mut refused = 0;
    for case in list(all.get("cases")) {
        let case = list(Some(case));
        let pattern = case[0].as_str().unwrap();
        let schema = format!("{{\"type\":\"string\",\"pattern\":{}}}", grammar::schema::quoted(pattern));
        let (search, full) = match (grammar("json_schema", &schema), grammar("regex", pattern)) {
            (Ok(s), Ok(f)) => (s, f),
            (Err(e), _) | (_, Err(e)) => {
                assert!(e.reason.contains("inside a repeat"), "{}: {}", pattern, e);
                refused += 1;
                continue;
            }
        };
        for (i, t) in texts.iter().enumerate() {
            let quoted = grammar::schema::quoted(t);
            let found = search.as_ref().map_or(false, |g| g.admits(quoted.as_bytes()));
            assert_eq!(found, bits(&case[1])[i], "search {} in {:?}", pattern, t);
            let whole = full.as_ref().map_or(false, |g| g.admits(t.as_bytes()));
            assert_eq!(whole, bits(&case[2])[i], "match {} with {:?}", pattern, t);
        }
    }
    assert!(refused <= 56, "{} patterns are refused", refused);
}

#[test]
fn schemas() {
    let all = load("schemas.json");
    let values = list(all.get("values"));
    let (mut refused, mut wrong) = (Vec::new(), Vec::new());
    for case in list(all.get("cases")) {
        let case = list(Some(case));
        let source = instance::as_written(&case[0]);
        let g = match grammar("json_schema", &source) {
            Ok(g) => g,
            Err(e) => {
                refused.push(format!("{}: {}", source, e));
                continue;
            }
        };
        for (v, &want) in values.iter().zip(&bits(&case[1])) {
            let got = g.as_ref().map_or(false, |g| instance::admits(g, v));
            if got != want {
                wrong.push(format!(
                    "{}\n  {} is {}",
                    source,
                    instance::write(v),
                    if want { "rejected" } else { "accepted" }
                ));
            }
        }
    }
    assert!(wrong.is_empty(), "{} wrong:\n{}", wrong.len(), wrong.join("\n"));
    assert!(refused.len() <= 29, "{} are refused:\n{}", refused.len(), refused.join("\n"));
}
