# Everything runs on a machine with Go, git and make; nothing is installed.
# MODULES are the modules of go.work: ./... stops at a nested go.mod.

MODULES := $(shell go list -m -f '{{.Dir}}')
FUZZTIME ?= 10s
COUNT ?= 10

each = @for m in $(MODULES); do echo "== $${m\#$(CURDIR)/}: $(1)"; (cd "$$m" && $(1)) || exit 1; done

.PHONY: help demo test race fuzz lint build32 bench bench-once tidy

help: ## list the targets
	@grep -E '^[a-z0-9-]+:.*##' $(MAKEFILE_LIST) | sed 's/:[^#]*## /\t/' | expand -t 14

demo: ## replay a generated access log against a limit and check the promise on it
	@cd cmd/ratelimit-replay && go run . -demo

test: ## the tests of all modules, also with colliding hashes, and every interleaving
	$(call each,go test ./...)
	go test -short -tags ratelimit_collide .
	go test -tags ratelimit_explore -run TestInterleavings .

race: ## the tests of all modules under the race detector, on 1, 2 and 8 processors
	$(call each,go test -race -short -cpu 1$(comma)2$(comma)8 ./...)

comma := ,

fuzz: ## every fuzz target for FUZZTIME
	@for m in $(MODULES); do (cd "$$m" && for p in $$(go list ./...); do \
		for f in $$(go test -list '^Fuzz' $$p | grep '^Fuzz'); do \
			echo "== $$p $$f"; go test -run '^$$' -fuzz "^$$f\$$" -fuzztime $(FUZZTIME) $$p || exit 1; \
		done || exit 1; done) || exit 1; done

lint: ## format, vet (with all tags) and staticcheck
	@unformatted=$$(gofmt -l .); [ -z "$$unformatted" ] || { echo "gofmt: $$unformatted"; exit 1; }
	$(call each,go vet ./...)
	go vet -tags ratelimit_collide .
	go vet -tags ratelimit_explore .
	cd tools && GOWORK=off go build -o ../bin/ honnef.co/go/tools/cmd/staticcheck
	$(call each,$(CURDIR)/bin/staticcheck ./...)

build32: ## the tests on a 32-bit build
	$(call each,GOARCH=386 CGO_ENABLED=0 go vet ./...)
	$(call each,GOARCH=386 CGO_ENABLED=0 go test -short ./...)

bench: ## the benchmarks, COUNT times, as benchstat tables
	cd tools && GOWORK=off go build -o ../bin/ golang.org/x/perf/cmd/benchstat
	go test -run '^$$' -bench . -count $(COUNT) ./bench | tee bin/bench.txt
	bin/benchstat -col /impl bin/bench.txt

bench-once: ## every benchmark once, so that none rots
	$(call each,go test -run '^$$' -bench . -benchtime 1x ./...)

tidy: ## go mod tidy in every module
	@for m in $(MODULES); do (cd "$$m" && \
		root=$$(realpath --relative-to=. $(CURDIR)) && \
		if [ "$$root" != . ]; then go mod edit -replace github.com/packedbucket/ratelimit=$$root; fi && \
		GOWORK=off go mod tidy && \
		go mod edit -dropreplace github.com/packedbucket/ratelimit) || exit 1; done
	cd tools && GOWORK=off go mod tidy
