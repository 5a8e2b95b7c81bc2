# The example guests of the four SDKs. Included by the Makefile of the root;
# stands alone as well: make -f sdk/guests.mk guests
#
#   make guests         build all into bin/guests/<language>/<name>.wasm
#   make guests-test    test them natively
#   make guests-check   build all and compare with those in sdk/testdata/guests
#   make guests-update  build all and replace those
#
# The same toolchain gives the same bytes, wherever the tree lies. The committed
# ones were built with Go 1.26.8, clang and wasm-ld 14.0.6 (Debian 12), Rust
# 1.95.0 and AssemblyScript 0.28.20; other versions build guests that behave
# alike and differ in their bytes.

GO     ?= go
CLANG  ?= clang
CARGO  ?= cargo
NPM    ?= npm

GUESTS_OUT  := $(CURDIR)/bin/guests
GUESTS_KEPT := sdk/testdata/guests
GUEST_NAMES := banned-and-boost epsilon-greedy every-mode plain-chat call-lines picture banned-strings \
  think-then-answer
# Guests in Go are 2 MB each: some of them are built and not kept.
GUESTS_NOT_KEPT := go/epsilon-greedy go/plain-chat go/call-lines go/picture go/banned-strings \
  go/think-then-answer

GUEST_GOFLAGS := -buildmode=c-shared -trimpath -ldflags='-s -w -buildid=' -buildvcs=false
GUEST_CFLAGS  := --target=wasm32 -std=c11 -O2 -Wall -Wextra -ffreestanding -nostdlib -fno-builtin-strlen \
  -mbulk-memory -msimd128 -msign-ext -mmutable-globals -mnontrapping-fptoint -I sdk/c \
  -Wl,--no-entry -Wl,--strip-all -Wl,--stack-first -Wl,-z,stack-size=65536

.PHONY: guests guests-go guests-c guests-rust guests-as guests-test guests-test-go guests-test-c guests-test-rust guests-test-as guests-test-vectors guests-check guests-update

guests: guests-go guests-c guests-rust guests-as ## build the example guests of all SDKs

guests-go:
	@mkdir -p $(GUESTS_OUT)/go
	for n in $(GUEST_NAMES); do \
	  GOOS=wasip1 GOARCH=wasm $(GO) build $(GUEST_GOFLAGS) -o $(GUESTS_OUT)/go/$$n.wasm ./sdk/go/examples/$$(echo $$n | tr -d -) || exit 1; done

guests-c:
	@mkdir -p $(GUESTS_OUT)/c
	for n in $(GUEST_NAMES); do \
	  $(CLANG) $(GUEST_CFLAGS) -o $(GUESTS_OUT)/c/$$n.wasm sdk/c/examples/$$(echo $$n | tr - _).c || exit 1; done

guests-rust:
	@mkdir -p $(GUESTS_OUT)/rust
	cd sdk/rust && $(CARGO) build --locked --offline --release --target wasm32-unknown-unknown --workspace --target-dir $(CURDIR)/bin/rust
	for n in $(GUEST_NAMES); do \
	  cp bin/rust/wasm32-unknown-unknown/release/$$(echo $$n | tr - _).wasm $(GUESTS_OUT)/rust/$$n.wasm || exit 1; done

sdk/assemblyscript/node_modules: sdk/assemblyscript/package-lock.json
	cd sdk/assemblyscript && $(NPM) ci --no-audit --no-fund
	@touch $@

guests-as: sdk/assemblyscript/node_modules
	@mkdir -p $(GUESTS_OUT)/assemblyscript
	cd sdk/assemblyscript && for n in $(GUEST_NAMES); do \
	  node_modules/.bin/asc examples/$$n.ts --config asconfig.json --outFile $(GUESTS_OUT)/assemblyscript/$$n.wasm || exit 1; done

guests-test: guests-test-go guests-test-c guests-test-rust guests-test-as guests-test-vectors ## test the SDKs and example guests natively

guests-test-go:
	$(GO) test ./sdk/...

guests-test-c:
	@mkdir -p $(GUESTS_OUT)
	for t in sdk/c/examples/*_test.c; do \
	  $(CLANG) -std=c11 -g -Wall -Wextra -I sdk/c -fsanitize=address,undefined -fno-sanitize-recover=undefined $$t -o $(GUESTS_OUT)/c-test -lm \
	  && ASAN_OPTIONS=detect_leaks=0 $(GUESTS_OUT)/c-test || exit 1; done

guests-test-rust:
	cd sdk/rust && $(CARGO) test --locked --offline --workspace --target-dir $(CURDIR)/bin/rust

guests-test-as: guests-as
	cd sdk/assemblyscript && \
	  node_modules/.bin/asc test/edits.ts --config asconfig.json --outFile $(GUESTS_OUT)/assemblyscript/edits.wasm && \
	  TGI_GUESTS=$(GUESTS_OUT)/assemblyscript node --test test/

# The modules of the other languages give what their native tests give.
guests-test-vectors: guests-c guests-rust
	for l in c rust; do (cd sdk/assemblyscript && TGI_GUESTS=$(GUESTS_OUT)/$$l node --test test/vectors.test.mjs) || exit 1; done

guests-check: guests ## compare the committed guests with fresh builds
	@for f in $$(cd $(GUESTS_KEPT) && find . -name '*.wasm' | sort); do \
	  cmp $(GUESTS_KEPT)/$$f $(GUESTS_OUT)/$$f || bad=1; done; \
	if [ -n "$$bad" ]; then echo "differs from what is committed: other toolchain? else make guests-update"; exit 1; fi

guests-update: guests ## replace the committed guests with fresh builds
	@for l in go c rust assemblyscript; do mkdir -p $(GUESTS_KEPT)/$$l; for n in $(GUEST_NAMES); do \
	  [ -f $(GUESTS_OUT)/$$l/$$n.wasm ] || continue; \
	  case " $(GUESTS_NOT_KEPT) " in *" $$l/$$n "*) ;; *) cp $(GUESTS_OUT)/$$l/$$n.wasm $(GUESTS_KEPT)/$$l/$$n.wasm && chmod 644 $(GUESTS_KEPT)/$$l/$$n.wasm;; esac; done; done
