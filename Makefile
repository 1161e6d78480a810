# make help lists the targets. Each installs what it needs and the machine lacks.
PYTHON ?= python3
VENV := .venv
RUN := $(VENV)/bin/python
SETUP := $(PYTHON) scripts/setup.py

.PHONY: help run site page wheel wheel-windows test test-native test-pyodide test-e2e test-oracle test-sanitize test-arm test-windows test-cuda test-cuda-sanitize test-cuda-compile lint generated format bench bench-cuda cuda-minutes lock clean \
	ready browser-ready lint-ready cuda-ready

help: ## list the targets
	@grep -E '^[a-z0-9-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z0-9-]+):.*## /  make \1|/' | column -t -s '|'

run: page ## build the page and serve it on localhost (PORT=8080 for another port)
	$(RUN) -m scripts.serve dist --isolated $(if $(PORT),--port $(PORT))

site: ready ## write the static site to dist/, at its smallest
	$(RUN) -m scripts.site $(SITE_OPTIONS)

page: ready # the same, with precompressed copies that are quick to make
	@$(RUN) -m scripts.site --quality 6

wheel: ready ## write the host's and the wasm wheel to dist-wheels/
	$(RUN) -m scripts.wheels host wasm --out dist-wheels

wheel-windows: ready ## write the wheel for Windows to dist-wheels/
	@$(SETUP) windows
	$(RUN) -m scripts.wheels windows --out dist-wheels

ready: # the compilers, the virtual environment with pyapp in it, the npm packages
	@$(SETUP) system build
	@$(SETUP) ready

browser-ready:
	@$(SETUP) system build browser

lint-ready:
	@$(SETUP) system build lint

test: browser-ready ready page ## run every test: natively, with sanitizers, inside Pyodide, and the page in a browser
	$(RUN) -m scripts.test

test-native: ready ## only the native unit tests
	$(RUN) -m pytest tests

test-pyodide: browser-ready ready page ## only the tests inside Pyodide
	$(RUN) -m tests.pyodide

test-e2e: browser-ready ready page ## only the page in a browser
	$(RUN) -m pytest e2e

test-oracle: ready ## compare with torch, live: op x dtype x layout x gradient (ORACLE=python that has torch)
	$(or $(ORACLE),$(RUN)) -c "import torch" || (echo "needs torch: $(RUN) -m pip install '.[oracle]'"; exit 1)
	PYTHONPATH=. $(or $(ORACLE),$(RUN)) -m pytest tests/oracle
	PYTHONPATH=. $(or $(ORACLE),$(RUN)) -m pytest -m oracle $$(grep -rl --include='*.py' mark.oracle tests)

test-sanitize: ready ## the kernels' tests under AddressSanitizer and UBSan
	$(RUN) -m scripts.sanitize

test-arm: ready ## the kernels' tests with ARM's instruction sets, in an emulator
	@$(SETUP) system build arm
	$(RUN) -m scripts.other_systems arm

test-windows: ready ## the kernels' tests in the build for Windows, in Wine
	@$(SETUP) system build windows
	@$(SETUP) windows
	$(RUN) -m scripts.other_systems windows

test-cuda-compile: ready ## compile the CUDA sources that have changed, for every architecture; needs no card
	$(RUN) -m scripts.cuda_compile --check || ($(SETUP) cuda && $(RUN) -m scripts.cuda_compile)

cuda-ready: ready # a card that CUDA can use, and NVIDIA's packages; what is missing is said in a line, before anything is downloaded
	@$(RUN) -m scripts.cuda_card --driver
	@$(SETUP) cublas
	@$(RUN) -m scripts.cuda_card

test-cuda: cuda-ready ## the CUDA kernels' tests, and models, on the card of this machine
	PYAPP_CUBLASLT=none PYAPP_TEST_CUDA=1 PYAPP_EMULATED=all $(RUN) -m pytest tests/cuda tests/native; found=$$?; \
	PYAPP_TEST_CUDA=1 PYAPP_EMULATED=all $(RUN) -m pytest tests/cuda tests/native/test_linear*.py tests/native/test_matmul*.py && exit $$found

test-cuda-sanitize: cuda-ready ## the CUDA kernels' tests on the card under NVIDIA's compute-sanitizer: memcheck, then racecheck
	$(RUN) -m scripts.cuda_sanitize

lint: lint-ready ready ## check style, types and formatting
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/mypy
	clang-format-19 --dry-run -Werror native/*.c native/*.h native/cuda/*.cu native/cuda/*.h tests/cuda/*.h tests/native/*.c
	node --experimental-vm-modules --no-warnings scripts/check_javascript.mjs
	node scripts/check_types.mjs

generated: ready ## write the indexes and tables that come from the code
	$(RUN) -m scripts.generate

format: lint-ready ready ## format everything
	$(VENV)/bin/ruff check --fix-only .
	$(VENV)/bin/ruff format .
	clang-format-19 -i native/*.c native/*.h native/cuda/*.cu native/cuda/*.h tests/cuda/*.h tests/native/*.c

bench: browser-ready ready site ## measure speed beside peers (BENCH_OPTIONS="--only stories15M"; see bench/)
	@$(SETUP) bench
	$(RUN) -m bench $(BENCH_OPTIONS)

cuda-minutes: cuda-ready ## all that a card is wanted for, the most telling first, with one report (MINUTES=30)
	$(RUN) -m scripts.cuda_minutes --minutes $(or $(MINUTES),60)

bench-cuda: cuda-ready ## measure a card's speed beside torch's, where that is installed (BENCH_OPTIONS="--only decode")
	$(RUN) -m bench.cuda $(BENCH_OPTIONS)

lock: ready ## resolve the development packages anew, to the newest allowed versions
	$(RUN) -m scripts.lock

clean: ## remove everything that was built, but not .venv and node_modules
	rm -rf build dist dist-wheels dist.new pyapp/_native
	rm -rf .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -name __pycache__ -not -path './.venv/*' -not -path './node_modules/*' -prune -exec rm -rf {} +
