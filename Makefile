# make demo   install and compare a few schedulers on a small cluster; writes report.html
# make test   the tests             make lint   ruff, mypy --strict, import-linter
# make together  tests on real engines (Slurm, SimGrid, a browser); make bounds  the kernels' with every index checked
# make alone  tests of measured times and real sockets, for an idle machine (root); make long  those that take longest
# make stutter  the tests, on a machine that stands still a fifth of the time
# make bench  the benchmarks        make mutants   does the suite notice a broken engine, pace or place?
# make slurm RELEASE=trixie  the Slurm tests on that Debian's Slurm, in a chroot (root; trixie: 24.11, sid: 26.05)
# make newest  the tests, with the newest versions that pip finds; make constraints  takes them
# make torch  add PyTorch, for the profiler's tests
# make docs   regenerate the command reference and the examples' expected output; make site  the site, in build/site

PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
JOBS   ?= 3
TORCH  ?= 2.13.0
ARGS   ?=
# The versions that pip may install, also those that it builds packages with. Names without a folder: pip splits at spaces.
CONSTRAINTS := constraints.txt
PIP     = PIP_CONSTRAINT=$(CONSTRAINTS) PIP_BUILD_CONSTRAINT=$(CONSTRAINTS) $(BIN)/python -m pip install --quiet --disable-pip-version-check

.DEFAULT_GOAL := help
.PHONY: help demo test newest constraints together slurm alone long stutter bounds lint format bench mutants docs site install dev torch clean

help:
	@sed -n 's/^# //p' Makefile | head -10

# Installation is skipped until pyproject.toml or the constraints change: the stamps remember when it was done.
$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null \
	  || { echo "weft needs Python 3.11 or newer; '$(PYTHON)' is not: make PYTHON=/path/to/python3.11 $(MAKECMDGOALS)" >&2; exit 1; }
	@$(PYTHON) -c 'import venv, ensurepip' 2>/dev/null \
	  || { echo "python3-venv is missing: install it (Debian, Ubuntu: apt-get install python3-venv) and run make again" >&2; exit 1; }
	@echo "creating $(VENV)"
	@$(PYTHON) -m venv $(VENV)

$(VENV)/.run-stamp: pyproject.toml $(CONSTRAINTS) | $(BIN)/python
	@echo "installing weft into $(VENV)"
	@$(PIP) -e .
	@touch $@

$(VENV)/.all-stamp: pyproject.toml live/pyproject.toml evidence/pyproject.toml $(CONSTRAINTS) | $(BIN)/python
	@echo "installing weft, weft-live and weft-evidence into $(VENV)"
	@$(PIP) -e . -e './live[agent,testbed]' -e ./evidence
	@touch $@ $(VENV)/.run-stamp

$(VENV)/.dev-stamp: pyproject.toml live/pyproject.toml evidence/pyproject.toml $(CONSTRAINTS) | $(BIN)/python
	@echo "installing weft and its development tools into $(VENV)"
	@$(PIP) -e '.[dev]' -e './live[agent,testbed]' -e ./evidence
	@touch $@ $(VENV)/.run-stamp $(VENV)/.all-stamp

# The profiler's tests run on PyTorch and skip without it. A build without CUDA is 150 MB instead of 2 GB: from where
# pip looks already, or from PyTorch's own index; any build where neither has one.
$(VENV)/.torch-stamp: | $(VENV)/.dev-stamp
	@echo "installing PyTorch into $(VENV)"
	@$(BIN)/python -c 'import torch' 2>/dev/null \
	  || $(PIP) 'torch==$(TORCH)+cpu' 2>/dev/null \
	  || $(PIP) 'torch==$(TORCH)+cpu' \
	       --index-url https://download.pytorch.org/whl/cpu --retries 1 --timeout 30 2>/dev/null \
	  || $(PIP) 'torch==$(TORCH)'
	@touch $@

install: $(VENV)/.all-stamp
dev: $(VENV)/.dev-stamp
torch: $(VENV)/.torch-stamp

demo: $(VENV)/.run-stamp
	@$(BIN)/weft compare examples/demo.toml --report report.html $(ARGS)

# Python keeps what it has compiled, also where it is told not to: every worker process, and every one that tests start,
# would do it again.
test together alone long stutter bounds: export PYTHONDONTWRITEBYTECODE :=

# What needs nothing but Python and its packages, and no clock decides. As many processes as there are processors compute
# from the beginning, the others begin with the tests on a live cluster, which mostly wait (pytest ends with 5 if ARGS
# names no test of that kind).
DEFAULT = $(BIN)/pytest -n $(JOBS) --dist worksteal -m "not engine and not alone and not long" $(ARGS)

test: dev
	$(DEFAULT) || [ $$? -eq 5 ]

# The tests without constraints, in an environment of its own that is made anew; what passes there can be taken over.
NEWEST := .venv-newest
newest:
	rm -rf $(NEWEST)
	$(MAKE) VENV=$(NEWEST) CONSTRAINTS= test

constraints:
	@[ -e $(NEWEST)/.dev-stamp ] || { echo "there is no $(NEWEST): run make newest, and see that it passes" >&2; exit 1; }
	$(NEWEST)/bin/python -m pip install --quiet --disable-pip-version-check -e '.[bench]' hatchling editables
	$(NEWEST)/bin/python -m tools.constraints

stutter: dev
	$(BIN)/python -m tools.stutter $(DEFAULT)

# Tests on real engines mostly wait for them, so they run together.
together: dev
	$(BIN)/pytest -n 4 --dist worksteal -m "engine and not alone and not long" $(ARGS) || [ $$? -eq 5 ]

# Tests that hold measured times against computed ones, as all on real sockets do: one after another, with nothing beside
# them, and again where the machine stood still meanwhile (testkit/clocks.py). What they find depends on the machine too, so
# CI does not run them.
alone: dev
	$(BIN)/pytest -m "alone and not long" $(ARGS) || [ $$? -eq 5 ]

slurm:
	.ci/slurm $(or $(RELEASE),trixie) $(ARGS)

long: dev
	$(BIN)/pytest -m long $(ARGS) || [ $$? -eq 5 ]

# Tests of what is compiled, with every index checked: without that a wrong one reads or writes whatever lies there. They
# run with the oldest numba that pyproject.toml allows and that a Python has (make test has that of the constraints), in an
# environment of its own, whose other packages are those of the constraints as far as that numba gets on with them.
KERNELS := tests/sim/engine tests/sim/compiled tests/policies/pace tests/policies/interleave live/tests/flow --ignore=tests/policies/pace/test_combinations.py
OLDEST  := .venv-oldest
$(OLDEST)/.stamp: pyproject.toml live/pyproject.toml $(CONSTRAINTS) | $(BIN)/python
	@echo "installing weft with the oldest numba into $(OLDEST)"
	@$(PYTHON) -m venv $(OLDEST)
	@grep -vE '^(numba|llvmlite|numpy)==' $(CONSTRAINTS) > $(OLDEST)/constraints.txt
	@PIP_CONSTRAINT=$(OLDEST)/constraints.txt PIP_BUILD_CONSTRAINT=$(OLDEST)/constraints.txt \
	  $(OLDEST)/bin/python -m pip install --quiet --disable-pip-version-check -e . -e ./live \
	  'numba==0.61.0; python_version < "3.14"' 'numba==0.63.0; python_version >= "3.14"' pytest pytest-xdist hypothesis
	@touch $@

bounds: $(OLDEST)/.stamp
	NUMBA_BOUNDSCHECK=1 $(OLDEST)/bin/pytest -n $(JOBS) --dist worksteal $(KERNELS) $(ARGS)
	$(if $(ARGS),,$(OLDEST)/bin/python -m tools.kernels > .ci/kernels.passed)

lint: dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: dev
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

# asv keeps the figures of each commit under .asv: asv publish and asv preview draw them, asv compare sets two side by side.
$(VENV)/.bench-stamp: $(VENV)/.dev-stamp
	@$(PIP) -e '.[bench]'
	@touch $@

bench: $(VENV)/.bench-stamp
	@$(BIN)/asv machine --yes >/dev/null
	ASV_PYTHONPATH="$(CURDIR)" $(BIN)/asv run --python=same --set-commit-hash="$$(git rev-parse HEAD)" $(ARGS)

mutants: dev
	$(BIN)/python -m tools.mutants $(ARGS)

docs: dev
	$(BIN)/python -m tools.reference
	$(BIN)/python -m tools.examples
	$(BIN)/python -m tools.pictures

$(VENV)/.site-stamp: $(VENV)/.dev-stamp
	@$(PIP) -e '.[site]'
	@touch $@

site: $(VENV)/.site-stamp
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet --strict

clean:
	rm -rf $(VENV) $(OLDEST) $(NEWEST) .asv .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache .weft_cache build dist out report.html
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
