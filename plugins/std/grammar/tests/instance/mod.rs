//! Instances as texts that are put to a grammar.

use crate::matcher::Grammar;
use grammar::decimal::Decimal;
use grammar::json::Value;

/// Whether the grammar admits the instance in some order of its members.
pub fn admits(g: &Grammar, v: &Value) -> bool {
    orders(v).iter().any(|v| g.admits(write(v).as_bytes()))
}

/// The canonical text: no white space, numbers without exponent and needless
/// zeros, the escapes that JSON asks for.
pub fn write(v: &Value) -> String {
    match v {
        Value::Null => "null".into(),
        Value::Bool(b) => b.to_string(),
        Value::Num(n) => Decimal::parse(n).and_then(|d| d.text()).unwrap_or_else(|| n.clone()),
        Value::Str(s) => grammar::schema::quoted(s),
        Value::Arr(v) => format!("[{}]", v.iter().map(write).collect::<Vec<_>>().join(",")),
        Value::Obj(m) => format!(
            "{{{}}}",
            m.iter().map(|(k, v)| format!("{}:{}", grammar::schema::quoted(k), write(v))).collect::<Vec<_>>().join(",")
        ),
    }
}

// All orders of members, up to a number that no instance of the suite exceeds in earnest.
fn orders(v: &Value) -> Vec<Value> {
    const MOST: usize = 800;
    match v {
        Value::Arr(items) => {
            let mut out = vec![Vec::new()];
            for item in items {
                let each = orders(item);
                out = out
                    .iter()
                    .flat_map(|o: &Vec<Value>| each.iter().map(move |e| o.iter().chain([e]).cloned().collect()))
                    .take(MOST)
                    .collect();
            }
            out.into_iter().map(Value::Arr).collect()
        }
        Value::Obj(m) => {
            let mut out: Vec<Vec<(String, Value)>> = vec![Vec::new()];
            for (k, v) in m {
                let each = orders(v);
                let mut next = Vec::new();
                for o in &out {
                    for at in 0..=o.len() {
                        for e in &each {
                            let mut o = o.clone();
                            o.insert(at, (k.clone(), e.clone()));
                            next.push(o);
                        }
                    }
                }
                next.truncate(MOST);
                out = next;
            }
            out.into_iter().map(Value::Obj).collect()
        }
        v => vec![v.clone()],
    }
}

/// The text of a schema: numbers keep theirs.
#[allow(dead_code)]
pub fn as_written(v: &Value) -> String {
    match v {
        Value::Num(n) => n.clone(),
        Value::Arr(v) => format!("[{}]", v.iter().map(as_written).collect::<Vec<_>>().join(",")),
        Value::Obj(m) => format!(
            "{{{}}}",
            m.iter()
                .map(|(k, v)| format!("{}:{}", grammar::schema::quoted(k), as_written(v)))
                .collect::<Vec<_>>()
                .join(",")
        ),
        v => write(v),
    }
}
