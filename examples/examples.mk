# The plugins of the examples. Included by the Makefile of the root; stands
# alone as well: make -f examples/examples.mk examples
#
#   make examples         build those whose toolchain is here and compare with the committed ones
#   make examples-update  build all and replace the committed ones
#   make examples-test    test them natively
#
# The tests in Go (go test ./examples/...) run them in the server; they build
# the plugins written in Go themselves and take the others as committed, in the
# folder of their source. The same toolchain gives the same bytes, wherever the
# tree lies: clang and wasm-ld 14.0.6 (Debian 12), Rust 1.95.0, AssemblyScript
# 0.28.20. Other versions build plugins that behave alike and differ in their bytes.

GO    ?= go
CLANG ?= clang
CARGO ?= cargo
NPM   ?= npm

EXAMPLES_OUT := $(CURDIR)/bin/examples

# Plugins by language, each named by its file without the ending.
EXAMPLES_GO   := custom-sampler/go per-request chat-template/go equal-runs custom-grammar known-phrases/go
EXAMPLES_RUST := custom-sampler/rust/top-n-sigma chat-template/rust/house-chat tool-parser/short-calls \
  known-phrases/rust/known-phrases
EXAMPLES_C    := custom-sampler/c/top-n-sigma hot-swap/marker/marker-1 hot-swap/marker/marker-2 \
  known-phrases/c/known-phrases
EXAMPLES_AS   := custom-sampler/assemblyscript/top-n-sigma always-on/no-long-numbers \
  known-phrases/assemblyscript/known-phrases

# As in sdk/guests.mk and plugins/std/std.mk, which say why.
EXAMPLES_GOFLAGS   := -buildmode=c-shared -trimpath -ldflags='-s -w -buildid=' -buildvcs=false
EXAMPLES_CFLAGS    := --target=wasm32 -std=c11 -O2 -Wall -Wextra -ffreestanding -nostdlib -fno-builtin-strlen \
  -mbulk-memory -msimd128 -msign-ext -mmutable-globals -mnontrapping-fptoint \
  -Wl,--no-entry -Wl,--strip-all -Wl,--stack-first -Wl,-z,stack-size=65536
EXAMPLES_RUSTFLAGS := --locked --offline --release --target wasm32-unknown-unknown --target-dir $(CURDIR)/bin/rust-examples \
  --config 'target.wasm32-unknown-unknown.rustflags=["--remap-path-prefix=$(EXAMPLES_TREE)=/tgi"]'
# Cargo puts the path of a package outside the workspace, here the SDK's, into
# the names of symbols, and so into the order of functions: the tree is built by
# a path that is the same everywhere.
EXAMPLES_TREE      := /tmp/tgi-examples-tree

# Languages whose toolchain is here.
EXAMPLES_HERE := go $(if $(shell command -v $(CARGO)),rust) $(if $(shell command -v $(CLANG)),c) $(if $(shell command -v $(NPM)),as)
EXAMPLES_KEPT  = $(foreach l,$(1),$(EXAMPLES_$(shell echo $(l) | tr a-z A-Z)))

.PHONY: examples examples-go examples-rust examples-c examples-as examples-update \
  examples-test examples-test-go examples-test-rust examples-test-c examples-test-as

examples: $(addprefix examples-,$(EXAMPLES_HERE)) ## build the examples' plugins and compare with the committed ones
	@echo "examples: built what is written in: $(EXAMPLES_HERE)"
	@bad=; for p in $(call EXAMPLES_KEPT,$(filter-out go,$(EXAMPLES_HERE))); do \
	  cmp examples/$$p.wasm $(EXAMPLES_OUT)/$$p.wasm || bad=1; done; \
	if [ -n "$$bad" ]; then echo "differs from what is committed: other toolchain? else make examples-update"; exit 1; fi

examples-update: examples-rust examples-c examples-as ## replace the committed plugins of the examples with fresh builds
	for p in $(call EXAMPLES_KEPT,rust c as); do cp $(EXAMPLES_OUT)/$$p.wasm examples/$$p.wasm && chmod 644 examples/$$p.wasm || exit 1; done

examples-go:
	for p in $(EXAMPLES_GO); do \
	  mkdir -p $(EXAMPLES_OUT)/$$p && GOOS=wasip1 GOARCH=wasm $(GO) build $(EXAMPLES_GOFLAGS) -o $(EXAMPLES_OUT)/$$p.wasm ./examples/$$p || exit 1; done

examples-rust:
	@ln -sfn "$(CURDIR)" $(EXAMPLES_TREE)
	for p in $(EXAMPLES_RUST); do \
	  mkdir -p $(EXAMPLES_OUT)/$$(dirname $$p) && $(CARGO) build --manifest-path $(EXAMPLES_TREE)/examples/$$(dirname $$p)/Cargo.toml $(EXAMPLES_RUSTFLAGS) \
	  && cp bin/rust-examples/wasm32-unknown-unknown/release/$$(basename $$p | tr - _).wasm $(EXAMPLES_OUT)/$$p.wasm || exit 1; done

examples-c:
	for p in $(EXAMPLES_C); do \
	  mkdir -p $(EXAMPLES_OUT)/$$(dirname $$p) \
	  && $(CLANG) $(EXAMPLES_CFLAGS) -o $(EXAMPLES_OUT)/$$p.wasm examples/$$p.c || exit 1; done

examples-as:
	[ -d sdk/assemblyscript/node_modules ] || (cd sdk/assemblyscript && $(NPM) ci --no-audit --no-fund)
	for p in $(EXAMPLES_AS); do \
	  mkdir -p $(EXAMPLES_OUT)/$$(dirname $$p) \
	  && sdk/assemblyscript/node_modules/.bin/asc examples/$$p.ts --config examples/asconfig.json --outFile $(EXAMPLES_OUT)/$$p.wasm || exit 1; done

examples-test: $(addprefix examples-test-,$(EXAMPLES_HERE)) ## test the examples' plugins natively

examples-test-go:
	$(GO) test -skip '^TestServed$$' $(addprefix ./examples/,$(EXAMPLES_GO))

examples-test-rust:
	for p in $(EXAMPLES_RUST); do \
	  (cd examples/$$(dirname $$p) && $(CARGO) test --locked --offline --target-dir $(CURDIR)/bin/rust-examples) || exit 1; done

examples-test-c:
	@mkdir -p $(EXAMPLES_OUT)
	for t in $(wildcard $(EXAMPLES_C:%=examples/%_test.c)); do \
	  $(CLANG) -std=c11 -g -Wall -Wextra -fsanitize=address,undefined -fno-sanitize-recover=undefined $$t -o $(EXAMPLES_OUT)/c-test -lm \
	  && ASAN_OPTIONS=detect_leaks=0 $(EXAMPLES_OUT)/c-test || exit 1; done

# Under node, on the committed modules.
examples-test-as:
	node --test $(foreach p,$(EXAMPLES_AS),examples/$(p).test.mjs)
