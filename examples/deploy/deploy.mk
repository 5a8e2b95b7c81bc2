# What is passed on and deployed. Included by the Makefile of the root.

ARCH  ?= $(shell $(GO) env GOARCH)
STAGE ?= $(CURDIR)/bin/stage/linux-$(ARCH)

# The C compiler for the processor: its own, or Debian's cross compiler (gcc-aarch64-linux-gnu, gcc-x86-64-linux-gnu).
HOST_ARCH    := $(shell $(GO) env GOHOSTARCH)
CROSS_arm64  := aarch64-linux-gnu-gcc
CROSS_amd64  := x86_64-linux-gnu-gcc
STAGE_CC      = $(if $(filter $(HOST_ARCH),$(ARCH)),gcc,$(CROSS_$(ARCH)))

.PHONY: stage test-deploy

# Without paths, build ids and times, so that the same source gives the same bytes. The library lies beside the program,
# which looks for it there.
stage: # the program, ONNX Runtime's library and the licences in one folder, for ARCH
	@mkdir -p $(STAGE)
	CGO_ENABLED=1 GOOS=linux GOARCH=$(ARCH) CC=$(STAGE_CC) $(GO) build -buildvcs=false \
	  -ldflags '-s -w -buildid= $(LDFLAGS) -extldflags=-Wl,--build-id=none' -o $(STAGE)/tgi ./server/cmd/tgi
	@$(GO) run ./runtime/ort/fetch/cmd --platform linux-$(ARCH) --into $(STAGE)
	@cp LICENSE $(STAGE)/LICENSE

test-deploy: ## hold examples/deploy to its own tools
	promtool check rules examples/deploy/prometheus/alerts.yml
	promtool test rules examples/deploy/prometheus/alerts_test.yml
