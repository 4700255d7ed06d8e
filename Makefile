# The commands of this project; `make help` lists them.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt
PRODUCT := $(VENV)/.product
INSTALLED := $(VENV)/.installed
# It needs other versions of packages that Lorebind uses.
CLIENT := $(VENV)/client/.installed
# Alone, because it depends on the clients of Anthropic and Google, which no test needs.
DEEPAGENTS := deepagents==0.7.32
NEWEST := .newest
LANGCHAIN := langchain langchain-core langchain-openai langchain-protocol langchain-tests \
	langchain-text-splitters langgraph langgraph-checkpoint langgraph-checkpoint-sqlite \
	langgraph-prebuilt langgraph-sdk deepagents
LANGCHAIN_TESTS := tests/bindings tests/conformance/test_langchain_package.py \
	tests/conformance/test_langchain_vector_store.py tests/app/test_agent_tools.py \
	tests/app/server/test_mcp_agents.py tests/app/test_agents.py tests/app/test_annotations.py \
	tests/app/test_citations.py tests/app/test_deep_agents.py tests/app/test_graph_node.py \
	tests/app/test_middleware.py tests/app/test_tool_and_prompt.py
QUESTION ?= How do I allow cross-origin requests?
# Passed as a variable, so that neither make nor the shell reads $, ` or " in it.
override QUESTION := $(value QUESTION)
export QUESTION

.PHONY: help setup demo check format client test test-newest dense torture docs pages picture package bench against readers constraints clean
.DEFAULT_GOAL := help

help: ## List the commands
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## (.*)/  make \1\t\2/' | expand -t 20

setup: $(INSTALLED) ## Install everything into .venv

$(INSTALLED): Makefile $(PRODUCT)
	$(INSTALL) -e '.[dev]'
	$(INSTALL) --no-deps $(DEEPAGENTS)
	@touch $@

$(PRODUCT): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Lorebind needs Python 3.11 or newer; name one with: make PYTHON=python3.11")'
	@$(BIN)/pip --version > /dev/null 2>&1 || $(PYTHON) -m venv --clear $(VENV)
	$(INSTALL) -e '.[workflow]'
	@touch $@

demo: $(PRODUCT) ## Ingest the quickstart's documents and answer a question from them
	@$(if $(strip $(QUESTION)),,$(error QUESTION is empty; write one: make demo QUESTION="How do I test?"))
	$(BIN)/lorebind knowledge ingest fastapi_docs --project examples/quickstart
	$(BIN)/lorebind run answer --project examples/quickstart --input "question=$$QUESTION"

check: setup ## Check format, lint, words, types and import layers
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/codespell *.md docs app bindings prompts knowledge config scripts examples benchmarks
	$(BIN)/python -m scripts.plain_english
	$(BIN)/mypy
	$(BIN)/pyright
	$(BIN)/lint-imports

format: setup ## Put the code into its format
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

client: $(CLIENT) ## Install the generator of clients, which a test uses

$(CLIENT): Makefile $(PRODUCT)
	@$(BIN)/python -m venv --clear $(@D)
	$(@D)/bin/python -m pip install --quiet --disable-pip-version-check openapi-python-client==0.29.1
	@touch $@

test: setup client ## Run all tests
	$(BIN)/pytest --numprocesses auto --dist loadfile --no-loadscope-reorder

# Its own environment has only the newest LangChain. All else is that of .venv: pip finds no newer
# langchain-core where certifi is older than it wants, so dependencies are not installed again.
test-newest: setup ## Run the LangChain tests on the newest langchain-core, langchain and langgraph
	$(BIN)/python -m venv --clear $(NEWEST)
	$(NEWEST)/bin/python -m pip install --quiet --disable-pip-version-check --no-deps $(LANGCHAIN)
	$(BIN)/python -m scripts.layered $(NEWEST)
	$(NEWEST)/bin/python -m pip list --disable-pip-version-check --path $(NEWEST)/lib/python3*/site-packages
	$(NEWEST)/bin/python -m pytest -q $(LANGCHAIN_TESTS)

dense: setup ## Run all tests with more cases each, about 20 minutes
	LOREBIND_TEST_DENSE=1 $(BIN)/pytest --numprocesses 2 --dist loadfile --no-loadscope-reorder

torture: setup ## Try every hostile case, about an hour; an interrupted run resumes
	LOREBIND_TEST_DENSE=1 $(BIN)/pytest tests/torture --torture --numprocesses 2 --dist worksteal

docs: setup ## Build the documentation site into site/
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build

pages: setup ## Write the generated pages of docs/
	$(BIN)/python -m scripts.docs.renew

picture: setup ## Record the picture of a terminal in the README
	$(BIN)/python -m scripts.docs.terminal_svg

package: setup ## Build the sdist and the wheel into dist/, and check what PyPI will show
	$(BIN)/python -m build --no-isolation
	$(BIN)/twine check --strict dist/*

bench: setup ## Measure against baselines in the same run
	$(BIN)/python benchmarks/ingest.py --parts model,changes,stores
	$(BIN)/python benchmarks/latency.py --sizes 10000
	$(BIN)/python benchmarks/loading.py
	$(BIN)/python benchmarks/loop_stall.py
	$(BIN)/python benchmarks/pgvector.py --parts load
	$(BIN)/python benchmarks/prompts.py

against: setup ## Compare the speed with another checkout: make against CHECKOUT=../other
	$(BIN)/python benchmarks/against.py --against $(CHECKOUT)

readers: setup ## Check what readers find while writers are killed
	$(BIN)/python benchmarks/readers.py

constraints: ## Pin the versions of all packages
	uv pip compile --quiet --all-extras --python-version 3.11 --no-annotate --no-header pyproject.toml -o constraints.txt

clean: ## Remove what was installed and made
	rm -rf $(VENV) $(NEWEST) .torture .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache dist site
	rm -rf examples/*/.lorebind
