# Every target is a short cut for commands that can be typed.

FUZZTIME ?= 10s
# The kernels that psim exec computes with are an experiment of Go 1.26.
GO = GOEXPERIMENT=simd go

.PHONY: run test bench megatron mlperf laws xla xla-plugin fuzz kill random processes examples flakes faults processes-pairs full-disk golden gallery schema fit leave-out fit-check exhaustive lint report report-xla claims course-checks hw4-checks course-lines accuracy speed bench-pytorch forms peers-python peers-deepspeed peers-accelerate peers-torchtitan peers-megatron peers-traces model-check beside-pytorch engine release slurm ci

run: ## predict GPT-2 on four devices and draw the timeline
	$(GO) run ./cmd/psim run configs/gpipe.toml

test:
	$(GO) test ./...

bench: ## speed and allocations; compare two runs with benchstat
	$(GO) test -run '^$$' -bench . -benchtime 20x ./...

DRAWS ?= 2000
laws: ## the laws of a search over plans on DRAWS spaces: bounds, memory, the same best as by simulating all
	$(GO) test ./plans -run '^TestSearchPlansLaws$$' -count 1 -v -rapid.checks $(DRAWS) -timeout 2h

XLA_WHEEL = fastatomstruct-xla-cpu==2026.6.23
XLA_SUM = 88b1c430b341b4bea40a37420311c9c75db6e22b46d2ff95b6986577bee6afe9
XLA_DIR ?= $(HOME)/.local/lib/go-xla
# Compiling takes most of the time, so only some tests run by default. Those that train are in
# XLA_PACKAGES="./exec/train ./exec/measure ./exec/session ./exec/validation ./exec/data".
XLA_PACKAGES ?= ./exec/train ./exec/measure
XLA_TESTS ?= ^TestSameWeightsAsUnsplit$$/^(gpt|mlp)$$/^1f1b$$/^2_ranks|^TestRaggedLastMicrobatch$$|^TestGrownRounding$$|^TestWrongSum$$
XLA_FAST = --xla_backend_optimization_level=0 --xla_llvm_disable_expensive_passes=true
XLA_PLUGIN = $(XLA_DIR)/fastatomstruct_xla_cpu/libpjrt_cpu.so
$(XLA_PLUGIN): # by pip, without installing; the wheel is a zip
	mkdir -p $(XLA_DIR)
	cd $(XLA_DIR) && pip download --quiet --no-deps --disable-pip-version-check -d . $(XLA_WHEEL)
	cd $(XLA_DIR) && echo "$(XLA_SUM)  $$(ls fastatomstruct_xla_cpu-2026.6.23-*.whl)" | sha256sum -c -
	cd $(XLA_DIR) && python3 -m zipfile -e fastatomstruct_xla_cpu-2026.6.23-*.whl . && touch $(XLA_PLUGIN)

xla-plugin: $(XLA_PLUGIN) ## fetch a plugin with which XLA computes on cores to where psim looks: 63 MB by pip, not installed

xla: $(XLA_PLUGIN) ## train on cores by XLA, also over five processes; XLA_TESTS=. runs every test of XLA_PACKAGES, for many minutes
	PSIM_BACKEND=xla:$(XLA_PLUGIN) XLA_FLAGS="$(XLA_FAST)" \
		CGO_ENABLED=1 $(GO) test -tags xla $(XLA_PACKAGES) -run '$(XLA_TESTS)' -count 1 -timeout 2h
	XLA_FLAGS="$(XLA_FAST)" CGO_ENABLED=1 $(GO) run -tags xla ./cmd/psim exec exec-mlp --backend xla:$(XLA_PLUGIN) --gpus 5 --oversubscribe \
		--set model.layers=5 --set model.hidden=32 --set batch.global=32 --steps 1 --repeats 1 --check all --quiet --out -

fuzz: ## every fuzz target for FUZZTIME
	@grep -rl --include='*_test.go' '^func Fuzz' . | while read -r file; do \
		sed -n 's/^func \(Fuzz[A-Za-z0-9]*\).*/\1/p' "$$file" | while read -r target; do \
			echo "$$target in $$(dirname "$$file")"; \
			$(GO) test -run '^$$' -fuzz "^$$target\$$" -fuzztime $(FUZZTIME) -fuzzminimizetime 1s "$$(dirname "$$file")" || exit 1; \
		done || exit 1; \
	done

kill: ## kill writers of one folder at 300 moments
	PSIM_KILLS=300 $(GO) test ./internal/files -run '^TestKilled$$' -count 1 -v

FAULTS ?= 540
faults: ## let tasks of any rank go wrong, FAULTS times in one process and up to 108 times in several, over MPI too where mpicc and mpirun are
	PSIM_FAULTS=$(FAULTS) $(GO) test ./cmd/psim/e2e -run '^Test(Faults|FaultyProcesses)$$' -count 1 -timeout 1h -v
	PSIM_FAULTS=$(FAULTS) .ci/mpi -run '^TestFaultyProcesses$$' -count 1 -v

LOST ?= 20
processes: ## runs of several processes on this machine: the recipes, interrupts, and processes lost at LOST moments; over MPI too where mpicc and mpirun are
	PSIM_LONG=1 PSIM_LOST=$(LOST) $(GO) test ./cmd/psim/e2e -run '^(TestLost|TestGroupLost|TestInterruptedStart|TestRecipesProcesses)$$' -count 1 -v
	PSIM_LOST=$(LOST) .ci/mpi -count 1 -v

STARTS ?= 200
flakes: ## check the outputs of a pipeline STARTS times, its devices started in another order each time; takes minutes
	$(GO) run ./cmd/psim exec exec --gpus 2 --set schedule.name=gpipe --set model.layers=2 --set batch.global=8 --steps 1 --repeats 1 --check output,weights --repeat $(STARTS) --out -

examples: ## the commands of documents, help, courses and recipes on devices with cores of their own, and all sizes of collectives
	PSIM_LONG=1 $(GO) test ./cmd/psim/e2e -run '^Test(Documents|HelpExamples|CoursesTables|Recipes|ExecCollective|ReadDuringSwap)$$' -count 1 -v

processes-pairs: ## two devices in one process beside two, over sockets and MPI: nine pairs on a quiet machine; takes five minutes
	$(GO) build -o "$${TMPDIR:-/tmp}/psim-pairs" ./tools/pairs
	"$${TMPDIR:-/tmp}/psim-pairs" $(ARGS)

CONFIGS ?= 3000
SEED ?= 1390
random: ## run random configurations, CONFIGS of them valid, the first drawn with SEED; 3000 take ten minutes
	PSIM_RANDOM=$(CONFIGS) PSIM_SEED=$(SEED) $(GO) test ./cmd/psim/cli -run '^TestRandomConfigs$$' -count 1 -timeout 3h -v

full-disk: ## write onto disks that fill at any write; skipped where nothing can be mounted
	PSIM_FULL_DISK=1 $(GO) test ./cmd/psim/e2e -run '^TestFullDisk$$' -count 1 -timeout 1h -v

golden: gallery schema ## rewrite golden files, and the output and pictures in the documents; read the diff
	$(GO) test $$(git grep -lE '^\s"psim/internal/golden"' | xargs dirname | sort -u | sed 's|^|./|') -update

schema: ## describe the fields of results: docs/result.schema.json
	$(GO) run ./tools/schema

gallery: ## draw and describe every schedule: docs/schedules.md
	$(GO) run ./tools/gallery

record: ## measure the step of docs/exec.png; half a minute on a quiet machine of two cores
	$(GO) run ./cmd/psim exec --gpus 2 --check all --out tools/gallery/testdata/exec
	$(MAKE) gallery

lint:
	gofmt -l .
	$(GO) vet ./...
	$(GO) run honnef.co/go/tools/cmd/staticcheck@v0.8.2 ./...

DIST ?= dist
PLATFORMS ?= linux/amd64 linux/arm64 darwin/amd64 darwin/arm64 windows/amd64 windows/arm64
release: ## binaries that need neither Go nor this folder: DIST/psim-SYSTEM-PROCESSOR, and SHA256SUMS; ten minutes the first time
	rm -f "$(DIST)"/psim-* "$(DIST)"/SHA256SUMS
	mkdir -p "$(DIST)"
	revision=$$(git rev-parse --short=12 HEAD)$$([ -z "$$(git status --porcelain)" ] || echo -changed) && \
	for platform in $(PLATFORMS); do \
		name=psim-$$(echo $$platform | tr / -) && \
		case $$name in *windows*) name=$$name.exe ;; esac && \
		CGO_ENABLED=0 GOOS=$${platform%/*} GOARCH=$${platform#*/} $(GO) build -trimpath -buildvcs=false \
			-ldflags "-s -w -X psim/cmd/psim/cli.revision=$$revision" -o "$(DIST)/$$name" ./cmd/psim || exit 1; \
	done
	cd "$(DIST)" && $$(command -v sha256sum || echo shasum -a 256) psim-* > SHA256SUMS

slurm: ## searches on a real Slurm, which apt installs: 16 shards, three killed, a node drained, and the faults; 15 minutes, as root
	SLURM_FAULTS=1 .ci/slurm 16 3 plans/deepseek-v3 --devices 2048 --rows 400

ci:
	.ci/run

fit: ## fit to published rows again: machines, stacks, columns of data; takes ten minutes
	$(GO) run ./tools/fit

leave-out: ## fit the constants of stacks again without each source in turn, and predict its rows with them; takes two minutes
	$(GO) run ./tools/fit leave-out
	$(GO) test ./published -run TestResiduals -update

fit-check: ## hold what is fitted to published rows to its fits, computed again; takes a minute
	PSIM_FITS=1 $(GO) test ./published -run Fit -count 1

exhaustive: ## predict every plan of four small spaces one by one, and compare with psim search; takes minutes
	$(GO) run ./tools/exhaustive

ROWS ?= $(or $(TMPDIR),/tmp)/psim-executed.jsonl
report: ## predict and run experiments on this quiet machine: docs/executed.md; half an hour; once ended it goes on (rm ROWS first for all anew)
	$(if $(shell command -v mpicc),CC=mpicc) $(GO) run $(if $(shell command -v mpicc),-tags mpi) ./cmd/psim validate --executed --markdown --resume $(ROWS) > docs/executed.md.new
	mv docs/executed.md.new docs/executed.md

ROWS_XLA ?= $(or $(TMPDIR),/tmp)/psim-executed-xla.jsonl
report-xla: $(XLA_PLUGIN) ## the same with programs compiled by XLA, on cores: docs/executed-xla.md; a quarter of an hour
	CGO_ENABLED=1 $(GO) run -tags xla ./cmd/psim validate --executed --markdown --backend xla --resume $(ROWS_XLA) > docs/executed-xla.md.new
	mv docs/executed-xla.md.new docs/executed-xla.md

course-checks: ## the eight checks of CS1390, whole VGG16 on two workers (docs/course-checks.md); takes 20 minutes
	$(GO) run ./courses/checks cs1390

hw4-checks: ## the four tests of homework 4, with whole GPT-2 on two devices (docs/course-checks.md); takes two minutes
	$(GO) run ./courses/checks hw4

course-lines: ## every line of the courses' assignments: run its command, check what it makes; and the table in docs/courses.md
	$(GO) run ./courses/lines
	sed -i.old '/^| line | asks/,$$d' docs/courses.md && $(GO) run ./courses/lines -table >> docs/courses.md && rm docs/courses.md.old

BUDGET ?= 3m
RUNS ?= 3
claims: ## measure homework 4 RUNS times in BUDGET each, and count which of its claims hold on this quiet machine; ten minutes
	$(GO) build -o "$${TMPDIR:-/tmp}/psim-claims" ./cmd/psim
	rm -f "$${TMPDIR:-/tmp}"/psim-claims.txt*
	for run in $$(seq $(RUNS)); do \
		"$${TMPDIR:-/tmp}/psim-claims" reproduce hw4 --measure --budget $(BUDGET) --out - --quiet > "$${TMPDIR:-/tmp}/psim-claims.txt" || exit 1; \
		sed -n '/^shrunk/p; /^claims/,$$p' "$${TMPDIR:-/tmp}/psim-claims.txt"; \
		sed '1,/^claims/d; s/;.*//' "$${TMPDIR:-/tmp}/psim-claims.txt" >> "$${TMPDIR:-/tmp}/psim-claims.txt.all"; \
	done
	sort "$${TMPDIR:-/tmp}/psim-claims.txt.all" | uniq -c

speed: ## measure the engine, beside SimGrid where libsimgrid-dev is installed: docs/speed.md; takes five minutes; BEFORE=TREE measures the psim of an older commit's tree, too
	$(GO) build -o "$${TMPDIR:-/tmp}/psim-speed" ./tools/speed
	"$${TMPDIR:-/tmp}/psim-speed" > docs/speed.md.new
	mv docs/speed.md.new docs/speed.md

peers-python: ## PyTorch in an environment outside the tree (1.4 GB, half a minute), and the tests against it
	.ci/peers-python
	PSIM_LONG=1 $(GO) test ./schedules ./export ./exec/session -run PyTorch -count 1 -v

peers-deepspeed: ## DeepSpeed's own reader takes what psim export deepspeed writes, and understands the same (after peers-python, 30 MB)
	.ci/peers-deepspeed

peers-accelerate: ## transformers' and accelerate's own readers take what psim export accelerate writes, and understand the same (after peers-python, 100 MB)
	.ci/peers-accelerate

peers-megatron: ## megatron-core builds what psim export nemo writes, understands the same, and interleaves in the same order (after peers-python, 25 MB)
	.ci/peers-megatron

peers-torchtitan: ## torchtitan's own reader takes what psim export torchtitan writes, and understands the same (after peers-python, 1.5 GB)
	.ci/peers-torchtitan

model-check: ## parameters and FLOPs of every configuration of testdata counted again by transformers and PyTorch on the meta device (after peers-python, 60 MB), and psim's held to them; takes minutes
	.ci/model-check

peers-traces: ## the traces of HolisticTraceAnalysis (fetched with it, 300 MB) read by psim and by itself: idle, compute and exposed communication are equal
	.ci/peers-traces

MEGATRON ?= $(or $(TMPDIR),/tmp)/psim-megatron-lm
megatron: ## read the functional tests of Megatron-LM (fetched to MEGATRON, some 100 MB) and print what is refused
	[ -d $(MEGATRON) ] || git clone -q --depth 1 https://github.com/NVIDIA/Megatron-LM $(MEGATRON)
	PSIM_MEGATRON=$(MEGATRON) $(GO) test ./launch -run TestFunctional -count 1 -v

ROUND ?= 5.1
MLPERF ?= $(or $(TMPDIR),/tmp)/psim-mlperf-training-$(ROUND)
mlperf: ## read configurations and logs of language models in MLPerf Training ROUND (fetched to MLPERF, some GB), of the submitters that psim is developed with, and print what is refused
	[ -d $(MLPERF) ] || git clone -q --depth 1 https://github.com/mlcommons/training_results_v$(ROUND) $(MLPERF)
	PSIM_MLPERF_ROUND=$(ROUND) PSIM_MLPERF=$(MLPERF) $(GO) test ./launch -run TestSubmissions -count 1 -v

bench-pytorch: ## psim's kernels on the Go backend and XLA (make xla-plugin) beside PyTorch's (make peers-python) on one core: docs/pytorch.md; takes ten minutes
	$(GO) build -o "$${TMPDIR:-/tmp}/psim-pytorch" ./tools/pytorch
	"$${TMPDIR:-/tmp}/psim-pytorch" > docs/pytorch.md.new
	printf '\n' >> docs/pytorch.md.new && sed -n '/^## /,$$p' docs/pytorch.md >> docs/pytorch.md.new
	mv docs/pytorch.md.new docs/pytorch.md

forms: ## forms of the kernels on XLA beside those in use and PyTorch's, on one core: docs/pytorch.md; takes ten minutes
	$(GO) build -o "$${TMPDIR:-/tmp}/psim-pytorch" ./tools/pytorch
	"$${TMPDIR:-/tmp}/psim-pytorch" -forms > docs/pytorch.md.forms
	sed '/^## /,$$d' docs/pytorch.md | sed '$${/^$$/d;}' > docs/pytorch.md.new
	printf '\n' >> docs/pytorch.md.new && cat docs/pytorch.md.forms >> docs/pytorch.md.new
	printf '\n' >> docs/pytorch.md.new && sed -n '/^## Steps of PyTorch/,$$p' docs/pytorch.md >> docs/pytorch.md.new
	mv docs/pytorch.md.new docs/pytorch.md && rm docs/pytorch.md.forms

TORCH_ROWS ?= $(or $(TMPDIR),/tmp)/psim-torch-steps.jsonl
beside-pytorch: ## predict and measure PyTorch's step by twelve modes on this quiet machine: docs/pytorch.md; half an hour; once ended it goes on (rm TORCH_ROWS first for all anew)
	$(GO) run ./tools/torchsteps -rows $(TORCH_ROWS) > docs/pytorch.md.steps
	sed '/^## Steps of PyTorch/,$$d' docs/pytorch.md > docs/pytorch.md.new && cat docs/pytorch.md.steps >> docs/pytorch.md.new
	mv docs/pytorch.md.new docs/pytorch.md && rm docs/pytorch.md.steps

engine: ## the engine against a plain one, and brief graphs against named ones, on 60,000 random pipelines and graphs; takes two minutes
	$(GO) test ./sim -run '^(TestEngineIsPlain|TestEngineIsPlainOnAny|TestBrief)$$' -rapid.checks 20000 -count 1

accuracy: ## replay the published tables: docs/accuracy.md, its pictures, and the errors that intervals stand on
	rm -rf docs/accuracy
	$(GO) run ./cmd/psim validate --published --markdown --out docs/accuracy > docs/accuracy.md.new
	rm docs/accuracy/.psim.json
	mv docs/accuracy.md.new docs/accuracy.md
	$(GO) test ./published -run TestResiduals -update
