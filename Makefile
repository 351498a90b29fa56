# Two commands on a fresh machine: `make demo` and `make test`. Both install what they need.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
JOBS ?= 2
PIP := $(BIN)/python -m pip --disable-pip-version-check install --quiet -c constraints.txt

.PHONY: demo test test-lowest test-newest docs tutorials lint format bench dist clean

demo: $(VENV)/.installed-demo
	$(BIN)/python examples/demo.py
	@echo
	@echo "To explore the model in your browser: $(BIN)/elmox explore"

test: lint
	$(BIN)/python -m pytest -n $(JOBS) --dist worksteal

# The site, in site/: strictly, without a network. `make tutorials` runs the notebooks and saves their outputs.
docs: $(VENV)/.installed-dev
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict
	@echo "Open site/index.html, or for search and the explorer: $(BIN)/python -m http.server -d site"

tutorials: $(VENV)/.installed-dev
	$(BIN)/python docs/hooks/notebooks.py

# The core with the lowest and the newest dependencies that pyproject.toml allows, each in an
# environment of its own. For torch without CUDA: PIP_EXTRA_INDEX_URL=https://download.pytorch.org/whl/cpu
test-lowest test-newest: test-%:
	$(PYTHON) .ci/versions.py $* .venv-$*

lint: $(VENV)/.installed-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo
	$(BIN)/typos

format: $(VENV)/.installed-dev
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

# Side by side with AllenNLP where it is there; ALLENNLP=1 installs it, without what it asks for.
bench: $(VENV)/.installed-dev
	$(if $(ALLENNLP),$(BIN)/python -m pip install --quiet --no-deps allennlp==2.10.1)
	$(BIN)/python benchmarks/text.py
	$(BIN)/python benchmarks/tokenizer.py
	$(BIN)/python benchmarks/prepare.py
	$(BIN)/python benchmarks/embed.py
	$(BIN)/python benchmarks/memory.py
	$(BIN)/python benchmarks/weights_check.py

# The same bytes from the same commit, wherever and whenever it runs.
dist: $(VENV)/.installed-dev
	rm -rf dist
	SOURCE_DATE_EPOCH=$$(git log -1 --format=%ct) $(BIN)/python -m hatchling build -d dist

clean:
	rm -rf $(VENV) .venv-lowest .venv-newest site build dist demo-output .mypy_cache .ruff_cache .pytest_cache .hypothesis

$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/.installed-demo: $(VENV)/bin/python pyproject.toml constraints.txt
	$(PIP) -e '.[plots,onnx]'
	touch $@

$(VENV)/.installed-dev: $(VENV)/bin/python pyproject.toml constraints.txt
	$(PIP) -e '.[dev]'
	touch $@ $(VENV)/.installed-demo
