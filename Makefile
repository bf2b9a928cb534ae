# `make help` lists the targets. Each makes its own virtual environment, so a fresh machine needs Python >= 3.11
# and make, nothing else. With uv on the PATH the environment is made by uv, else by venv and pip.
#
#   ARGS="..."          goes to the program that the target runs:  make test ARGS="-k lion -x"
#   PYTHON=python3.13   chooses the interpreter (a name or a full path); it gets an environment of its own
#   WORKERS=4           parallel processes of `test`, `upstream`, `interop`, `parity` and `fuzz`

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.NOTPARALLEL:
MAKEFLAGS += --no-builtin-rules

ARGS ?=
WORKERS ?= 2
UV ?= $(shell command -v uv 2>/dev/null)

# The interpreter, and the environment that belongs to it: .venv, or .venv-python3.13 when PYTHON is given.
# TAG stays empty where the interpreter is missing, does not run or is too old.
TAG_OF = import sys; assert sys.version_info >= (3, 11); print("python%d.%d%s" % (sys.version_info[:2] + (sys.abiflags,)))

ifeq ($(strip $(PYTHON)),)
  override PYTHON := $(shell for python in python3 python3.13 python3.12 python3.11; do \
      $$python -c '$(TAG_OF)' >/dev/null 2>&1 && { echo $$python; break; }; done)
  TAG := $(PYTHON)
  VENV := .venv
  NO_PYTHON := no Python >= 3.11 found (tried python3, python3.13, python3.12, python3.11); give one: make PYTHON=/path/to/python
else
  TAG := $(shell '$(PYTHON)' -c '$(TAG_OF)' 2>/dev/null)
  VENV := .venv-$(TAG)
  NO_PYTHON := PYTHON=$(PYTHON) is no Python >= 3.11 that runs
endif

RUN := $(VENV)/bin/python

# What each target installs besides the package itself.
EXTRAS_demo  := demo
EXTRAS_test  := test,demo
EXTRAS_interop := interop,test
EXTRAS_bench := bench
EXTRAS_check := dev
EXTRAS_docs  := docs

# An environment whose Python no longer runs, or that was made for another folder, is made anew.
ifneq ($(shell $(RUN) -c 'import pip' 2>/dev/null && cat $(VENV)/made-in 2>/dev/null),$(CURDIR))
$(VENV)/made-in: FORCE
endif

ifneq ($(UV),)
  MAKE_VENV = '$(UV)' venv --quiet --seed --python "$$('$(PYTHON)' -c 'import sys; print(sys.executable)')" $(VENV)
  INSTALL = '$(UV)' pip install --quiet --python $(RUN)
else
  MAKE_VENV = '$(PYTHON)' -m venv $(VENV)
  INSTALL = $(RUN) -m pip install --quiet --quiet --disable-pip-version-check
endif

.PHONY: help demo test test-full upstream interop parity fuzz bench check format docs clean FORCE

help: ## list the targets
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1|\2/p' Makefile | while IFS='|' read -r target text; do \
	    printf '%-16s %s\n' "$$target" "$$text"; done
	@sed -n 's/^#   /  /p' Makefile

demo: $(VENV)/installed-demo ## train populations of optimizers on real data, draw pictures
	@$(RUN) docs/examples/demo.py $(ARGS)

test: $(VENV)/installed-test ## run the tests, without those marked `slow`, `full` or `interop`
	@$(RUN) -m pytest -n $(WORKERS) --dist worksteal -m 'not (slow or full or interop)' $(ARGS)

test-full: $(VENV)/installed-test ## run the tests marked `slow`, and `full`: every option in every precision
	@XLA_FLAGS=--xla_force_host_platform_device_count=8 \
	    $(RUN) -m pytest -n $(WORKERS) --dist worksteal -m '(slow or full) and not interop' $(ARGS)

upstream: $(VENV)/installed-test ## run Optax's own tests on this package (ARGS="--record": which ones Optax passes)
	@$(RUN) -m parity.upstream_suite --workers $(WORKERS) $(ARGS)

interop: $(VENV)/installed-interop ## run the tests with other libraries, all of which it installs
	@PYTREEOPT_REQUIRE_LIBRARIES=1 $(RUN) -m pytest -n $(WORKERS) --dist worksteal -m 'interop and not full' tests/interop $(ARGS)

parity: $(VENV)/installed-test ## compare every row with Optax, to the bit, over the whole matrix
	@$(RUN) -m parity --shards $(WORKERS) $(ARGS)

fuzz: $(VENV)/installed-test ## compare random optimizers with Optax, eagerly and compiled
	@$(RUN) -m parity.fuzz --shards $(WORKERS) $(ARGS)

bench: $(VENV)/installed-bench ## measure tracing, compiling and dispatch beside Optax
	@$(RUN) -m parity.bench $(ARGS)

check: $(VENV)/installed-check ## formatting, lint and types
	@$(RUN) -m ruff format --check .
	@$(RUN) -m ruff check .
	@$(RUN) -m basedpyright --pythonpath $(RUN)

format: $(VENV)/installed-check ## repair what lint can repair, then format the code
	@$(RUN) -m ruff check --fix --exit-zero .
	@$(RUN) -m ruff format .

docs: $(VENV)/installed-docs ## build the documentation; a warning is an error
	@$(RUN) -m mkdocs build --strict --config-file docs/website/mkdocs.yml $(ARGS)

clean: ## remove what was built and cached; environments (.venv*) stay
	@rm -rf build dist site out docs/out docs/examples/out .parity .pytest_cache .ruff_cache .hypothesis
	@find . -path './.venv*' -prune -o -name __pycache__ -type d -exec rm -rf {} +

$(VENV)/made-in:
	@test -n '$(TAG)' || { echo 'make: $(NO_PYTHON)' >&2; exit 1; }
	@echo 'making $(VENV) with $(PYTHON)$(if $(UV), and uv)'
	@rm -rf $(VENV)
	@$(MAKE_VENV)
	@printf '%s\n' '$(CURDIR)' > $@

$(VENV)/installed-%: $(VENV)/made-in pyproject.toml
	@echo 'installing pytreeopt[$(EXTRAS_$*)] into $(VENV) (the first time takes a minute or two)'
	@$(INSTALL) --editable '.[$(EXTRAS_$*)]'
	@touch $@
