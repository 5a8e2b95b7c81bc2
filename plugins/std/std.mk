# The built-in plugins. Included by the Makefile of the root; stands alone as
# well: make -f plugins/std/std.mk plugins
#
#   make plugins         build all and compare with those in plugins/std/wasm
#   make plugins-update  build all and replace those
#   make plugins-test    test them natively
#
# The same toolchain gives the same bytes, wherever the tree lies (hence the
# path remapping: panics name their source file). The committed ones were built
# with Rust 1.95.0 and Go 1.26.8; other versions build plugins that behave alike
# and differ in their bytes.

CARGO ?= cargo
GO    ?= go

PLUGINS_OUT   := $(CURDIR)/bin/plugins
PLUGINS_FRESH := $(PLUGINS_OUT)/wasm
PLUGIN_NAMES  := banned-strings banned-words best-of-judge budget-then-answer dry grammar json-repair loop-breaker mirostat \
  no-repeat-ngram redact thinking-budget vote watermark xtc
# Those in Go: plugins/std/NAME/guest is the command, plugins/std/NAME the library that it serves.
PLUGIN_NAMES_GO := jinja toolcalls
PLUGIN_GOFLAGS  := -buildmode=c-shared -trimpath -ldflags='-s -w -buildid=' -buildvcs=false

.PHONY: plugins plugins-build plugins-build-go plugins-test plugins-update

plugins-build-go:
	@mkdir -p $(PLUGINS_FRESH)
	for n in $(PLUGIN_NAMES_GO); do \
	  GOOS=wasip1 GOARCH=wasm $(GO) build $(PLUGIN_GOFLAGS) -o $(PLUGINS_FRESH)/$$n.wasm ./plugins/std/$$n/guest || exit 1; done

plugins-build: plugins-build-go
	@mkdir -p $(PLUGINS_FRESH)
	cd plugins/std && $(CARGO) build --locked --offline --release --target wasm32-unknown-unknown --workspace --target-dir $(PLUGINS_OUT) \
	  --config 'target.wasm32-unknown-unknown.rustflags=["--remap-path-prefix=$(CURDIR)=/tgi"]'
	for n in $(PLUGIN_NAMES); do \
	  cp $(PLUGINS_OUT)/wasm32-unknown-unknown/release/$$(echo $$n | tr - _).wasm $(PLUGINS_FRESH)/$$n.wasm || exit 1; done

plugins: plugins-build ## build the built-in plugins and compare with the committed ones
	@bad=; for n in $(PLUGIN_NAMES) $(PLUGIN_NAMES_GO); do \
	  cmp plugins/std/wasm/$$n.wasm $(PLUGINS_FRESH)/$$n.wasm || bad=1; done; \
	if [ -n "$$bad" ]; then echo "differs from what is committed: other toolchain? else make plugins-update"; exit 1; fi

plugins-update: plugins-build ## replace the committed built-in plugins with fresh builds
	@mkdir -p plugins/std/wasm
	for n in $(PLUGIN_NAMES) $(PLUGIN_NAMES_GO); do \
	  cp $(PLUGINS_FRESH)/$$n.wasm plugins/std/wasm/$$n.wasm && chmod 644 plugins/std/wasm/$$n.wasm || exit 1; done

plugins-test: ## test the built-in plugins natively
	cd plugins/std && $(CARGO) test --locked --offline --workspace --target-dir $(PLUGINS_OUT)
	$(GO) test ./plugins/std/...
