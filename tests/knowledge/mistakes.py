"""A table of mistakes in a project, each with its message."""

from __future__ import annotations

from .mistaken_project import (
    GRAPH_FILE,
    OTHER_FILE,
    PROJECT_FILE,
    WORKFLOW_FILE,
    Mistake,
)
from .mistakes_of_agents import OF_AGENTS
from .mistakes_of_graphs import OF_GRAPHS

MISTAKES = [
    Mistake(
        "a key twice",
        PROJECT_FILE,
        "description: What customers ask",
        "name: support2",
        "lorebind.yaml:2:1: the key 'name' is written twice; it is first written at "
        "lorebind.yaml:1:1",
    ),
    Mistake(
        "a template without quotes",
        PROJECT_FILE,
        "temperature: 0",
        "temperature: {{ .env.T }}",
        "lorebind.yaml:39:27: YAML reads {{ … }} without quotes as a mapping; put quotes "
        'around it: "{{ .env.NAME }}"',
    ),
    Mistake(
        "an octal number for an integer",
        PROJECT_FILE,
        "top_k: 8",
        "top_k: 010",
        "lorebind.yaml:26:24: YAML reads 010 as the number 8; write 8, or quote it to make it "
        'text: "010"',
    ),
    Mistake(
        "an octal number for a text",
        PROJECT_FILE,
        "instructions: Help.",
        "instructions: 012",
        "lorebind.yaml:43:19: YAML reads 012 as the number 10; write 10, or quote it to make it "
        'text: "012"',
    ),
    Mistake(
        "base 60",
        PROJECT_FILE,
        "year: 2024",
        "year: 12:30:45",
        "lorebind.yaml:27:36: YAML reads 12:30:45 as the number 45045; write 45045, or quote it "
        'to make it text: "12:30:45"',
    ),
    Mistake(
        "a date that is none",
        PROJECT_FILE,
        "tags: [a, b]",
        "tags: 2024-99-99",
        "lorebind.yaml:27:22: this cannot be read as the YAML type timestamp; quote it to make "
        "it text",
    ),
    Mistake(
        "a YAML tag on a word",
        PROJECT_FILE,
        "model: gpt-x",
        "model: !mine gpt-x",
        "lorebind.yaml:37:12: YAML tags are not supported; quote it to make it text",
    ),
    Mistake(
        "an unknown key",
        PROJECT_FILE,
        "description: The handbook",
        "descriptoin: The handbook",
        "lorebind.yaml:19:5: unknown key 'descriptoin'; did you mean 'description'; known: "
        "chunking, description, embedder, id, ingest, keep, language, metadata, preprocess, "
        "retrieval, sources, sparse, tool_filters, vector_db, weak_below",
    ),
    Mistake(
        "an unknown key, nothing near",
        PROJECT_FILE,
        "min_score: 0.1",
        "zzz: 0.1",
        "lorebind.yaml:26:27: unknown key 'zzz'; known: condense, fallback, filters, fusion, "
        "inject_as, max_per_document, max_tokens, min_results, min_score, min_score_on, "
        "mmr_lambda, neighbours, on_error, on_weak, read_tools, recency, render, rerank, signals, "
        "stages, strategy, tool_fallback, top_k, versions",
    ),
    Mistake(
        "a misspelt section",
        PROJECT_FILE,
        "embedders:",
        "embeders:",
        "lorebind.yaml:3:1: unknown key 'embeders'; did you mean 'embedders'; known: agents, "
        "autoload, checkpointer, description, embedders, extensions, ingestion, "
        "knowledge, knowledge_bases, "
        "loading, mcp, models, name, server, sparse_embedders, tenancy, vector_dbs, "
        "workflows, wrappers",
        hides=(PROJECT_FILE,),
    ),
    Mistake(
        "a misspelt key that is needed",
        PROJECT_FILE,
        'class: "langchain_openai:OpenAIEmbeddings"',
        'clas: "langchain_openai:OpenAIEmbeddings"',
        "lorebind.yaml:9:5: unknown key 'clas'; did you mean 'class'; known: api_key, "
        "batch_size, class, config, id, max_concurrent, model, price_per_million_tokens, provider, "
        "requests_per_minute, retry, weak_below",
    ),
    Mistake(
        "an id that is missing",
        PROJECT_FILE,
        "{id: scratch, type: memory}",
        "{type: memory}",
        "lorebind.yaml:16:5: missing key 'id'",
        hides=("vector database",),
    ),
    Mistake(
        "a kind that is missing",
        PROJECT_FILE,
        '{type: markdown_glob, path: "more/*.md"}',
        '{path: "more/*.md"}',
        "lorebind.yaml:24:9: missing key 'type'; known: cloud_storage, file_glob, inline, "
        "langchain, markdown_glob, media_transcript, url",
    ),
    Mistake(
        "an unknown kind, one near",
        PROJECT_FILE,
        "provider: hashing",
        "provider: hashin",
        "lorebind.yaml:5:5: embedder provider 'hashin' is not supported; did you mean "
        "'hashing'; known: fastembed, hashing, langchain, local, none, openai",
    ),
    Mistake(
        "an unknown kind, none near",
        PROJECT_FILE,
        '{type: markdown_glob, path: "faq/*.md"}',
        '{type: ftp, path: "faq/*.md"}',
        "lorebind.yaml:30:16: source type 'ftp' is not supported; known: cloud_storage, "
        "file_glob, inline, langchain, markdown_glob, media_transcript, url",
    ),
    Mistake(
        "a text for an integer",
        PROJECT_FILE,
        "dimension: 64",
        'dimension: "64"',
        "lorebind.yaml:6:14: dimension: expected an integer, got the text '64'; write it "
        "without quotes",
    ),
    Mistake(
        "a word for a number",
        PROJECT_FILE,
        "max_tokens: 2000",
        "max_tokens: many",
        "lorebind.yaml:33:5: max_tokens: expected an integer, got the text 'many'",
    ),
    Mistake(
        "a boolean for a text",
        PROJECT_FILE,
        "instructions: Help.",
        "instructions: on",
        "lorebind.yaml:43:5: instructions: expected text, got the boolean on; YAML reads the "
        'unquoted word on as a boolean; quote it: "on"',
    ),
    Mistake(
        "a date for a text",
        PROJECT_FILE,
        "description: What customers ask",
        "description: 2024-01-02",
        'lorebind.yaml:2:1: description: expected text, got a date; quote it: "2024-01-02"',
    ),
    Mistake(
        "nothing for a text",
        PROJECT_FILE,
        "description: What customers ask",
        "description: ~",
        "lorebind.yaml:2:1: description: expected text, got nothing; write a value or remove the "
        "key",
    ),
    Mistake(
        "a mapping for a list",
        PROJECT_FILE,
        "knowledge: [{id: faq}]",
        "knowledge: {id: faq}",
        "lorebind.yaml:44:5: knowledge: expected a list, got a mapping",
    ),
    Mistake(
        "a text for a mapping",
        PROJECT_FILE,
        "  - id: docs\n    max_tokens: 2000",
        "  - docs",
        "lorebind.yaml:32:5: knowledge[0]: expected a mapping, got the text 'docs'",
    ),
    Mistake(
        "a text for a list of patterns",
        PROJECT_FILE,
        'include: ["agents/*.yaml", "workflows/*.yaml"]',
        'include: "agents/*.yaml"',
        "lorebind.yaml:46:3: include: expected a list, got the text 'agents/*.yaml'",
        hides=(
            *(WORKFLOW_FILE, OTHER_FILE, GRAPH_FILE, "agent", "model"),
            *("embedder", "vector database", "knowledge base"),
        ),
    ),
    Mistake(
        "an empty list",
        PROJECT_FILE,
        'sources: [{type: markdown_glob, path: "faq/*.md"}]',
        "sources: [{type: url, urls: []}]",
        "lorebind.yaml:30:15: the source names no address; write 'url' or 'urls'",
    ),
    Mistake(
        "an empty text",
        PROJECT_FILE,
        "provider: openai",
        'provider: ""',
        "lorebind.yaml:36:5: provider is empty; write some text",
    ),
    Mistake(
        "an overlap that is too large",
        PROJECT_FILE,
        "overlap: 40",
        "overlap: 400",
        "lorebind.yaml:25:27: overlap is 400; expected 0 to 399, less than the size of 400",
    ),
    Mistake(
        "a source without files",
        PROJECT_FILE,
        '{type: markdown_glob, path: "more/*.md"}',
        "{type: markdown_glob}",
        "lorebind.yaml:24:9: the source names no files; write 'path' or 'paths'",
    ),
    Mistake(
        "a path that leaves the project",
        PROJECT_FILE,
        'paths: ["docs/*"]',
        'paths: ["../docs/*"]',
        "lorebind.yaml:23:35: '../docs/*' leaves the project folder; write a path relative "
        "to the project folder, without '..'",
    ),
    Mistake(
        "nested metadata",
        PROJECT_FILE,
        "year: 2024",
        "year: {of: 2024}",
        "lorebind.yaml:27:30: metadata values are text, numbers, booleans, or lists of these",
    ),
    Mistake(
        "a model without its name",
        PROJECT_FILE,
        "    model: gpt-x\n",
        "",
        "lorebind.yaml:35:5: missing key 'model'; provider 'openai' needs the name of one of "
        "its models",
    ),
    Mistake(
        "a class that is no path",
        PROJECT_FILE,
        '"langchain_openai:OpenAIEmbeddings"',
        '"OpenAIEmbeddings"',
        "lorebind.yaml:9:5: 'OpenAIEmbeddings' is not of the form 'package.module:Class'",
    ),
    Mistake(
        "an id with a slash",
        PROJECT_FILE,
        "id: scratch",
        "id: a/b",
        "lorebind.yaml:16:6: 'a/b' cannot be an id; an id starts with a letter or digit, "
        "followed by letters, digits, '_', '.' or '-'",
    ),
    Mistake(
        "an id that is empty",
        PROJECT_FILE,
        "id: scratch",
        'id: ""',
        "lorebind.yaml:16:6: '' cannot be an id; an id starts with a letter or digit, "
        "followed by letters, digits, '_', '.' or '-'",
    ),
    Mistake(
        "an id that starts with a space",
        PROJECT_FILE,
        "id: scratch",
        'id: " a"',
        "lorebind.yaml:16:6: ' a' cannot be an id; an id starts with a letter or digit, "
        "followed by letters, digits, '_', '.' or '-'",
    ),
    Mistake(
        "an id that leads upwards",
        PROJECT_FILE,
        "id: scratch",
        'id: ".."',
        "lorebind.yaml:16:6: '..' cannot be an id; an id starts with a letter or digit, "
        "followed by letters, digits, '_', '.' or '-'",
    ),
    Mistake(
        "an id that YAML reads as a boolean",
        PROJECT_FILE,
        "id: scratch",
        "id: off",
        "lorebind.yaml:16:6: id: expected text, got the boolean off; YAML reads the unquoted "
        'word off as a boolean; quote it: "off"',
        hides=("vector database",),
    ),
    Mistake(
        "a literal secret",
        PROJECT_FILE,
        '"{{ .env.OPENAI_API_KEY }}"',
        "sk-Zq8hidden",
        'lorebind.yaml:38:5: api_key holds a literal value; write api_key: "{{ '
        '.env.OPENAI_API_KEY }}" and put the value into the environment or .env',
    ),
    Mistake(
        "a literal secret in settings",
        PROJECT_FILE,
        '"Bearer {{ .secrets.TOKEN }}"',
        "sk-Zq8hidden",
        'lorebind.yaml:11:36: authorization holds a literal value; write authorization: "{{ '
        '.env.AUTHORIZATION }}" and put the value into the environment or .env',
    ),
    Mistake(
        "a secret of digits",
        PROJECT_FILE,
        '"Bearer {{ .secrets.TOKEN }}"',
        "0123456",
        "lorebind.yaml:11:51: YAML reads this as a different number; write a template",
    ),
    Mistake(
        "an id twice",
        PROJECT_FILE,
        "  - {id: scratch, type: memory}",
        "  - {id: file, type: memory}",
        "lorebind.yaml:16:6: vector database id 'file' is used twice; it is first used at "
        "lorebind.yaml:13:5",
    ),
    Mistake(
        "an unknown embedder",
        PROJECT_FILE,
        "embedder: remote",
        "embedder: remoti",
        "lorebind.yaml:29:5: knowledge base 'faq' uses unknown embedder 'remoti'; did you "
        "mean 'remote'; known: none, remote, tests",
        hides=("embedder",),
    ),
    Mistake(
        "an unknown vector database",
        PROJECT_FILE,
        "vector_db: file",
        "vector_db: fil",
        "lorebind.yaml:21:5: knowledge base 'docs' uses unknown vector database 'fil'; did "
        "you mean 'file'; known: file, scratch",
        hides=("vector database",),
    ),
    Mistake(
        "an unknown model",
        PROJECT_FILE,
        "model: big",
        "model: bigg",
        "lorebind.yaml:42:5: agent 'helper' uses unknown model 'bigg'; did you mean 'big'; "
        "known: big",
        hides=("model",),
    ),
    Mistake(
        "a model by class and by factory",
        PROJECT_FILE,
        "    provider: openai\n    model: gpt-x\n",
        "    provider: langchain\n    class: a:B\n    factory: a:b\n",
        "lorebind.yaml:38:5: class and factory are given; keep one of them",
    ),
    Mistake(
        "a variable that is not set",
        PROJECT_FILE,
        ".env.EMBEDDER_KEY",
        ".env.EMBEDER_KEY",
        "lorebind.yaml:10:5: variable EMBEDER_KEY is not set; set it in the environment or in .env",
    ),
    Mistake(
        "an unknown scope",
        PROJECT_FILE,
        "{{ .env.DATA }}",
        "{{ .evn.DATA }}",
        "lorebind.yaml:15:14: {{ .evn.DATA }} is not defined: there is no scope 'evn' here; "
        "did you mean 'env'; known: env, secrets",
    ),
    Mistake(
        "a template where none is read",
        PROJECT_FILE,
        "instructions: Help.",
        'instructions: "{{ .input.x }}"',
        "lorebind.yaml:43:5: instructions takes no templates: {{ .input.x }} would stay as "
        "written; templates can be used in api_key, dsn, config, addresses and paths of sources, "
        "vars, prompt, query, history, input, items, with, update and outputs",
    ),
    Mistake(
        "a file that is not there",
        PROJECT_FILE,
        '"workflows/*.yaml"]',
        '"workflows/*.yaml", gone.yaml]',
        "lorebind.yaml:46:50: there is no file 'gone.yaml'",
    ),
    *OF_AGENTS,
    *OF_GRAPHS,
]
