# Both main commands set up all they need in .venv; nothing but Python and make must be there.
PYTHON ?= python3
BIN := .venv/bin

.PHONY: demo test test-slow test-all lint bench clean

demo: .venv/installed
	$(BIN)/lessbits demo --out out/demo

# Workers take whole files, the longest first; what they compile is shared and kept.
PYTEST := $(BIN)/python -m pytest --numprocesses 2 --dist loadfile --no-loadscope-reorder

test: .venv/installed-dev
	$(PYTEST) -m 'not slow'

test-slow: .venv/installed-dev
	$(PYTEST) -m slow

# With PyTorch, whose tests the others skip where it is missing.
test-all: .venv/installed-torch test test-slow

lint: .venv/installed-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

# Against plain NumPy, SciPy and the peers that install; W8A is the file, or a name that is downloaded.
W8A ?= w8a
bench: .venv/installed
	-$(BIN)/python -m pip install --quiet --disable-pip-version-check tvopt decopt
	$(BIN)/python benchmarks/speed --w8a $(W8A)

.venv/bin/python:
	$(PYTHON) -m venv .venv

.venv/installed: pyproject.toml | .venv/bin/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable .
	touch $@

.venv/installed-dev: pyproject.toml | .venv/bin/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev]'
	touch $@ .venv/installed

# The build for CPUs, where there is one apart; elsewhere pip takes the only one there is.
.venv/installed-torch: .venv/installed-dev
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --retries 1 'torch==2.13.0+cpu' \
		--extra-index-url https://download.pytorch.org/whl/cpu \
		|| $(BIN)/python -m pip install --quiet --disable-pip-version-check 'torch==2.13.0'
	touch $@

clean:
	rm -rf .venv out build dist
