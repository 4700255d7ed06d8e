"""The metadata of a document's passages: from the document, its source and its knowledge base.

Metadata is repeated with each passage and read by every filter, so it is bounded. Whatever is
omitted is named in a notice.
"""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from typing import TYPE_CHECKING, Any

from lorebind_config.dates import parsed_date
from lorebind_knowledge.loaders.base import well_formed
from lorebind_knowledge.loaders.properties import as_date, from_front_matter
from lorebind_knowledge.records import SPANS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lorebind_config.declarations.sources import SourceMetadata
    from lorebind_knowledge.loaders.base import LoadedDocument
    from lorebind_knowledge.sources.base import Content

MOST_KEYS = 200
LONGEST_KEY = 200
LONGEST_TEXT = 2_000
LONGEST_LIST = 200
MOST_CHARACTERS = 20_000
"""Maximum length of all metadata of a document as JSON."""

_NAMED = 5
"""Number of omitted keys that a notice names."""
_NEVER = ("kb_id", "uri", "title", "heading", "start", "end", "line_start", "line_end")
"""Keys that the ingest sets for each passage."""
_NUMBER = re.compile(r"[+-]?[0-9]{1,18}(\.[0-9]{1,18})?")
_BOOLEANS = {"true": True, "yes": True, "false": False, "no": False}
# Control characters can change what a terminal or a page shows. Tabs and line ends stay.
_CONTROL = dict.fromkeys((*range(9), 11, 12, *range(14, 32), *range(127, 160)), " ")


def signed_metadata(content: Content) -> str:
    """Return what the source contributes to the metadata of a document, as JSON."""
    if content.declared is None:
        return json.dumps(dict(content.metadata), sort_keys=True) if content.metadata else "{}"
    modified = content.modified if "modified" in content.declared.from_document else ""
    parts = [dict(content.metadata), content.declared.written(), modified]
    return json.dumps(parts, sort_keys=True)


def reads_language(content: Content) -> bool:
    """Return whether the source declares that its documents have the metadata `language`."""
    return content.declared is not None and "language" in content.declared.from_document


def layered(*layers: Mapping[str, Any]) -> dict[str, Any]:
    """Return metadata in one mapping: of equal keys the last, which is also where it stands.

    The place matters to `bounded_metadata`, which omits the first keys if there are too many.
    """
    values: dict[str, Any] = {}
    for layer in layers:
        for key, value in layer.items():
            values.pop(key, None)
            values[key] = value
    return values


def merged_metadata(
    document: LoadedDocument, content: Content, of_all: Mapping[str, Any]
) -> dict[str, Any]:
    """Return all metadata of a document, without checking it.

    Args:
        document: the loaded document.
        content: what its source has returned, without the bytes.
        of_all: the metadata of the knowledge base.
    """
    declared = content.declared
    properties: dict[str, Any] = {}
    if declared is not None and declared.from_document:
        in_document = {**from_front_matter(document.metadata), **document.properties}
        in_document.setdefault("modified", content.modified)
        names = [name for name in declared.from_document if in_document.get(name)]
        properties = {name: in_document[name] for name in names}
    return layered(document.metadata, properties, content.metadata, of_all)


def bounded_metadata(
    values: dict[str, Any], declared: SourceMetadata | None
) -> tuple[dict[str, Any], str]:
    """Return the metadata that all passages of a document share, and a notice of omitted values.

    Args:
        values: the merged metadata, as its steps have left it; of keys that are stored as the
            same name, the last counts.
        declared: what the source declares about metadata, such as types.
    """
    types = declared.types if declared is not None else {}
    usable: dict[str, Any] = {}
    done = set(_NEVER)
    omitted: Counter[str] = Counter()
    names: list[str] = []
    room = MOST_CHARACTERS
    # Reversed, so that the document's own keys are omitted first if there are too many.
    for key, value in reversed(values.items()):
        name = " ".join(well_formed(key).translate(_CONTROL).split())
        if name in done:
            continue
        done.add(name)
        plain, why = _entry(name, value, types.get(name))
        if not why and len(usable) == MOST_KEYS:
            why = f"more than {MOST_KEYS} keys"
        size = 0 if why else len(json.dumps({name: plain}, ensure_ascii=False))
        if not why and size > room:
            why = f"more than {MOST_CHARACTERS:,} characters in all"
        if why:
            omitted[why] += 1
            names.append(repr(name[:40]))
        else:
            usable[name] = plain
            room -= size
    usable = dict(reversed(usable.items()))
    if not omitted:
        return usable, ""
    more = f" and {len(names) - _NAMED:,} more" if len(names) > _NAMED else ""
    return usable, f"omits {', '.join(names[:_NAMED])}{more}: {'; '.join(omitted)}"


def _entry(name: str, value: Any, kind: str | None) -> tuple[Any, str]:
    """Return a value as it is stored, or why it is omitted."""
    if not name or len(name) > LONGEST_KEY:
        return None, f"keys have 1 to {LONGEST_KEY} characters"
    entries = value if isinstance(value, list) else [value]
    if len(entries) > LONGEST_LIST:
        return None, f"lists have at most {LONGEST_LIST} entries"
    if any(isinstance(entry, str) and len(entry) > LONGEST_TEXT for entry in entries):
        return None, f"texts have at most {LONGEST_TEXT:,} characters"
    scalars = [_plain(entry) for entry in entries]
    if None in scalars:
        return None, "values are texts, numbers of 64 bits, booleans, or lists of these"
    plain: Any = scalars if isinstance(value, list) else scalars[0]
    if name in SPANS or name == "page_label":
        is_place = isinstance(plain, str | int | float) and len(str(plain)) <= LONGEST_KEY
        return plain, "" if is_place else "citations cannot name such a place"
    if kind is None:
        return _inferred(plain), ""
    plain = converted(plain, kind)
    return plain, "" if plain is not None else f"cannot be read as {kind}"


def _plain(value: Any) -> str | int | float | None:
    """Return a text, number or boolean that every store can hold; None for other values."""
    match value:
        case str():
            return well_formed(value).translate(_CONTROL)
        case int() if -(2**63) <= value < 2**63:  # includes bool
            return value
        case float() if math.isfinite(value):
            return value
    return None


def _inferred(value: Any) -> Any:
    """Return a value in which texts in the form of dates are dates in UTC."""
    if isinstance(value, list):
        return [_inferred(item) for item in value]
    return (parsed_date(value) or value) if isinstance(value, str) else value


def converted(value: Any, kind: str) -> Any:
    """Return a value of metadata as a type that is declared for it; None if it cannot be.

    Each entry of a list is converted, unless the type is `list`.
    """
    if kind == "list":
        if isinstance(value, str):
            parts = (part.strip() for part in re.split("[,;]", value))
            return [_inferred(part) for part in parts if part]
        return _inferred(value) if isinstance(value, list) else [value]
    if isinstance(value, list):
        entries = [converted(item, kind) for item in value]
        return None if None in entries else entries
    match kind, value:
        case "string", bool():
            return str(value).lower()
        case "string", _:
            return str(value)
        case "boolean", str():
            return _BOOLEANS.get(value.strip().lower())
        case "boolean", _:
            return value if isinstance(value, bool) else None
        case "date", _:
            return as_date(value) or None
        case "number", str() if _NUMBER.fullmatch(value.strip()):
            return float(value) if "." in value else int(value)
        case "number", int() | float() if not isinstance(value, bool):
            return value
    return None
