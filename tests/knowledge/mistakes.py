"""A table of mistakes in a project, each with its message."""

from __future__ import annotations

from .mistaken_project import (
    AGENT_FILE,
    CRITIC,
    GRAPH_FILE,
    OTHER_FILE,
    PROJECT_FILE,
    WORKFLOW_FILE,
    Mistake,
)

MISTAKES = [
    Mistake(
        "not YAML",
        WORKFLOW_FILE,
        "vars: {tone: kind,",
        "vars: {tone: [kind,",
        "workflows/triage.yaml:6:74: this is not YAML: expected ',' or ']', but got '}'",
        hides=(WORKFLOW_FILE,),
    ),
    Mistake(
        "a tab",
        OTHER_FILE,
        "  - {id: only",
        "\t- {id: only",
        "workflows/reply.yaml:3:1: this is not YAML: found character that cannot start any "
        "token; indent with spaces, not with tabs",
        hides=(OTHER_FILE,),
    ),
    Mistake(
        "a control character",
        OTHER_FILE,
        "Write a reply.",
        "Write\x00a reply.",
        "workflows/reply.yaml:3:44: there is a control character here; remove it",
        hides=(OTHER_FILE,),
    ),
    Mistake(
        "a second document",
        OTHER_FILE,
        "tasks:",
        "---\ntasks:",
        "workflows/reply.yaml:2:1: a second document starts here; write one per file, or remove "
        "the line '---'",
        hides=(OTHER_FILE,),
    ),
    Mistake(
        "an unknown alias",
        AGENT_FILE,
        "Criticise.",
        "*nobody",
        "agents/critic.yaml:3:15: this is not YAML: found undefined alias",
        hides=(AGENT_FILE,),
    ),
    Mistake(
        "a YAML tag on a mapping",
        AGENT_FILE,
        "top_k: 3",
        "top_k: !!set {a}",
        "agents/critic.yaml:6:12: YAML tags are not supported here",
        hides=(AGENT_FILE,),
    ),
    Mistake(
        "a list for a file",
        AGENT_FILE,
        CRITIC,
        "- a\n",
        "agents/critic.yaml:1:1: expected a mapping of keys at the top of the file",
        hides=(
            AGENT_FILE,
            "agent",
        ),
    ),
    Mistake(
        "a word for a file",
        AGENT_FILE,
        CRITIC,
        "word\n",
        "agents/critic.yaml:1:1: expected a mapping of keys at the top of the file",
        hides=(
            AGENT_FILE,
            "agent",
        ),
    ),
    Mistake(
        "an empty file",
        AGENT_FILE,
        CRITIC,
        "# nothing\n",
        "agents/critic.yaml:1:1: the file is empty; write at least a name or an id",
        hides=(
            AGENT_FILE,
            "agent",
        ),
    ),
    Mistake(
        "a key twice",
        PROJECT_FILE,
        "description: What customers ask",
        "name: support2",
        "lorebind.yaml:2:1: the key 'name' is written twice; it is first written at "
        "lorebind.yaml:1:1",
    ),
    Mistake(
        "a key twice, deep",
        WORKFLOW_FILE,
        "deep: {er: 1}",
        "deep: {er: 1, er: 2}",
        "workflows/triage.yaml:6:34: the key 'er' is written twice; it is first written at "
        "workflows/triage.yaml:6:27",
        hides=("deep.er",),
    ),
    Mistake(
        "a list twice",
        WORKFLOW_FILE,
        'outputs: {answer: "{{ .tasks.second.output }}"}',
        "knowledge_bases: []",
        "workflows/triage.yaml:23:1: the key 'knowledge_bases' is written twice; it is first "
        "written at workflows/triage.yaml:7:1",
        hides=("knowledge base",),
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
        "a key that YAML reads as a boolean",
        WORKFLOW_FILE,
        "lines: {type: array",
        "on: {}\n  lines: {type: array",
        'workflows/triage.yaml:5:3: YAML reads the key on as a boolean; quote it: "on"',
    ),
    Mistake(
        "a key that is a number",
        WORKFLOW_FILE,
        "tone: kind",
        "1: x, tone: kind",
        'workflows/triage.yaml:6:8: YAML reads the key 1 as a number; quote it: "1"',
    ),
    Mistake(
        "a key that is a list",
        WORKFLOW_FILE,
        'made: "{{ .workflow.input.question }}"',
        "? [a] : 1",
        "workflows/triage.yaml:6:37: a key must be text, not a list or a mapping",
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
        "chunking, description, embedder, id, ingest, language, metadata, preprocess, retrieval, "
        "sources, sparse, vector_db, weak_below",
    ),
    Mistake(
        "an unknown key, nothing near",
        PROJECT_FILE,
        "min_score: 0.1",
        "zzz: 0.1",
        "lorebind.yaml:26:27: unknown key 'zzz'; known: condense, fallback, filters, fusion, "
        "inject_as, max_per_document, max_tokens, min_results, min_score, min_score_on, "
        "mmr_lambda, neighbours, on_error, on_weak, read_tools, render, rerank, signals, stages, "
        "strategy, tool_fallback, top_k",
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
        "a missing key",
        OTHER_FILE,
        ", prompt: Write a reply.",
        "",
        "workflows/reply.yaml:3:5: missing key 'prompt'",
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
        "a word that is not among the choices",
        WORKFLOW_FILE,
        "type: array",
        "type: list",
        "workflows/triage.yaml:5:11: type 'list' is not supported; known: array, boolean, "
        "integer, number, object, string",
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
        "a number out of its limits",
        AGENT_FILE,
        "top_k: 3",
        "top_k: 99",
        "agents/critic.yaml:6:5: top_k is 99; expected 1 to 50",
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
        "a number for a text",
        WORKFLOW_FILE,
        'version: "1.0"',
        "version: 1.10",
        "workflows/triage.yaml:2:1: version: expected text, got the number 1.10; YAML reads "
        '1.10 as the number 1.1; quote it: "1.10"',
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
        "a date in free values",
        WORKFLOW_FILE,
        "er: 1",
        "er: 2024-01-02",
        "workflows/triage.yaml:6:27: expected text, a number, a boolean, a list or a mapping, "
        "got a date; quote it to make it text",
        hides=("deep.er",),
    ),
    Mistake(
        "an infinite number",
        WORKFLOW_FILE,
        "er: 1",
        "er: .inf",
        "workflows/triage.yaml:6:27: a number must be finite",
        hides=("deep.er",),
    ),
    Mistake(
        "a text for a boolean",
        WORKFLOW_FILE,
        "required: false",
        'required: "false"',
        "workflows/triage.yaml:5:24: required: expected true or false, got the text 'false'; "
        "write it without quotes",
    ),
    Mistake(
        "nothing for a list",
        WORKFLOW_FILE,
        "knowledge:\n  - {id: own}",
        "knowledge:",
        "workflows/triage.yaml:10:1: knowledge: expected a list, got nothing; write a value or "
        "remove the key",
        hides=("own",),
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
        "a default of another type",
        WORKFLOW_FILE,
        "required: false",
        "default: 5",
        "workflows/triage.yaml:5:24: the default is not of type array",
    ),
    Mistake(
        "id and id_ref",
        AGENT_FILE,
        "id: docs",
        "id: docs\n    id_ref: docs",
        "agents/critic.yaml:6:5: id and id_ref mean the same; keep one of them",
    ),
    Mistake(
        "an override twice",
        WORKFLOW_FILE,
        "{id: docs, retrieval",
        "{id: docs, top_k: 2, retrieval",
        "workflows/triage.yaml:22:50: top_k is set twice: here and next to 'retrieval'; keep "
        "one of them",
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
        "an id with a colon",
        OTHER_FILE,
        "id: only",
        "id: a:b",
        "workflows/reply.yaml:3:6: 'a:b' cannot be an id; an id starts with a letter or "
        "digit, followed by letters, digits, '_', '.' or '-'",
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
        "an id twice, in two files",
        OTHER_FILE,
        "id: reply",
        "id: triage",
        "workflows/triage.yaml:1:1: workflow id 'triage' is used twice; it is first used at "
        "workflows/reply.yaml:1:1",
        hides=(WORKFLOW_FILE,),
    ),
    Mistake(
        "a binding twice",
        WORKFLOW_FILE,
        "  - {id: own}",
        "  - {id: own}\n  - {id: own}",
        "workflows/triage.yaml:12:6: binding id 'own' is used twice; it is first used at "
        "workflows/triage.yaml:11:6",
        hides=("own",),
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
        "an unknown agent",
        WORKFLOW_FILE,
        "agent: critic",
        "agent: critik",
        "workflows/triage.yaml:16:5: task 'first' uses unknown agent 'critik'; did you mean "
        "'critic'; known: critic, helper, local",
        hides=("agent",),
    ),
    Mistake(
        "a binding to nothing",
        AGENT_FILE,
        "id: docs",
        "id: dosc",
        "agents/critic.yaml:5:5: agent 'critic' binds unknown knowledge base 'dosc'; did you "
        "mean 'docs'; known: docs, faq",
        hides=("knowledge base",),
    ),
    Mistake(
        "a tool that searches nothing",
        AGENT_FILE,
        "knowledge: faq",
        "knowledge: fac",
        "agents/critic.yaml:9:6: agent 'critic' uses unknown knowledge base 'fac'; did you mean "
        "'faq'; known: docs, faq",
        hides=("knowledge base",),
    ),
    Mistake(
        "a tool that is no code",
        AGENT_FILE,
        "refunds:refund",
        "refunds.refund",
        "agents/critic.yaml:8:5: 'refunds.refund' is not of the form 'module:name'; for a "
        "knowledge base write { knowledge: refunds.refund }",
    ),
    Mistake(
        "a tool of the standard library",
        AGENT_FILE,
        "refunds:refund",
        "os:system",
        "agents/critic.yaml:8:5: 'os:system' is in Python's standard library, which is not "
        "allowed here; write a class or function in the project folder that uses it",
    ),
    Mistake(
        "two tools of one name",
        AGENT_FILE,
        "refunds:refund",
        "{knowledge: docs, name: search_faq}",
        "agents/critic.yaml:9:5: agent 'critic' has two tools 'search_faq'; the first is at "
        "agents/critic.yaml:8:5; give this one another 'name'",
    ),
    Mistake(
        "a schema that is none",
        AGENT_FILE,
        "{type: object}",
        "{type: objct}",
        "agents/critic.yaml:10:17: output_schema is not a valid JSON Schema: 'objct' at $.type "
        "is not one of array, boolean, integer, null, number, object, string",
    ),
    Mistake(
        "a reference to nothing in a schema",
        AGENT_FILE,
        "{type: object}",
        "{$ref: '#/$defs/answer'}",
        "agents/critic.yaml:10:17: output_schema is not a valid JSON Schema: there is no "
        "'#/$defs/answer' in it",
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
        "a scope without a name",
        WORKFLOW_FILE,
        "{{ .env.DATA }}",
        "{{ .env }}",
        "workflows/triage.yaml:20:5: {{ .env }} does not name a variable; write {{ .env.NAME }}",
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
        "an unknown input",
        WORKFLOW_FILE,
        ".input.lines.0",
        ".input.line.0",
        "workflows/triage.yaml:17:5: {{ .input.line.0 }} is not defined: .input has no "
        "'line'; did you mean 'lines'; known: lines, question; declare it below input:",
    ),
    Mistake(
        "an unknown workflow variable",
        WORKFLOW_FILE,
        ".workflow.vars.tone",
        ".workflow.vars.tune",
        "workflows/triage.yaml:20:5: {{ .workflow.vars.tune }} is not defined: "
        ".workflow.vars has no 'tune'; did you mean 'tone'; known: deep, made, tone",
    ),
    Mistake(
        "a task that comes later",
        WORKFLOW_FILE,
        "{{ .workflow.vars.deep.er }}",
        "{{ .tasks.second.output }}",
        "workflows/triage.yaml:17:5: {{ .tasks.second.output }} is not defined: task 'second' "
        "cannot come before 'first'; known: none",
    ),
    Mistake(
        "a key of a value that has none",
        WORKFLOW_FILE,
        ".vars.deep.er }}",
        ".vars.deep.er.x }}",
        "workflows/triage.yaml:17:5: {{ .workflow.vars.deep.er.x }} is not defined: "
        ".workflow.vars.deep.er is of type int and has no 'x'",
        hides=("deep.er",),
    ),
    Mistake(
        "a malformed template",
        WORKFLOW_FILE,
        "{{ .tasks.first.output.topic }}",
        "{{ tasks.first }}",
        "workflows/triage.yaml:21:5: {{ tasks.first }} is not a template; write {{ "
        ".scope.name }}, for example {{ .env.NAME }}",
    ),
    Mistake(
        "a template that is not closed",
        WORKFLOW_FILE,
        "{{ .tasks.first.output.topic }}",
        "{{ .tasks.first",
        "workflows/triage.yaml:21:5: a template is opened by '{{' but not closed; end it with '}}'",
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
    Mistake(
        "an unknown task to go on to",
        GRAPH_FILE,
        "next: kind",
        "next: kid",
        "workflows/sort.yaml:6:19: task 'look' leads to unknown task 'kid'; did you mean 'kind'; "
        "known: ask, both, each, kind, look, sorry",
        hides=("edge",),
    ),
    Mistake(
        "a task of another list to go on to",
        GRAPH_FILE,
        "default: sorry",
        "default: part",
        "workflows/sort.yaml:8:41: task 'kind' leads to task 'part', which is in another list of "
        "tasks; known: ask, both, each, kind, look, sorry",
        hides=("edge",),
    ),
    Mistake(
        "a task that is never reached",
        GRAPH_FILE,
        ", on_success: {next: both}}",
        ", final: true}",
        "workflows/sort.yaml:15:5: task 'both' is never reached; add an edge to it from task "
        "'look', or remove it",
        hides=("edge",),
    ),
    Mistake(
        "a task that leads nowhere",
        GRAPH_FILE,
        "    final: true\n  - {id: ask",
        "  - {id: ask",
        "workflows/sort.yaml:15:5: task 'both' has no next task; task 'look' (line 5) has edges, "
        "so the order of the list does not apply: write on_success or final: true",
    ),
    Mistake(
        "an edge out of a final task",
        GRAPH_FILE,
        "    final: true\n  - {id: ask",
        "    final: true\n    on_success: {next: sorry}\n  - {id: ask",
        "workflows/sort.yaml:21:5: task 'both' is final, but has on_success; remove one of them",
    ),
    Mistake(
        "a task that goes on to itself",
        GRAPH_FILE,
        "none: [ask]",
        "none: [ask, kind]",
        "workflows/sort.yaml:8:39: task 'kind' is its own next task; add a router to the loop",
    ),
    Mistake(
        "a final task before others",
        GRAPH_FILE,
        "{id: right, prompt: Sum up.}",
        "{id: right, prompt: Sum up., final: true}",
        "workflows/sort.yaml:19:39: task 'right' is final, so task 'further' never runs; "
        "write on_success, or remove final",
    ),
    Mistake(
        "a malformed condition",
        GRAPH_FILE,
        "condition: tasks.look.output.kind",
        "condition: tasks.look.output.kind +",
        "workflows/sort.yaml:7:30: condition: it is malformed: at line 1, column 25, it ends "
        "too early; write it in CEL, as in tasks.read.output.kind == 'refund'",
    ),
    Mistake(
        "a template for a condition",
        GRAPH_FILE,
        "condition: tasks.look.output.kind",
        'condition: "{{ .tasks.look.output.kind }}"',
        "workflows/sort.yaml:7:30: condition is a CEL expression, not a template; write "
        "tasks.look.output.kind",
    ),
    Mistake(
        "a filter that names an unknown task",
        GRAPH_FILE,
        "tasks.look.output.skip",
        "tasks.loko.output.skip",
        "workflows/sort.yaml:12:5: filter: tasks.loko is not defined; did you mean 'look'; "
        "known: kind, look",
    ),
    Mistake(
        "an item outside of a collection",
        GRAPH_FILE,
        "Sum up.",
        '"{{ .item }}"',
        "workflows/sort.yaml:19:22: {{ .item }} is not defined: item is available only in the "
        "tasks of a collection",
    ),
    Mistake(
        "an unknown channel",
        GRAPH_FILE,
        "update: {seen:",
        "update: {sen:",
        "workflows/sort.yaml:13:54: task 'part' updates unknown channel 'sen'; did you mean "
        "'seen'; known: errors, extra, messages, seen; declare it below channels:",
    ),
    Mistake(
        "a channel that is there",
        GRAPH_FILE,
        "{seen: {reducers:",
        "{extra: {}, seen: {reducers:",
        "workflows/sort.yaml:3:12: channel 'extra' is built in and cannot be declared; every "
        "workflow has messages, extra, errors; choose another name",
    ),
    Mistake(
        "a reducer of the standard library",
        GRAPH_FILE,
        "own:first",
        "functools:reduce",
        "workflows/sort.yaml:3:30: 'functools:reduce' is in Python's standard library, which "
        "is not allowed here; write a class or function in the project folder that uses it",
    ),
    Mistake(
        "a schema that is none",
        GRAPH_FILE,
        "{type: object}",
        "{type: objct}",
        "workflows/sort.yaml:21:54: schema is not a valid JSON Schema: 'objct' at $.type "
        "is not one of array, boolean, integer, null, number, object, string",
    ),
    Mistake(
        "a task that is in another",
        GRAPH_FILE,
        ".tasks.ask.output",
        ".tasks.part.output",
        "workflows/sort.yaml:18:20: {{ .tasks.part.output }} is not defined: task 'part' is "
        "inside task 'each'; use tasks.each.output",
    ),
    Mistake(
        "an error where none can be",
        GRAPH_FILE,
        "Go on.",
        "{{ .error.type }}",
        "workflows/sort.yaml:21:27: {{ .error.type }} is not defined: error is available only "
        "after an on_error",
    ),
    Mistake(
        "an edge that is no mapping",
        GRAPH_FILE,
        "on_success: {next: kind}",
        "on_success: kind",
        "workflows/sort.yaml:6:6: on_success: expected a mapping, got the text 'kind'",
        hides=("edge",),
    ),
    Mistake(
        "an unknown key of a branch",
        GRAPH_FILE,
        "{id: left, prompt:",
        "{id: left, promt: x, prompt:",
        "workflows/sort.yaml:18:20: unknown key 'promt'; did you mean 'prompt'; known: agent,"
        " cache, condition, final, history, id, knowledge, on_error, on_success, prompt, "
        "query, retry, timeout_seconds, type, update",
    ),
]
