# Needs make and Python 3.11 or later with venv, nothing else. Works with the GNU make 3.81 that macOS has.

VENV   ?= .venv
PYTHON ?= $(shell for name in python3.11 python3.12 python3.13 python3; do command -v $$name && break; done)
MODEL  ?=
ARGS   ?=
# Tests are tiny products in many steps: one BLAS thread each. Some wait for servers, so two cores keep three busy.
WORKERS ?= 3
# Kernels against their twins, and what holds mlx-lm's and mlx-vlm's tokens against ours on whatever device there is.
CUDA_TESTS = tests/models/test_*_cuda.py tests/models/test_check.py tests/engine/test_forward.py \
	tests/integration/test_exactness.py tests/integration/test_images.py tests/integration/test_speculation.py \
	tests/integration/test_speculation_traced.py tests/integration/test_speculation_methods.py \
	tests/integration/test_lora_exactness.py tests/engine/test_draft_model.py tests/models/test_families.py \
	tests/models/test_hearing.py tests/integration/test_grammar.py tests/engine/test_masking.py \
	tests/integration/test_prefix_exactness.py

# Which MLX: `make serve EXTRA=cpu` overrides. macOS needs none, MLX's own wheel has Metal.
ifeq ($(shell uname -s),Linux)
ifndef EXTRA
EXTRA := $(shell nvidia-smi >/dev/null 2>&1 && echo cuda || echo cpu)
endif
endif

RUN := $(VENV)/.installed$(EXTRA:%=-%)
DEV := $(RUN)-dev
BIN := $(VENV)/bin

# mlx-vlm asks for miniaudio, which Paceline never imports. It has no wheel for Linux on ARM, and to build it
# takes a compiler that a bare machine lacks: there an empty package of its name stands in.
ifeq ($(shell uname -sm),Linux aarch64)
READY := $(VENV)/.miniaudio
else
READY := $(BIN)/pip
endif

.PHONY: help serve chat test test-all test-padded test-cuda soak check bench fuzz mutate clients scale web screenshots dev clean
.DEFAULT_GOAL := help

help:
	@echo "make serve      install, and serve paceline-mini on http://127.0.0.1:8000"
	@echo "                MODEL=folder-or-hugging-face-id for another, ARGS='--port 9000' for more"
	@echo "make chat       the same model in this terminal"
	@echo "make test       install, and run the tests, some of every kind: minutes (ARGS='-k settings' for a part)"
	@echo "make test-all   every test with every parameter"
	@echo "make test-cuda  CUDA kernels and exactness, on a machine with an NVIDIA GPU"
	@echo "make soak       every test, the longest of them at full length (an hour)"
	@echo "make dev        install only, with the packages for development (python -m benchmarks, docs.reference, training)"
	@echo "make check      ruff, mypy --strict, and the layers of the packages"
	@echo "make clients    real clients and agents against a tiny model (installs them from PyPI and npm)"
	@echo "make scale      replicas behind the router SMG (installs it from PyPI into an environment of its own)"
	@echo "make web        the page in a real Chromium (installs Playwright, axe-core and, if there is none, Chromium)"
	@echo "make screenshots  the pictures of the page in docs/assets, made by the same tests"
	@echo "make fuzz       a hundred thousand random conversations and answers, ten thousand random requests,"
	@echo "                every hostile one (an hour), and ten minutes of these at random"
	@echo "make mutate     which small changes to a module its tests miss: ARGS='paceline/engine/policy.py --count 20'"
	@echo "make bench      the engine against the raw loop on this machine"
	@echo "make clean      remove what these have made ($(VENV), caches)"

serve: $(RUN)
	$(BIN)/paceline serve $(MODEL) $(ARGS)

chat: $(RUN)
	$(BIN)/paceline chat $(MODEL) $(ARGS)

# Compiled modules are kept: tests start many processes.
PYTEST = PYTHONDONTWRITEBYTECODE= OPENBLAS_NUM_THREADS=1 $(BIN)/python -m pytest -n $(WORKERS) --dist worksteal

test: $(DEV)
	$(PYTEST) -m "not slow" $(ARGS)

test-all: $(DEV)
	PACELINE_TEST_ALL=1 $(PYTEST) $(ARGS)
	$(MAKE) test-padded

# What steps an engine by hand, with all shapes padded as on a GPU.
test-padded: $(DEV)
	PACELINE_TEST_BUCKETS=1 $(PYTEST) -m "not slow" $$(grep -rliE stepper tests --include='test_*.py') $(ARGS)

soak: $(DEV)
	PACELINE_TEST_LONG=1 $(PYTEST) --timeout 3600 $(ARGS)

# One process: there is one GPU. With every parameter: PACELINE_TEST_ALL=1 make test-cuda ARGS='-m ""'.
test-cuda: $(DEV)
	@$(BIN)/python -c 'import mlx.core as mx; exit(not mx.cuda.is_available())' || \
		{ echo "make test-cuda has run nothing: MLX finds no CUDA device here." >&2; exit 2; }
	$(BIN)/python -m pytest -m "not slow" $(CUDA_TESTS) $(ARGS)

check: $(DEV)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

clients: $(DEV)
	$(BIN)/python -m tests.clients.run $(ARGS)

# Its tests are in `make test-all` too, shorter, once SMG is there.
scale: $(DEV) $(VENV)/smg/bin/smg
	PACELINE_TEST_LONG=1 $(BIN)/python -m pytest -n0 tests/integration/test_scale_out.py $(ARGS)

AXE = $(VENV)/axe/package/axe.min.js
BROWSER_TESTS = PACELINE_TEST_BROWSER=1 PACELINE_AXE=$(AXE) $(BIN)/python -m pytest -n0

web: $(DEV) $(VENV)/.browser $(AXE)
	$(BROWSER_TESTS) tests/browser $(ARGS)

screenshots: $(DEV) $(VENV)/.browser
	PACELINE_SCREENSHOTS=docs/assets $(BROWSER_TESTS) tests/browser/test_screenshots.py $(ARGS)

fuzz: $(DEV)
	$(BIN)/python -m tests.conversation.fuzz 100000
	PACELINE_TEST_FUZZ=100000 $(PYTEST) tests/conversation/parsing
	OPENBLAS_NUM_THREADS=1 PACELINE_TEST_FUZZ=500 $(BIN)/python -m pytest -n 1 tests/server/http/test_openapi.py
	PACELINE_TEST_LONG=1 $(BIN)/python -m pytest -n0 tests/hostile --ignore tests/hostile/test_fuzz.py
	PACELINE_TEST_FUZZ=600 $(BIN)/python -m pytest -n0 -s tests/hostile/test_fuzz.py

mutate: $(DEV)
	OPENBLAS_NUM_THREADS=1 $(BIN)/python -m tests.mutation $(ARGS)

dev: $(DEV)

bench: $(RUN)
	$(BIN)/python -m benchmarks offline $(ARGS)

clean:
	rm -rf $(VENV) build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# A stamp for each kind of install: nothing is installed twice until pyproject.toml changes.
$(RUN): pyproject.toml | $(READY)
	$(BIN)/pip install --disable-pip-version-check -e ".$(EXTRA:%=[%])"
	@touch $@

comma := ,
$(DEV): pyproject.toml | $(READY)
	$(BIN)/pip install --disable-pip-version-check -e ".[$(EXTRA:%=%$(comma))dev]"
	@touch $@ $(RUN)

$(VENV)/.browser: pyproject.toml | $(DEV)
	$(BIN)/pip install --disable-pip-version-check -e ".[browser]"
	@for name in chromium chromium-browser google-chrome; do command -v $$name && exit; done; \
		$(BIN)/playwright install --with-deps chromium
	@touch $@

$(AXE): | $(DEV)
	mkdir -p $(VENV)/axe && cd $(VENV)/axe && npm pack --silent axe-core@4 && tar xzf axe-core-*.tgz

$(BIN)/pip:
	@test -n "$(PYTHON)" || { echo "Paceline needs Python 3.11 or later; none was found." >&2; exit 2; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "Paceline needs Python 3.11 or later, $(PYTHON) is older: make PYTHON=/path/to/python3.11" >&2; exit 2; }
	$(PYTHON) -m venv $(VENV) || { rm -rf $(VENV); exit 2; }

$(VENV)/smg/bin/smg: | $(BIN)/pip
	$(PYTHON) -m venv $(VENV)/smg
	$(VENV)/smg/bin/pip install --disable-pip-version-check 'smg==1.13.*'

$(VENV)/.miniaudio: | $(BIN)/pip
	@$(BIN)/pip install -q --only-binary=miniaudio 'miniaudio>=1.71' 2>/dev/null || { \
		mkdir -p $(VENV)/miniaudio && \
		printf '[project]\nname = "miniaudio"\nversion = "1.71+placeholder"\n[tool.setuptools]\npy-modules = []\n' \
			> $(VENV)/miniaudio/pyproject.toml && \
		$(BIN)/pip install -q --disable-pip-version-check $(VENV)/miniaudio; }
	@touch $@
