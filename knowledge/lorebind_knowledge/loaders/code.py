"""Source code and settings: the whole file, and the language by which it is cut."""

from __future__ import annotations

from lorebind_knowledge.loaders.base import LoadedDocument, name_of

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
"""By the names of `langchain_text_splitters.Language`; those it has no separators for come last."""
LANGUAGES = {ending: language for language, some in _ENDINGS.items() for ending in some.split()}


def language_of(uri: str) -> str:
    """The language of a file by its ending; empty where it is none, or cut like prose."""
    return LANGUAGES.get(name_of(uri).suffix.lower(), "")


def load_code(text: str, uri: str) -> LoadedDocument:
    """The title is the file's name with its ending."""
    return LoadedDocument(text, name_of(uri).name or uri, format="code", language=language_of(uri))
