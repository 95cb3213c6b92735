# Every target makes its own environment in .venv; nothing but Python >= 3.11, make and git is needed.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
# Where the environment forbids bytecode, every process compiles all that it imports again: seconds each, and tests start hundreds.
export PYTHONDONTWRITEBYTECODE :=
AS_ROOT := $(shell test "$$(id -u)" = 0 || echo sudo -n)

.PHONY: demo test claims test-slow test-browser chromium lint docs release handed-out bench clean

demo: $(STAMP)
	$(BIN)/spinodal demo --out out

test: $(STAMP)
	$(BIN)/python -m pytest tests -n 2 --dist loadfile --no-loadscope-reorder --durations 12

# Statistical claims, and the longer examples of the documentation. Some wait for processes of their own, so that two cores have work for three.
claims: $(STAMP)
	$(BIN)/python -m pytest tests -m 'claims and not slow' -n 3 --dist loadfile --no-loadscope-reorder --durations 12

test-slow: $(STAMP)
	$(BIN)/python -m pytest tests -m slow

# The explorer in Debian's Chromium; nothing else is downloaded.
test-browser: $(STAMP) chromium
	$(BIN)/python -m pytest tests/browser --durations 5

chromium:
	@command -v chromium >/dev/null || { $(AS_ROOT) apt-get update -qq && $(AS_ROOT) apt-get install -y -qq --no-install-recommends chromium fonts-dejavu-core; } || \
	{ echo "The browser tests need Chromium, and it could not be installed: run 'apt-get install chromium' as root." >&2; exit 1; }

lint: $(STAMP)
	$(BIN)/ruff check src tests benchmarks examples tools
	$(BIN)/ruff format --check src tests benchmarks examples tools
	$(BIN)/mypy
	$(BIN)/mypy --strict --follow-imports=silent tests/typing/public_face.py

# The theme's advertisement of other software is not a warning of ours.
docs: $(STAMP)
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

# An sdist and a wheel into dist/, checked, and the wheel tried in an environment of its own. PYTHONS="python3.12 python3.13" tries others.
release: $(STAMP)
	$(BIN)/python tools/release.py $(addprefix --python ,$(PYTHONS))

# All that users are handed, one after another; the documentation last, when the tests beside it have run the tutorials.
handed-out: $(STAMP)
	$(MAKE) -j 1 release
	$(MAKE) -j 1 demo
	$(MAKE) -j 1 docs

# Without the other dictionary learners (no wheel for this platform, say) the benchmark goes on and says so.
bench: $(STAMP)
	-$(BIN)/python -m pip install --quiet --no-compile --editable '.[bench]'
	$(BIN)/python -m benchmarks

$(STAMP): pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --no-compile --editable '.[dev]'
	touch $(STAMP)

clean:
	rm -rf $(VENV) out site dist
