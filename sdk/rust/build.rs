//! Compilers before Rust 1.68 want an error handler of unstable form wherever
//! alloc is used without std. For them the guest links std, of which it then
//! uses the panic handler alone.

use std::process::Command;

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    let rustc = std::env::var("RUSTC").unwrap_or_else(|_| "rustc".into());
    let version = Command::new(rustc).arg("--version").output().map(|o| String::from_utf8_lossy(&o.stdout).into_owned());
    // "rustc 1.63.0 (4b91a6ea7 2022-08-08)"
    let minor = version.ok().and_then(|v| v.split('.').nth(1)?.parse::<u32>().ok());
    match minor {
        Some(m) if m < 68 => println!("cargo:rustc-cfg=tgi_std"),
        Some(m) if m < 80 => {}
        _ => println!("cargo:rustc-check-cfg=cfg(tgi_std)"),
    }
}
