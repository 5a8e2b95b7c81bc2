#!/bin/sh
# Rebuilds the committed guests. Needs clang with lld and the target wasm32 (Debian: clang lld), and rustc with
# wasm32-unknown-unknown.
set -eu
cd "$(dirname "$0")"
clang --target=wasm32 -O2 -nostdlib -mbulk-memory -msimd128 -Wl,--no-entry -Wl,--strip-debug -o walk.wasm walk.c
rustc --target wasm32-unknown-unknown --crate-type cdylib -C opt-level=2 -C panic=abort -C strip=debuginfo -o rusty.wasm rusty.rs
