# tgi: two commands start everything, `make run` and `make test`. `make help` lists the rest.

GO      ?= go
BIN     := bin/tgi
VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo unknown)
LDFLAGS := -X main.version=$(VERSION)

STATICCHECK := honnef.co/go/tools/cmd/staticcheck@v0.8.2

# The registry that plugins are shared through in a test. It is no dependency of the program.
REGISTRY := github.com/distribution/distribution/v3/cmd/registry@v3.1.2

# The same in every command, so that Go's build cache serves all of them: a package compiled with -trimpath is another
# than one compiled without.
export GOFLAGS := $(filter-out -trimpath,$(GOFLAGS)) -trimpath

# Packages hold their own fuzz targets; each runs this long under `make fuzz`.
FUZZTIME ?= 30s

# `make` alone lists the targets.
.DEFAULT_GOAL := help

.PHONY: help run dev build test test-long test-all test-scale soak check fmt bench bench-grammar bench-peers cuda-kernels cuda-kernels-check fuzz goldens ort ort-cuda ort-cuda-host test-cuda-host clean clients generated plugins-all test-ui test-share

# What most people need, then everything else.
FIRST := run dev test check fmt

help: ## list the targets
	@echo "Begin with:"
	@for t in $(FIRST); do awk -F':.*## ' -v t=$$t '$$0 ~ "^" t ":.*## " {printf "  make %-16s %s\n", $$1, $$2}' $(MAKEFILE_LIST); done
	@echo; echo "Everything else:"
	@awk -F':.*## ' -v first=" $(FIRST) " '/^[a-z-]+:.*## / && !index(first, " " $$1 " ") {printf "  make %-16s %s\n", $$1, $$2}' $(MAKEFILE_LIST)
	@echo; echo "docs/ has the documentation, CONTRIBUTING.md the rules."

run: build ort ## build and serve the embedded demo model on port 3000
	$(BIN) serve

dev: build ort ## the same with the plugins and templates of the tree, which are reloaded when they change
	$(BIN) serve --config examples/dev/tgi.toml

build: ## build bin/tgi
	@mkdir -p bin
	$(GO) build -ldflags '$(LDFLAGS)' -o $(BIN) ./server/cmd/tgi

ort: ## fetch the ONNX Runtime library (pinned, checked) into the cache folder
	@$(GO) run ./runtime/ort/fetch/cmd

ort-cuda: ## fetch ONNX Runtime and CUDA libraries for NVIDIA GPUs, 729 MB, into the cache folder
	@$(GO) run ./runtime/ort/fetch/cmd --gpu all

ort-cuda-host: # the part of it that tests without a GPU need, 247 MB
	@$(GO) run ./runtime/ort/fetch/cmd --gpu library

test-cuda-host: ort ort-cuda-host ## test the CUDA backend without a GPU, over a CUDA runtime that computes nothing
	TGI_VERIFY=1 $(GO) test -vet=off -timeout 15m ./runtime/cuda ./runtime/ort ./runtime/kernel ./runtime/attend \
	  ./runtime/lowrank ./runtime/reduce ./conformance/cuda/... \
	  ./models/decoder
	TGI_VERIFY=1 $(GO) test -vet=off -timeout 15m ./server/host -run GPU

test: ort ## run the tests: some 25 minutes on two cores, seconds where nothing changed
	TGI_VERIFY=1 $(GO) test -vet=off -timeout 30m ./...

test-long: ort ## run the tests that do more when there is time for it, and no others
	TGI_VERIFY=1 TGI_LONG=1 $(GO) test -vet=off -timeout 60m $$($(GO) run ./conformance/long/list)

test-all: test test-long ## run the tests with all that takes long, as continuous integration does

soak: ort ## run what takes minutes: 10,000 faults, two minutes of load
	TGI_VERIFY=1 TGI_LONG=1 TGI_SOAK=1 $(GO) test -vet=off -timeout 30m -count=1 ./server/... ./plugins/... ./conformance/load

clients: ort ## install real clients and run them against the server
	TGI_CLIENTS=1 $(GO) test -timeout 30m -count=1 -v ./conformance/clients

test-ui: ort ## drive the pages of the playground in headless Chromium
	TGI_UI=1 $(GO) test -timeout 30m -count=1 ./conformance/ui

test-scale: ort ## run two replicas behind SGLang's gateway (from PyPI) and HAProxy, with a Redis between them
	TGI_SCALE=1 $(GO) test -timeout 15m -count=1 ./conformance/scale

test-share: ort ## sign, push and install a plugin by way of the registry of the distribution project
	GOBIN=$(CURDIR)/bin/tools $(GO) install $(REGISTRY)
	TGI_REGISTRY=$(CURDIR)/bin/tools/registry $(GO) test -timeout 15m -count=1 ./conformance/share

generated: ort ## hold 1,000 generated texts to their schemas, by Python's jsonschema
	TGI_CLIENTS=1 $(GO) test -timeout 15m -count=1 -v ./conformance/generated

check: ## formatting, vet, static analysis, module files, tree rules
	@out=$$(gofmt -l $$(git ls-files '*.go')); if [ -n "$$out" ]; then echo "not formatted (make fmt):"; echo "$$out"; exit 1; fi
	$(GO) vet ./...
	$(GO) run $(STATICCHECK) ./...
	$(GO) mod tidy -diff
	$(GO) mod verify
	$(GO) test ./conformance -run 'TestTree' -count=1

fmt: ## format the Go files
	gofmt -w $$(git ls-files '*.go')

bench: build ort ## measure the 135M and 0.5B shapes through the server, and grammars
	$(BIN) bench --shape smollm2-135m --weights int4
	$(BIN) bench --shape qwen2.5-0.5b --weights int4
	@$(MAKE) --no-print-directory bench-grammar

bench-peers: build ort ## measure 4-bit models beside llama.cpp, OpenVINO and vLLM, in turns (needs node, npm, python3 with numpy)
	conformance/peers/run

bench-grammar: ## measure grammars beside llguidance and xgrammar, where python3 is
	@if command -v python3 >/dev/null; then python3 conformance/grammar/bench.py; else echo "python3 is not there: skipped"; fi

KERNELS := runtime/attend/attend.cu runtime/lowrank/lowrank.cu runtime/reduce/reduce.cu

goldens: ## rebuild the reference data of models and tokenizers from Python, and compare (downloads torch)
	models/testdata/goldens $(SCRIPTS)

cuda-kernels: ## compile our own CUDA kernels to PTX (downloads NVIDIA's compiler library, 90 MB, as a package)
	python3 runtime/kernel/compile.py $(KERNELS)

cuda-kernels-check: ## compare the committed PTX with what the sources compile to
	python3 runtime/kernel/compile.py --check $(KERNELS)

fuzz: ort ## run each fuzz target for FUZZTIME (30s)
	@for pkg in $$($(GO) list ./...); do \
	  for target in $$($(GO) test -list '^Fuzz' $$pkg | grep '^Fuzz' || true); do \
	    echo "== $$pkg $$target"; $(GO) test -run '^$$' -fuzz "^$$target$$" -fuzztime $(FUZZTIME) $$pkg || exit 1; \
	  done; done

clean: ## remove what the build left in the tree
	rm -rf bin

# Plugins: the guests of the SDKs, the built-in ones, those of the examples. Their
# toolchains are only needed to rebuild them; .ci/toolchains installs them.
include sdk/guests.mk
include plugins/std/std.mk
include examples/examples.mk
include examples/deploy/deploy.mk

plugins-all: guests-check guests-test plugins plugins-test examples examples-test ## rebuild, compare and natively test every plugin of the tree
