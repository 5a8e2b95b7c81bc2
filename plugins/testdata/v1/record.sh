#!/bin/sh -e
# Takes the modules of version 0.1 from the commit that had all kinds first, and writes what the host of that commit
# answers with them: modules.zip and answers.json of this folder. It needs Go, zip and this repository with its history.
# Left out of that commit's modules are those in Go but every-mode, which has all that they call of the host: jinja and
# toolcalls (9 MB, parts of the program that loads them) and banned-and-boost (2 MB); and the guests of single tests and
# benchmarks, which nobody has as plugins.
commit=557eb16
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
(cd "$(git -C "$here" rev-parse --show-toplevel)" && git archive "$commit" >"$work/tree.tar")
mkdir "$work/tree" "$work/modules"
tar x -C "$work/tree" -f "$work/tree.tar"
for language in assemblyscript c rust; do
  for f in "$work"/tree/sdk/testdata/guests/"$language"/*.wasm; do
    cp "$f" "$work/modules/$(echo "$language" | sed 's/assemblyscript/as/')-$(basename "$f")"
  done
done
cp "$work/tree/sdk/testdata/guests/go/every-mode.wasm" "$work/modules/go-every-mode.wasm"
for name in banned-words dry grammar mirostat no-repeat-ngram thinking-budget watermark xtc; do
  cp "$work/tree/plugins/std/wasm/$name.wasm" "$work/modules/std-$name.wasm"
done
for f in always-on/no-long-numbers chat-template/rust/house-chat custom-sampler/assemblyscript/top-n-sigma \
  custom-sampler/c/top-n-sigma custom-sampler/rust/top-n-sigma hot-swap/marker/marker-1 hot-swap/marker/marker-2 \
  tool-parser/short-calls; do
  language=$(basename "$(dirname "$f")" | sed 's/assemblyscript/as/; s/always-on/as/; s/marker/c/; s/tool-parser/rust/')
  cp "$work/tree/examples/$f.wasm" "$work/modules/$language-$(basename "$f").wasm"
done
mkdir "$work/tree/record"
sed 's/^package plugins_test/package main/' "$here/../../old_walk_test.go" >"$work/tree/record/walk.go"
sed '/^\/\/go:build ignore/d' "$here/record.go" >"$work/tree/record/main.go"
(cd "$work/tree" && go run ./record "$work/modules" >"$work/answers.json")
cp "$work/answers.json" "$here/answers.json"
rm -f "$here/modules.zip"
(cd "$work/modules" && TZ=UTC find . -name '*.wasm' -exec touch -d 2026-11-21T22:00:00Z {} + && zip -q -9 -X "$here/modules.zip" *.wasm)
