// Writes what Rust says of byte strings that are no UTF-8:
//   rustc -O make_utf8.rs -o /tmp/make_utf8 && /tmp/make_utf8 > utf8.tsv
fn main() {
    let leads = [0x41u8, 0x7f, 0x80, 0xbf, 0xc0, 0xc1, 0xc2, 0xdf, 0xe0, 0xe1, 0xed, 0xef, 0xf0, 0xf1, 0xf4, 0xf5, 0xff];
    let seconds = [0x41u8, 0x80, 0x8f, 0x90, 0x9f, 0xa0, 0xbf, 0xc2];
    let rest = [0x41u8, 0x80, 0xc2];
    let mut all: Vec<Vec<u8>> = vec![vec![]];
    for a in leads {
        all.push(vec![a]);
        all.push(vec![0xc3, 0xa9, a]);
        for b in seconds {
            all.push(vec![a, b]);
            if a < 0xe0 { continue; }
            for c in rest {
                all.push(vec![a, b, c]);
                if a < 0xf0 { continue; }
                for d in rest {
                    all.push(vec![a, b, c, d]);
                }
            }
        }
    }
    for bytes in all {
        let hex: String = bytes.iter().map(|b| format!("{:02x}", b)).collect();
        let said = match std::str::from_utf8(&bytes) { Ok(_) => String::new(), Err(e) => e.to_string() };
        println!("{}\t{}", hex, said);
    }
}
