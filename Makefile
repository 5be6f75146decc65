# Everything works from a fresh clone: the virtual environment makes itself.
#   make demo    a checklist about a real training program, in the terminal and as a page
#   make test    lint, types and the whole test suite
#   make lint    ruff and mypy alone
PYTHON ?= python3
BIN := .venv/bin
CONSTRAINTS := .ci/constraints.txt
INSTALLED := .venv/installed
# Two workers with one thread each are faster on two cores than threads that fight over them.
export OMP_NUM_THREADS ?= 1
# The suite starts hundreds of interpreters: without bytecode a fourth of their time is compiling.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: demo test lint clean

# A sound program first, then the same one with a fault. Exit code 1 says that there are findings: no failure here.
demo: $(INSTALLED)
	@echo '$$ cd examples/digits && mlcheck check'
	@cd examples/digits && ../../$(BIN)/mlcheck check --html ../../mlcheck-report-sound.html; test $$? -le 1
	@echo '$$ cd examples/broken/softmax_before_ce && mlcheck check'
	@cd examples/broken/softmax_before_ce && ../../../$(BIN)/mlcheck check --html ../../../mlcheck-report-broken.html; test $$? -le 1
	@echo
	@echo 'The same as pages: mlcheck-report-sound.html and mlcheck-report-broken.html'

test: lint
	$(BIN)/python -m pytest -n 2 --dist worksteal

lint: $(INSTALLED)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

# The build backend comes first, so that the editable install is built with the pinned one.
$(INSTALLED): pyproject.toml $(CONSTRAINTS)
	@$(PYTHON) -c 'import sys; v = sys.version_info; v >= (3, 11) or sys.exit("mlcheck needs Python 3.11 or newer, and $(PYTHON) is %d.%d: try `make PYTHON=python3.12`" % v[:2])'
	@test -x $(BIN)/python || $(PYTHON) -m venv .venv
	@echo "installing into .venv (minutes, the first time)"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint $(CONSTRAINTS) hatchling editables
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint $(CONSTRAINTS) --no-build-isolation --editable '.[dev]'
	@touch $@

clean:
	rm -rf .venv .mypy_cache .pytest_cache .ruff_cache .hypothesis build dist mlcheck-report.*
