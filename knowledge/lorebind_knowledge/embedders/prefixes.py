"""The prefixes that models were trained with for questions and passages, from their model cards.

Without its prefixes a model works, but finds less. Models of fastembed's list that are not named
here need none, or receive their task in another way.
"""

from __future__ import annotations

_SEARCH = "Represent this sentence for searching relevant passages: "

_PREFIXES = {
    "baai/bge-small-zh-v1.5": ("为这个句子生成表示以用于检索相关文章：", ""),
    "baai/bge-": (_SEARCH, ""),
    "mixedbread-ai/mxbai-embed-large-v1": (_SEARCH, ""),
    "snowflake/snowflake-arctic-embed-": (_SEARCH, ""),
    "intfloat/multilingual-e5-": ("query: ", "passage: "),
    "nomic-ai/nomic-embed-text-v1": ("search_query: ", "search_document: "),
    "google/embeddinggemma-300m": ("task: search result | query: ", "title: none | text: "),
    "qwen/qwen3-embedding-": (
        "Instruct: Given a web search query, retrieve relevant passages that answer the query\n"
        "Query:",
        "",
    ),
}
"""Prefixes for questions and passages by the start of a model's name; the first match counts."""


def prefixes_of(model: str) -> tuple[str, str]:
    """Return the prefixes for a question and for a passage; both are empty if unknown."""
    name = model.lower()
    return next((found for begins, found in _PREFIXES.items() if name.startswith(begins)), ("", ""))
