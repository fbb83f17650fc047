# What a change must pass before it lands: `make check`.
GO ?= go
export CGO_ENABLED = 0

ENTRY = $(if $(filter linux/amd64,$(shell $(GO) env GOOS)/$(shell $(GO) env GOARCH)),-E main.entry)

# The version is that of the tag, where there is one; see cmd/ridge/version.go.
TAG := $(shell git describe --tags --match 'v*' --dirty 2>/dev/null)
VERSION = $(if $(TAG),-X main.version=$(TAG))

.PHONY: build static packages release ptx sdk check quick fmt types lint generated test race fuzz draws simulate soak neighbours adapters hybrids layouts ops rankfaults arm64 systems manifests

# Where limits of memory are tiny, -E has the program say so in place of the Go runtime's stack trace (cmd/ridge/entry_linux_amd64.s).
build:
	$(GO) build -ldflags '$(ENTRY) $(VERSION)' -o ridge ./cmd/ridge

# Without CUDA the program is static: it runs in an empty container (FROM scratch).
static:
	$(GO) build -tags nocuda -trimpath -ldflags '-s -w $(VERSION)' -o ridge-static ./cmd/ridge

# The deb and rpm of this machine's architecture, in .out (needs nfpm: go install github.com/goreleaser/nfpm/v2/cmd/nfpm@v2.41.3).
NFPM ?= nfpm
packages: build
	mkdir -p .out/completions
	./ridge completion bash > .out/completions/ridge.bash
	./ridge completion zsh > .out/completions/_ridge
	./ridge completion fish > .out/completions/ridge.fish
	rm -rf .out/man && ./ridge man .out/man && gzip -9n .out/man/*.1
	for kind in deb rpm; do VERSION=$$(./ridge version | cut -d' ' -f2) GOARCH=$$($(GO) env GOARCH) $(NFPM) package --config packaging/nfpm.yaml --packager $$kind --target .out/ || exit 1; done

# What a release has, in .out/release: archives of the program for Linux, macOS and Windows, an image for containers (made without a daemon; podman load takes it), SHA256SUMS. With
# nfpm the deb and rpm are made by make packages.
release:
	$(GO) run ./packaging/release -o .out/release -version "$(TAG:v%=%)"

check: fmt types lint generated test

# The loop for every day: everything is built, and the packages with changes that are not committed (or else those of the last
# commit), and those of the folder above, are vetted and tested, with the short tests; imports and sizes of files are checked.
# With a warm cache it takes seconds to a minute, by what was changed.
quick: fmt
	$(GO) build ./...
	@changed="$$(git diff --name-only HEAD -- '*.go'; git ls-files -o --exclude-standard '*.go')"; \
	test -n "$$changed" || changed="$$(git diff --name-only HEAD~1 -- '*.go')"; \
	folders="$$(for f in $$changed; do d=$$(dirname $$f); echo $$d; dirname $$d; done | sort -u)"; \
	packages="$$(for d in $$folders; do ls $$d/*.go >/dev/null 2>&1 && $(GO) list ./$$d 2>/dev/null; done)"; \
	echo quick: $$packages; \
	test -z "$$packages" || { $(GO) vet $$packages && $(GO) test -short $$packages; }
	$(GO) test -short -run 'TestImports|TestFileSizes' .

fmt:
	@bad=$$(gofmt -l $$(git ls-files -co --exclude-standard '*.go')); test -z "$$bad" || { echo "run gofmt -w on:"; echo "$$bad"; exit 1; }

# What go vet and staticcheck find, in one program, so that all is read and type-checked once; their versions are pinned in tools/go.mod. For arm64, what has
# assembly of its own: vet compares it with its declarations, and its tests are linked. Other differences of systems are types' matter.
ARM64 = $(addprefix ./,$(sort $(patsubst %/,%,$(dir $(shell git ls-files -co --exclude-standard '*_arm64.s')))))
lint: .bin/lint
	.bin/lint ./...
	GOARCH=arm64 $(GO) vet $(ARM64)
	@d=$$(mktemp -d) && trap "rm -r $$d" EXIT && GOARCH=arm64 $(GO) test -vet=off -c -o $$d/ $(ARM64)

.bin/lint: tools/go.mod tools/lint/main.go
	$(GO) build -C tools -o ../.bin/lint ./lint

# All packages and tests, as the type checker reads them for the systems that a release is built for. Compiling and linking the program for each takes ten times
# as long: see systems.
types:
	$(GO) run -C tools ./systems linux/arm64 darwin/arm64 windows/amd64

# Files made by programs (assembly, PTX, the built-in model) must be what their programs make now.
generated:
	$(GO) mod verify >/dev/null
	$(GO) mod tidy -diff

# The kernels' PTX, made anew of what has changed (needs clang-22 and zstd). Once before work is published, not with every change of a kernel:
# the archive is a few megabytes of git's history each time. TestStale says which kernels are older than their source; with CI=true that is an error.
# Tests compile one module of eight again; RIDGE_PTX=all go test ./backend/cuda/ptx all of them.
ptx:
	cd backend/cuda/ptx && $(GO) run ./build

# go test's own vet is left out here and below, since lint looks at the same files with more analyzers.
test:
	$(GO) test -vet=off ./...

# The files under deploy against the schemas of Kubernetes' API, which its module has (a download of 40 MB at the first time); LeaderWorkerSet's is not checked here.
manifests:
	@d=$$(mktemp -d) && trap "rm -r $$d" EXIT && \
	$(GO) mod download k8s.io/kubernetes@v1.34.1 && \
	$(GO) run ./deploy/schemas $$($(GO) env GOMODCACHE)/k8s.io/kubernetes@v1.34.1/api/openapi-spec/swagger.json $$d && \
	kubectl kustomize deploy/kustomize | $(GO) run github.com/yannh/kubeconform/cmd/kubeconform@v0.8.0 -summary -schema-location "$$d/{{.ResourceKind}}-{{.ResourceAPIVersion}}.json"

# The race detector over what goroutines share: the library, the engine, the server, the router, ranks. What computes on one goroutine (engine/sample, engine/kv,
# engine/sched, the readers of grammars, the router's policies, the forms of answers) is left out, and so are most draws of the test that compares distributions
# and the tests of NORACE: they load models one after another, or compare answers of one request at a time. It needs cgo, and so a C compiler, for these tests alone.
NORACE = AutoCPUExperts|TooManyExperts|AutoGPULayers|GPULayers|CPUExperts|EarlyExit|Int4Cache|MTPAnswers|EagleAnswers|Medusa|Sparse
race:
	CGO_ENABLED=1 RIDGE_DRAWS=2000 $(GO) test -vet=off -race -short -skip '^Test($(NORACE))$$' . ./engine ./engine/grammar/automaton ./server ./server/access ./server/api \
		./server/batch ./server/openai ./server/serving ./server/store ./route ./route/kvevents ./route/upstream ./route/zmtp ./comm/local ./comm/shm ./comm/tcp ./comm/world ./compile/ranks

# Every fuzz test for FUZZTIME (20s unless given), one after another. What one finds that fails is kept in its testdata/fuzz by go test itself; of the
# inputs that reach new code, which are in GOCACHE, some are to be kept there too. A minimum of minimising: with large inputs the fuzzer does little else.
fuzz:
	@grep -rl --include='*_test.go' '^func Fuzz' . | while read -r f; do sed -n 's/^func \(Fuzz[A-Za-z]*\)(.*/\1/p' "$$f" | while read -r name; do \
		echo "$$(dirname "$$f") $$name" && $(GO) test "$$(dirname "$$f")" -run '^$$' -fuzz "^$$name\$$" -fuzztime $(or $(FUZZTIME),20s) -fuzzminimizetime 10x -parallel 1 </dev/null || exit 1; done || exit 1; done

# That answers with drafts are distributed as without, by 10^6 draws per drafter; go test takes 8,000.
draws:
	RIDGE_DRAWS=1000000 $(GO) test ./engine -run KeepDistribution -v -timeout 1h

# The simulations under faults, of the engine and then of the whole, each for HOURS (1h unless given), from other seeds than CI's; see docs/faults.md.
simulate:
	$(GO) test ./engine -run Simulation -v -simulate-for $(or $(HOURS),1h) -first-seed $$(date +%s) -timeout 0
	$(GO) test . -run '^TestSimulation$$' -v -simulate-for $(or $(HOURS),1h) -first-seed $$(date +%s) -timeout 0

# A server kept saturated by 48 clients for HOURS (1h unless given): whether its answers are right and its memory stays flat; see bench/soak.
soak: build
	$(GO) run ./bench/soak -ridge ./ridge -for $(or $(HOURS),1h)

# The time between the tokens of streams beside each kind of hostile request, over that beside plain ones; a few minutes, for a quiet machine.
neighbours: build
	$(GO) run ./bench/soak -ridge ./ridge -neighbours -for 2s

# 10,000 random interleavings of requests with adapters, each answer compared with what its request gets alone.
adapters:
	RIDGE_INTERLEAVINGS=2500 $(GO) test ./engine -run TestAdaptersMixed -v -timeout 0

# The same of requests to hybrids, whose states are swapped and found in the cache, with memory for few.
hybrids:
	RIDGE_INTERLEAVINGS=2500 $(GO) test ./engine -run TestRecurrentMixed -v -timeout 0

# Two ranks and the link between them fail at random times, FAULTS of them (50 unless given), from seed SEED (1) on.
rankfaults:
	CGO_ENABLED=0 $(GO) test ./cmd/ridge -run '^TestRankFaults$$' -rankfaults $(or $(FAULTS),50) -rankfaultseed $(or $(SEED),1) -v -timeout 60m

# Every reference architecture in every layout of {tp 1, 2, 4} × {pp 1, 2, 4} × {ep 1, 2, 4} that divides it against upstream's results, and why others do not, and
# in every layout in which rows go to experts; some minutes. go test takes some layouts of each.
layouts:
	$(GO) test ./internal/check -run '^Test(Layouts|Experts)$$' -layouts -v -timeout 0

# The CPU's table of ops as a whole, every case under every tier of instructions and with every type of cache, and whether GPUs have kernels for every model with
# each; two minutes. go test takes what differs, by turns.
ops:
	$(GO) test ./backend/cpu ./backend/cuda -run '^(TestOps|TestEveryModelHasKernels)$$' -ops -timeout 1h

# What the clients that OpenAI, Anthropic and Ollama publish make of the server. They are large, so this is a module of its
# own and no part of check: compiled for the first time they take two minutes.
sdk:
	$(GO) vet -C sdktest ./...
	$(GO) test -C sdktest -vet=off ./...

# The kernels of arm64, on a processor with all of them and on one with the baseline alone. Emulation takes some minutes, so
# this is no part of check. What is plain Go is left out (-skip), and most of the table of ops (-short): the kernels' own
# tests stay whole.
arm64:
	GOARCH=arm64 $(GO) test -vet=off -exec 'qemu-aarch64 -cpu max' -short -skip /generic -timeout 30m ./backend/cpu/...
	GOARCH=arm64 $(GO) test -vet=off -exec 'qemu-aarch64 -cpu cortex-a72' -short -skip /generic -timeout 30m ./backend/cpu/vec ./backend/cpu/attn ./backend/cpu/gemm

# The program for the systems that a release is built for, which a release is to do: CI has types alone.
systems:
	@for s in linux/arm64 darwin/arm64 windows/amd64; do echo "systems: $$s"; GOOS=$${s%/*} GOARCH=$${s#*/} $(GO) build -o /dev/null ./cmd/ridge || exit 1; done
