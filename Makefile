# demo and test need Go and make, and download Go modules; test also a Redis server, which it
# installs from Debian's packages if it may. race needs a C compiler in addition, build32
# a kernel that runs 32-bit programs.
#
# MODULES are the modules of go.work: ./... stops at a nested go.mod.

export GOWORK := $(CURDIR)/go.work
MODULES := $(shell GOWORK='$(GOWORK)' go list -m -f '{{.Dir}}')
ifneq ($(words $(MODULES)),7)
$(error the modules of go.work are "$(MODULES)": want seven)
endif
# A number of inputs: with a time, go test sometimes fails because the time is up.
FUZZTIME ?= 50000x
COUNT ?= 10
BENCHTIME ?= 100ms

each = @for m in $(MODULES); do echo "== $${m\#$(CURDIR)/}: $(1)"; (cd "$$m" && $(1)) || exit 1; done

.PHONY: help demo demo-fleet redis test race fuzz lint build32 bench bench-peers bench-redis bench-record bench-report bench-once tidy

help: ## list the targets
	@grep -E '^[a-z0-9-]+:.*##' $(MAKEFILE_LIST) | sed 's/:[^#]*## /\t/' | expand -t 14

demo: ## replay a generated access log against a limit and check the promise on it
	@cd cmd/ratelimit-replay && go run . -demo

demo-fleet: redis ## one limit for three processes of a service, on a Redis that it starts
	@cd redislimit && go run ./internal/fleetdemo

redis: ## install redis-server from Debian's packages, if there is none and it may
	@command -v redis-server >/dev/null || { apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq redis-server >/dev/null; } \
		|| echo "no redis-server, and it cannot be installed: what needs one is skipped"

# -count 1: go test would repeat a result from its cache although a file outside the
# module has changed, such as a document or testdata/vectors.txt.
test: bin redis ## the tests of all modules, also with colliding hashes, and every interleaving
	$(call each,go test -count 1 ./...)
	go test -short -tags ratelimit_collide .
	go test -tags ratelimit_explore -run 'TestInterleavings|TestFirstSpill' -v . >bin/interleavings.txt || { cat bin/interleavings.txt; exit 1; }
	@n=$$(grep -c interleavings, bin/interleavings.txt) && echo "every interleaving of $$n scenarios: ok"

race: redis ## the tests of all modules under the race detector, on 1, 2 and 8 processors
	$(call each,go test -count 1 -race -short -cpu 1$(comma)2$(comma)8 ./...)

comma := ,

fuzz: redis ## every fuzz target for FUZZTIME
	@set -e; for m in $(MODULES); do cd "$$m"; \
		packages=$$(go list ./...); \
		for p in $$packages; do \
			targets=$$(go test -list '^Fuzz' $$p); \
			for f in $$(echo "$$targets" | grep '^Fuzz' || true); do \
				echo "== $$p $$f"; go test -run '^$$' -fuzz "^$$f\$$" -fuzztime $(FUZZTIME) -fuzzminimizetime 10x $$p; \
			done; \
		done; \
	done

bin:
	@mkdir -p bin

lint: bin ## format, vet (with all tags) and staticcheck
	@unformatted=$$(gofmt -l .); [ -z "$$unformatted" ] || { echo "gofmt: $$unformatted"; exit 1; }
	$(call each,go vet ./...)
	go vet -tags ratelimit_collide .
	go vet -tags ratelimit_explore .
	cd tools && GOWORK=off go build -o ../bin/ honnef.co/go/tools/cmd/staticcheck
	$(call each,$(CURDIR)/bin/staticcheck ./...)

build32: redis ## the tests on a 32-bit build
	$(call each,GOARCH=386 CGO_ENABLED=0 go vet ./...)
	$(call each,GOARCH=386 CGO_ENABLED=0 go test -count 1 -short ./...)

# $(call rounds,FILE,TEST) writes COUNT runs of the benchmarks of bin/TEST to bin/FILE,
# one round of all after the other. GC comes last, since filling limiters for it takes
# longer than all the rest.
define rounds
	@rm -f bin/$(1)
	@cd bench && for i in $$(seq $(COUNT)); do echo "round $$i of $(COUNT)" >&2; \
		../bin/$(2) -test.run '^$$' -test.bench . -test.skip 'GC|Policy' -test.benchtime $(BENCHTIME) >>../bin/$(1) || exit 1; done
	@cd bench && ../bin/$(2) -test.run '^$$' -test.bench GC -test.benchtime 1x -test.count $(COUNT) >>../bin/$(1)
endef

bin/benchstat: tools/go.mod
	cd tools && GOWORK=off go build -o ../bin/ golang.org/x/perf/cmd/benchstat

bench: bin bin/benchstat ## the benchmarks, COUNT times, as benchstat tables
	go test -c -o bin/bench.test ./bench
	$(call rounds,bench.txt,bench.test)
	bin/benchstat -col /impl bin/bench.txt

bench-peers: bin bin/benchstat ## the same with the limiters of other modules
	cd bench/peers && go test -c -o ../../bin/peers.test .
	$(call rounds,peers.txt,peers.test)
	bin/benchstat -col /impl bin/peers.txt

bench-redis: bin bin/benchstat redis ## redislimit beside redis_rate, on a real server
	cd redislimit/bench && go test -c -o ../../bin/redis.test .
	@rm -f bin/redis.txt
	@cd redislimit/bench && for i in $$(seq $(COUNT)); do ../../bin/redis.test -test.run '^$$' -test.bench . -test.benchtime $(BENCHTIME) >>../../bin/redis.txt || exit 1; done
	bin/benchstat -col /impl bin/redis.txt

bench-record: bench-peers ## that, kept in bench/results with what it ran on
	@{ echo "go: $$(go version | cut -d' ' -f3)"; \
		echo "cores: $$(nproc)"; \
		echo "system: $$(uname -sr)"; \
		echo "date: $$(date -u +%F)"; \
		echo "commit: $$(git describe --always --dirty --exclude '*')"; \
		echo "rounds: $(COUNT)"; \
		echo "command: make bench-record COUNT=$(COUNT) BENCHTIME=$(BENCHTIME)"; \
		cat bin/peers.txt; } >bench/results/speed.txt
	@sed -n '/^require (/,/^)/s/^\t\(.*\)/\1/p' bench/peers/go.mod | grep -v -e indirect -e packedbucket -e hdrhistogram -e golang-lru >bench/results/versions.txt
	cd bench/peers && go test -count 1 -run 'TestExactness|TestOldClockReads' -v . >../../bin/exactness.txt
	grep -o '|.*' bin/exactness.txt >bench/results/exactness.txt

bench-report: ## docs/benchmarks.md and its charts, from bench/results
	cd bench/report && go run .

bench-once: redis ## every benchmark once, but for ten million keys, so that none rots
	$(call each,go test -short -run '^$$' -bench . -benchtime 1x ./...)

tidy: ## go mod tidy in every module
	@for m in $(MODULES); do (cd "$$m" && \
		go mod edit -replace github.com/packedbucket/ratelimit=$(CURDIR) \
			-replace github.com/packedbucket/ratelimit/redislimit=$(CURDIR)/redislimit; \
		GOWORK=off go mod tidy; tidied=$$?; \
		go mod edit -dropreplace github.com/packedbucket/ratelimit -dropreplace github.com/packedbucket/ratelimit/redislimit; exit $$tidied) || exit 1; done
	cd tools && GOWORK=off go mod tidy
