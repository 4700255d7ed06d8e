"""Generated projects: valid data of every kind that a project can declare."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy

Data = dict[str, Any]
DataStrategy = SearchStrategy[dict[str, Any]]

ENVIRON = {"KEY": "k", "DSN": "postgresql://localhost/x", "HOST": "https://example.com"}

texts = st.text(
    st.characters(codec="utf-8", exclude_categories=["Cs", "Cc"], exclude_characters="{"),
    max_size=12,
) | st.sampled_from(["on", "012", "1e3", "a: b # c", "two\nlines\n", "- x", "~", "2001-01-01"])
words = texts.filter(bool)
ids = st.from_regex(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,5}", fullmatch=True)
numbers = st.integers(-5, 5) | st.sampled_from([0.5, -2.25, 1e20])
leaves = st.none() | st.booleans() | numbers | texts
json_maps = st.dictionaries(
    st.sampled_from(["a", "on", "x y", "1"]), leaves | st.lists(leaves, max_size=2), max_size=2
)
settings_maps = st.fixed_dictionaries(
    {}, optional={"depth": json_maps, "token": st.just("{{ .secrets.KEY }}"), "n": numbers}
)
metadata = st.dictionaries(
    st.sampled_from(["team", "tags", "año"]), leaves | st.lists(leaves, max_size=2), max_size=2
)
secret = st.sampled_from(["{{ .env.KEY }}", "{{.secrets.KEY}}"])
patterns = st.sampled_from(["docs/**/*.md", "a.md", "{x,y}/*", "größe/*"])
addresses = st.sampled_from(["https://example.com/a?b=c#d", "{{ .env.HOST }}/x"])
class_path = st.just("package.module:Class")
factory_path = st.sampled_from(["package.module:function", "package.module:Class.method"])


def some(**optional: Any) -> DataStrategy:
    """Draw a mapping with any of these keys."""
    return st.fixed_dictionaries({}, optional=optional)


def with_(required: Data, **optional: Any) -> DataStrategy:
    """Draw a mapping with all required keys and any others, from constants or strategies."""
    fixed = {
        key: value if isinstance(value, st.SearchStrategy) else st.just(value)
        for key, value in required.items()
    }
    return st.fixed_dictionaries(fixed, optional=optional)


part = with_({"class": class_path}) | with_({"factory": factory_path}, config=settings_maps)
retry = some(attempts=st.integers(1, 20), backoff_ms=st.just(5), max_backoff_ms=st.just(500))
price = {"price_per_million_tokens": st.sampled_from([0.02, 3])}
steady = {"retry": retry, "max_concurrent": st.integers(1, 64), "requests_per_minute": st.just(60)}
EMBEDDERS: list[DataStrategy] = [
    with_(
        {"provider": "local"},
        model=st.just("all-MiniLM-L6-v2"),
        config=some(batch_size=st.integers(1, 64), threads=st.none() | st.just(2)),
    ),
    with_({"provider": "hashing"}, config=some(dimension=st.integers(8, 64))),
    with_(
        {"provider": "openai", "api_key": secret},
        **price,
        model=st.sampled_from(["text-embedding-3-large", "own"]),
        config=some(
            dimension=st.just(512), base_url=addresses, strip_newlines=st.booleans(), **steady
        ),
    ),
    with_(
        {"provider": "fastembed", "model": words},
        revision=st.none() | st.just("v1.5"),
        query_prefix=texts,
    ),
    with_(
        {"provider": "fastembed", "model": words, "file": "onnx/model.onnx"},
        pooling=st.sampled_from(["mean", "cls", "last_token", "none"]),
        cache_dir=st.just("models"),
    ),
    with_(
        {"provider": "langchain", "class": class_path},
        model=words,
        api_key=secret,
        config=settings_maps,
        **price,
        **steady,
    ),
]
VECTOR_DBS: list[DataStrategy] = [
    with_(
        {"type": "memory"},
        config=st.just({}),
        embedding_cache=some(max_bytes=st.sampled_from([0, 10**9])),
    ),
    with_({"type": "sqlite"}, config=some(path=st.sampled_from(["x.db", "{{ .env.KEY }}/x.db"]))),
    with_(
        {
            "type": "pgvector",
            "config": with_(
                {"dsn": "{{ .env.DSN }}"},
                table=st.just("chunks"),
                ensure_index=st.booleans(),
                index=some(type=st.sampled_from(["hnsw", "ivfflat"]), lists=st.none() | st.just(9)),
                metric=st.sampled_from(["cosine", "l2", "ip"]),
                pool=some(min_size=st.just(1), timeout_seconds=st.sampled_from([1, 2.5])),
            ),
        }
    ),
    with_(
        {
            "type": "qdrant",
            "config": with_({"url": "http://host:6333"}, auth=some(api_key=secret))
            | with_({"path": "data"}, collection=ids, consistency=st.just("quorum")),
        },
        catalog=st.just({"dsn": "{{ .env.DSN }}"}),
    ),
    with_({"type": "langchain", "class": class_path}, config=settings_maps),
    with_({"type": "langchain", "factory": factory_path}, config=some(engine=part)),
]
fetch = some(
    timeout_seconds=st.sampled_from([1, 0.5]), allow=st.just(["::1"]), headers=settings_maps
)
max_bytes = {"max_bytes": st.integers(1, 99)}
SOURCES: list[DataStrategy] = [
    with_(
        {"type": "markdown_glob", "path": patterns},
        exclude=st.lists(patterns, max_size=1),
        **max_bytes,
    ),
    with_(
        {"type": "file_glob", "paths": st.lists(patterns, min_size=1, max_size=2)}, path=patterns
    ),
    with_({"type": "url", "urls": st.lists(addresses, min_size=1, max_size=2)}, fetch=fetch),
    with_({"type": "media_transcript", "path": patterns}, url=addresses, **max_bytes),
    with_(
        {"type": "media_transcript", "provider": "youtube", "video_id": "dQw4w9WgXcQ"},
        languages=st.just(["de"]),
    ),
    with_(
        {"type": "cloud_storage", "provider": st.sampled_from(["s3", "memory"]), "bucket": words},
        prefix=texts,
        pattern=patterns,
        config=settings_maps,
    ),
    st.lists(
        with_({"id": ids, "text": words}, metadata=metadata),
        min_size=1,
        max_size=2,
        unique_by=lambda entry: entry["id"],
    ).map(lambda documents: {"type": "inline", "documents": documents}),
    with_({"type": "langchain", "class": class_path}, config=settings_maps),
]
semantic = some(
    breakpoints=st.just("gradient"), threshold=st.sampled_from([50, 0.5]), window=st.just(2)
)
CHUNKING: list[DataStrategy] = [
    some(size=st.integers(64, 99), overlap=st.integers(0, 63), unit=st.just("tokens")),
    with_({"strategy": st.sampled_from(["fixed", "markdown", "html", "json", "token"])}),
    with_({"strategy": "code", "language": st.sampled_from(["python", "r"])}),
    with_({"strategy": "semantic"}, semantic=semantic),
]
OVERRIDES: Data = {
    "strategy": st.sampled_from(["similarity", "lexical", "mmr", "hybrid"]),
    "fusion": some(method=st.just("rrf"), rank_constant=st.sampled_from([1, 30])),
    "rerank": with_({"class": class_path}, config=settings_maps)
    | with_({"provider": "onnx", "model_path": "m.onnx"}, threads=st.none() | st.just(2))
    | with_({"provider": "fastembed", "model": words}, file=st.just("model.onnx")),
    "stages": st.lists(
        with_({"min_score": st.none() | st.just(0.5)}, filters=json_maps), max_size=2
    ),
    "top_k": st.integers(1, 50),
    "min_score": st.sampled_from([0, 1, 0.25]),
    "max_tokens": st.integers(1, 99),
    "filters": json_maps,
    "inject_as": st.sampled_from(["docs", "Our book", "{{ .workflow.vars.docs }}"]),
    "fallback": texts,
    "min_results": st.integers(1, 3),
}
NULLABLE = {name: value | st.none() for name, value in OVERRIDES.items()}
preprocess = some(
    dedupe=st.booleans(),
    remove_html=st.booleans(),
    html=some(extractor=st.sampled_from(["built_in", "trafilatura"])),
    pdf=some(tables=st.booleans()),
    steps=st.lists(
        with_(
            {"function": factory_path},
            documents=st.lists(patterns, max_size=2),
            version=texts,
            config=settings_maps,
        ),
        max_size=2,
    ),
)


@st.composite
def bindings(draw: DrawFn, kb_ids: list[str]) -> list[Data]:
    """Draw bindings of some knowledge bases, each override direct or nested."""
    entries = []
    for kb_id in draw(st.lists(st.sampled_from(kb_ids), unique=True, max_size=2)) if kb_ids else []:
        overrides = draw(some(**NULLABLE))
        nested = {name: overrides.pop(name) for name in list(overrides) if draw(st.booleans())}
        entries.append({"id": kb_id, **overrides, **({"retrieval": nested} if nested else {})})
    return entries


@st.composite
def tools(draw: DrawFn, kb_ids: list[str]) -> list[Data]:
    """Draw code tools, and search tools for some knowledge bases."""
    code = draw(st.lists(factory_path, unique=True, max_size=2))
    searches = [
        {"knowledge": binding.pop("id"), "name": f"search{number}"} | binding
        for number, binding in enumerate(draw(bindings(kb_ids)))
    ]
    return [{"call": path} for path in code] + searches


def listed(kinds: list[DataStrategy]) -> SearchStrategy[list[Data]]:
    """Draw declarations of these kinds with different ids."""
    entry = st.one_of(kinds)
    return st.dictionaries(ids, entry, max_size=3).map(
        lambda entries: [{"id": name} | data for name, data in entries.items()]
    )


@st.composite
def knowledge_bases(draw: DrawFn, embedders: list[Data], vector_dbs: list[Data]) -> list[Data]:
    kind = with_(
        {"sources": st.lists(st.one_of(SOURCES), min_size=1, max_size=2)},
        description=texts,
        ingest=st.sampled_from(["manual", "on_start"]),
        keep=st.integers(0, 10),
        chunking=st.one_of(CHUNKING),
        preprocess=preprocess,
        retrieval=some(**OVERRIDES),
        metadata=metadata,
        **(
            {"embedder": st.sampled_from([embedder["id"] for embedder in embedders])}
            if embedders
            else {}
        ),
        **(
            {"vector_db": st.sampled_from([vector_db["id"] for vector_db in vector_dbs])}
            if vector_dbs
            else {}
        ),
    )
    return draw(listed([kind]))


any_task = {
    "condition": st.just("workflow.input.question != ''"),
    "retry": retry,
    "timeout_seconds": st.sampled_from([0.5, 60]),
    "cache": st.just({"ttl_seconds": 60}),
    "update": st.just({"extra": {"on": "{{ .output }}"}}),
}
leaves_of_tasks = [
    with_({"type": "python", "call": factory_path}, **{"with": settings_maps}, **any_task),
    with_({"type": "aggregate", "outputs": {"a": "{{ .state.extra }}"}}, **any_task),
    with_({"type": "wait", "prompt": texts}, schema=st.just({"type": "object"}), **any_task),
]
checkpointers = st.sampled_from(
    [{}, {"type": "memory"}, {"path": "a.db"}, {"type": "postgres", "dsn": "{{ .env.DSN }}"}]
)


@st.composite
def workflows(draw: DrawFn, knowledge: Any, kb_ids: list[str], agent_ids: list[str]) -> list[Data]:
    """Draw workflows whose composite tasks run earlier workflows."""
    flows: list[Data] = []
    for name in draw(st.lists(ids, unique=True, max_size=3)):
        bases = draw(knowledge)
        seen = [*kb_ids, *(kb["id"] for kb in bases)]
        agents = draw(st.lists(st.sampled_from(agent_ids), max_size=1)) if agent_ids else []
        basic = with_(
            {"prompt": "{{ .input.question }} {{ .workflow.vars.tone }}"},
            type=st.just("basic"),
            query=st.just("{{ .workflow.input.question }}"),
            knowledge=bindings(list(dict.fromkeys(seen))),
            **({"agent": st.just(agents[0])} if agents else {}),
            **any_task,
        )
        inputs = {"question": "{{ .input.question }}"}
        others = [
            {
                "id": f"run.{other['id']}",
                "type": "composite",
                "workflow": other["id"],
                "input": inputs,
            }
            for other in flows
        ]
        data = with_(
            {
                "id": name,
                "input": with_({"question": some(description=texts, type=st.just("string"))}),
                "vars": with_({"tone": leaves}),
                "tasks": listed([basic, *leaves_of_tasks])
                .filter(bool)
                .map(lambda tasks, more=others: tasks + more),
            },
            resource=st.just("workflow"),
            version=texts,
            channels=st.just({"seen": {"reducers": ["package.module:first"], "default": []}}),
            checkpointer=checkpointers,
            max_steps=st.integers(1, 9),
            knowledge=bindings(list(dict.fromkeys(seen))),
            outputs=st.just({"on": "{{ .workflow.vars.tone }}"}),
        )
        flows.append(draw(data) | ({"knowledge_bases": bases} if bases else {}))
    return flows


@st.composite
def project_data(draw: DrawFn) -> Data:
    """Draw a valid project with any of its sections."""
    embedders, vector_dbs = draw(listed(EMBEDDERS)), draw(listed(VECTOR_DBS))
    knowledge = knowledge_bases(embedders, vector_dbs)
    bases = draw(knowledge)
    kb_ids = [kb["id"] for kb in bases]
    models = draw(
        listed(
            [
                with_({"provider": "extractive"}),
                with_({"provider": "openai", "model": words}, api_key=secret, config=settings_maps),
                with_({"provider": "langchain", "class": class_path}, config=settings_maps),
                with_({"provider": "langchain", "factory": factory_path}, model=words),
            ]
        )
    )
    model = {"model": st.sampled_from([model["id"] for model in models])} if models else {}
    agents = draw(
        listed(
            [
                some(
                    description=texts,
                    instructions=texts,
                    knowledge=bindings(kb_ids),
                    tools=tools(kb_ids),
                    max_iterations=st.integers(1, 20),
                    output_schema=st.sampled_from([{}, {"type": "object"}]),
                    **model,
                )
            ]
        )
    )
    if any(model["provider"] == "extractive" for model in models):  # it supports neither of these
        beyond = {"tools", "output_schema"}
        agents = [{key: agent[key] for key in agent if key not in beyond} for agent in agents]
    sections: Data = {
        "description": draw(texts),
        "embedders": embedders,
        "vector_dbs": vector_dbs,
        "knowledge_bases": bases,
        "knowledge": draw(bindings(kb_ids)),
        "models": models,
        "agents": agents,
        "workflows": draw(workflows(knowledge, kb_ids, [agent["id"] for agent in agents])),
        "checkpointer": draw(checkpointers),
        "autoload": draw(some(include=st.just(["none/*.yaml"]), exclude=st.just(["x/*"]))),
    }
    empty = draw(st.sets(st.sampled_from(["description", "autoload"])))
    return {"name": draw(ids)} | {
        key: value for key, value in sections.items() if value or key in empty
    }
