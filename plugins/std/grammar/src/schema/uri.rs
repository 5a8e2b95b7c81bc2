//! References between schemas: resolving one URI against another (RFC 3986, 5.2).

/// A URI split into its components.
struct Parts<'a> {
    scheme: Option<&'a str>,
    authority: Option<&'a str>,
    path: &'a str,
    query: Option<&'a str>,
}

/// Cuts off the fragment, without `#`.
pub fn split(uri: &str) -> (&str, Option<&str>) {
    match uri.find('#') {
        Some(i) => (&uri[..i], Some(&uri[i + 1..])),
        None => (uri, None),
    }
}

fn parts(uri: &str) -> Parts<'_> {
    let (rest, query) = match uri.find('?') {
        Some(i) => (&uri[..i], Some(&uri[i + 1..])),
        None => (uri, None),
    };
    let colon = rest.find(':').filter(|&i| {
        let s = &rest[..i];
        s.starts_with(|c: char| c.is_ascii_alphabetic())
            && s.bytes().all(|b| b.is_ascii_alphanumeric() || b"+-.".contains(&b))
    });
    let (scheme, rest) = match colon {
        Some(i) => (Some(&rest[..i]), &rest[i + 1..]),
        None => (None, rest),
    };
    let (authority, path) = match rest.strip_prefix("//") {
        Some(r) => {
            let end = r.find('/').unwrap_or(r.len());
            (Some(&r[..end]), &r[end..])
        }
        None => (None, rest),
    };
    Parts { scheme, authority, path, query }
}

/// Resolves `reference`, whose fragment is cut off, against `base`.
pub fn resolve(base: &str, reference: &str) -> String {
    let (b, r) = (parts(base), parts(reference));
    let absolute = r.scheme.is_some();
    let scheme = if absolute { r.scheme } else { b.scheme };
    let (authority, path, query) = if absolute || r.authority.is_some() {
        (r.authority, dots(r.path), r.query)
    } else if r.path.is_empty() {
        (b.authority, b.path.into(), r.query.or(b.query))
    } else if r.path.starts_with('/') {
        (b.authority, dots(r.path), r.query)
    } else {
        let merged = match b.path.rfind('/') {
            Some(i) => format!("{}/{}", &b.path[..i], r.path),
            None if b.authority.is_some() => format!("/{}", r.path),
            None => r.path.into(),
        };
        (b.authority, dots(&merged), r.query)
    };
    let mut out = String::new();
    if let Some(s) = scheme {
        out += &format!("{}:", s);
    }
    if let Some(a) = authority {
        out += &format!("//{}", a);
    }
    out += &path;
    if let Some(q) = query {
        out += &format!("?{}", q);
    }
    out
}

// Removes the segments "." and "..".
fn dots(path: &str) -> String {
    let mut out: Vec<&str> = Vec::new();
    let segments: Vec<&str> = path.split('/').collect();
    for (i, s) in segments.iter().enumerate() {
        let last = i + 1 == segments.len();
        match *s {
            "." | ".." => {
                if *s == ".." && out.len() > 1 {
                    out.pop();
                }
                if last {
                    out.push("");
                }
            }
            s => out.push(s),
        }
    }
    out.join("/")
}

/// Resolves `%xx` in a fragment. None where the result is no UTF-8.
pub fn unescape(fragment: &str) -> Option<String> {
    let (bytes, mut out, mut i) = (fragment.as_bytes(), Vec::new(), 0);
    while i < bytes.len() {
        let hex = if bytes[i] == b'%' {
            fragment.get(i + 1..i + 3).and_then(|h| u8::from_str_radix(h, 16).ok())
        } else {
            None
        };
        out.push(hex.unwrap_or(bytes[i]));
        i += if hex.is_some() { 3 } else { 1 };
    }
    String::from_utf8(out).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rfc_3986_examples() {
        let base = "http://a/b/c/d;p?q";
        for (reference, want) in [
            ("g:h", "g:h"),
            ("g", "http://a/b/c/g"),
            ("./g", "http://a/b/c/g"),
            ("g/", "http://a/b/c/g/"),
            ("/g", "http://a/g"),
            ("//g", "http://g"),
            ("?y", "http://a/b/c/d;p?y"),
            ("g?y", "http://a/b/c/g?y"),
            ("", "http://a/b/c/d;p?q"),
            (".", "http://a/b/c/"),
            ("..", "http://a/b/"),
            ("../g", "http://a/b/g"),
            ("../../g", "http://a/g"),
            ("../../../g", "http://a/g"),
        ] {
            assert_eq!(resolve(base, reference), want, "{}", reference);
        }
        assert_eq!(resolve("", "item.json"), "item.json");
        assert_eq!(resolve("urn:x:y", "urn:a:b"), "urn:a:b");
        assert_eq!(unescape("a%25b%22").unwrap(), "a%b\"");
    }
}
