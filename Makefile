# The one door: everything CI does, a developer does with the same target.
SHELL := /bin/sh
GO ?= go
export GOFLAGS ?= -buildvcs=false
VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
COMMIT  ?= $(shell git rev-parse --short HEAD 2>/dev/null || echo none)
DATE    ?= $(shell git log -1 --format=%cI 2>/dev/null || echo unknown)
LDFLAGS := -s -w -X main.version=$(VERSION) -X main.commit=$(COMMIT) -X main.date=$(DATE)

.PHONY: help build serve check layers lint test test-all bench fuzz ci-deps test-all-deps

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "%-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

build: ## build bin/extenddb, stamped
	CGO_ENABLED=0 $(GO) build -trimpath -ldflags '$(LDFLAGS)' -o bin/extenddb ./cmd/extenddb

serve: build ## build and serve on 127.0.0.1:8000
	bin/extenddb serve

check: ## gofmt, vet (linux, windows, darwin), layers; linters when installed
	@test -z "$$(gofmt -l cmd server backupstore format tui test 2>&1 | tee /dev/stderr)"
	CGO_ENABLED=0 $(GO) vet ./...
	CGO_ENABLED=0 $(GO) vet -tags full ./test/... ./server/storage/postgres
	CGO_ENABLED=0 GOOS=windows $(GO) vet ./...
	CGO_ENABLED=0 GOOS=darwin $(GO) vet ./...
	CGO_ENABLED=0 $(GO) test ./test/layers
	@if command -v golangci-lint >/dev/null; then golangci-lint run; else echo 'golangci-lint: not installed, skipped'; fi
	@if command -v govulncheck >/dev/null; then govulncheck ./... || true; fi

test: ## the quick tier: every test, then -race where there is concurrency
	sh test/quick.sh

test-all: ## kill, fault, million-item and client tests, at full length
	sh test/full.sh

bench: ## speed and memory, as ratios against a reference in the same run
	sh test/bench/run.sh

fuzz: ## every fuzz target for FUZZTIME (default 20s)
	sh test/fuzz.sh

ci-deps: ## install what the quick tier can use (Debian, as root)
	sh test/deps.sh quick

test-all-deps: ## install what test-all can use (Debian, as root)
	sh test/deps.sh all
