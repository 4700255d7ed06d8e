"""Load plain text and source code as whole files, with the language for chunking."""

from __future__ import annotations

from lorebind_knowledge.loaders.base import LoadedDocument, name_of, suffix_of, title_of


def load_text(text: str, uri: str) -> LoadedDocument:
    return LoadedDocument(text, title_of(uri))


_ENDINGS = {
    "c": ".c .h",
    "cobol": ".cbl .cob",
    "cpp": ".cc .cpp .cxx .hh .hpp .hxx",
    "csharp": ".cs",
    "elixir": ".ex .exs",
    "go": ".go",
    "haskell": ".hs",
    "java": ".java",
    "js": ".cjs .js .jsx .mjs",
    "kotlin": ".kt .kts",
    "lua": ".lua",
    "php": ".php",
    "powershell": ".ps1 .psm1",
    "proto": ".proto",
    "python": ".py .pyi",
    "r": ".r",
    "ruby": ".rb",
    "rust": ".rs",
    "scala": ".scala",
    "sol": ".sol",
    "swift": ".swift",
    "ts": ".cts .mts .ts .tsx",
    "visualbasic6": ".bas .frm",
    "": ".bash .bat .clj .css .dart .erl .fs .gradle .graphql .groovy .jl .less .ml .pl .pm .scss "
    ".sh .sql .svelte .tf .vb .vue .zsh",
}
"""Extensions by name of `langchain_text_splitters.Language`.

Extensions of languages that it has no separators for come last.
"""
LANGUAGES = {ending: language for language, some in _ENDINGS.items() for ending in some.split()}


def language_of(uri: str) -> str:
    """Return the language for a file's extension; empty if there is none, so prose rules apply."""
    return LANGUAGES.get(suffix_of(uri), "")


def load_code(text: str, uri: str) -> LoadedDocument:
    """Load source code; the title is the file name with its extension."""
    return LoadedDocument(text, name_of(uri).name or uri, format="code", language=language_of(uri))
