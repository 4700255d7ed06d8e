"""`sources:` the locations of documents, and `loading:` the limits of reading them."""

from collections.abc import Iterator
from typing import Annotated, Any, ClassVar, Literal, Self, TypeAlias

from pydantic import AfterValidator, ConfigDict, Field, model_validator

from lorebind_config.declarations.base import (
    OUTSIDE,
    Declaration,
    Matching,
    Settings,
    Wants,
    empty_list,
    refused,
)
from lorebind_config.declarations.kinds import KindRegistry
from lorebind_config.declarations.path_fields import checked_pattern, refuse_reserved
from lorebind_config.declarations.values import MetadataMap
from lorebind_config.document_sizes import (
    DEFAULT_MAX_BYTES,
    DEFAULT_MAX_SCAN_BYTES,
    MEGABYTE,
    SizeLimit,
)

_SIZE = r"^([1-9][0-9]{0,5}) ?(MiB|GiB)$"
_MEBIBYTES = {"MiB": 1, "GiB": 1024}
_LEAST_MEMORY = 64


def _enough(value: str) -> str:
    if mebibytes(value) < _LEAST_MEMORY:
        raise refused(f"{value} is too little", f"write at least {_LEAST_MEMORY} MiB")
    return value


def mebibytes(size: str) -> int:
    """Return the number of mebibytes of a validated `Size`."""
    number, unit = size[:-3].strip(), size[-3:]
    return int(number) * _MEBIBYTES[unit]


Size = Annotated[
    str,
    Matching(
        _SIZE, "{!r} is not an amount of memory", "write a number and MiB or GiB, as in '512 MiB'"
    ),
    AfterValidator(_enough),
]
"""An amount of memory: a number and a unit, such as `512 MiB` or `2 GiB`."""


class LoadingDeclaration(Declaration):
    """Limits for reading one document in a format that can consume a lot: HTML, PDF, Word,
    PowerPoint, Excel, EPUB, RTF and mail. A document that exceeds them fails; the others are still
    read."""

    max_memory: Size = Field(
        "384 MiB",
        description="Maximum memory of each process that reads documents, such as `512 MiB` or "
        "`2 GiB`; at least 64 MiB. Raise it if large documents fail. Enforced on Linux only.",
    )
    max_seconds: float = Field(
        30,
        gt=0,
        le=3600,
        description="Maximum time in seconds for reading one document. Raise it if large documents "
        "fail.",
    )
    processes: int | None = Field(
        None,
        ge=0,
        le=64,
        description="Number of processes that read documents at the same time. By default one per "
        "processor, at most 8. With 0, documents are read in the main process, without limits.",
    )


def _without_reserved(values: dict[str, Any]) -> dict[str, Any]:
    for name in values:
        refuse_reserved(name, name)
    return values


def _usable(names: list[str]) -> list[str]:
    for name in names:
        refuse_reserved(name)
        if name == "title":
            raise refused("the title is that of the document", "omit it here; it is in the text")
    return names


Names: TypeAlias = Annotated[
    list[Annotated[str, Field(min_length=1, max_length=200)]], Field(max_length=100)
]
"""Names of columns or keys in documents."""
MetadataNames: TypeAlias = Annotated[Names, AfterValidator(_usable)]
DocumentField: TypeAlias = Literal["title", "author", "created", "modified", "language"]
"""Metadata that many formats have, under names of their own."""
ValueType: TypeAlias = Literal["string", "number", "boolean", "date", "list"]
"""The type of a value in metadata."""


Sidecar: TypeAlias = Annotated[
    str,
    Matching(
        r"\*[^*?\[\]{}/\\]*\.json",
        "{!r} is not the name of a JSON file next to a document",
        "write '*' for the name of the document and then the rest, as in '*.meta.json'",
    ),
]
"""The names of the files with metadata of one document."""


class SourceMetadata(Settings):
    """Metadata that a source adds to the passages of its documents."""

    label: ClassVar[str] = "metadata of a source"

    static: Annotated[MetadataMap, AfterValidator(_without_reserved)] = Field(
        default_factory=dict, description="The same values for every document of the source."
    )
    from_path: Annotated[str, AfterValidator(checked_pattern)] | None = Field(
        None,
        description="A pattern that reads values from the uri of a document, which for a file is "
        "its path relative to the project folder: `docs/{team}/{year}/*.md`. Whole numbers and "
        "true and false get their type; all others are text.",
    )
    sidecar: Sidecar | None = Field(
        None,
        description="Files with the metadata of one document each, an object of JSON, such as "
        "`*.meta.json`; `*` is the name of the document next to it, with or without its extension: "
        "`a.md.meta.json` or `a.meta.json`. For files of the project folder.",
    )
    from_document: list[DocumentField] = Field(
        default_factory=empty_list,
        description="The properties to read from the documents: from front matter, the properties "
        "of PDF and Office, `meta` of HTML, mail headers. In documents without them, `modified` "
        "is the time of the file or the `Last-Modified` of the URL, and `language` the detected "
        "one.",
    )
    types: Annotated[dict[str, ValueType], AfterValidator(_without_reserved)] = Field(
        default_factory=dict,
        description="The types of values, by their key. A value that cannot be converted is "
        "omitted, and the report says so. Values of other keys keep their type; a text in the form "
        "of a date is a date.",
    )

    text_columns: Names = Field(
        default_factory=empty_list,
        description="The columns of CSV and XLSX files that are text. By default all.",
    )
    metadata_columns: MetadataNames = Field(
        default_factory=empty_list,
        description="The columns of CSV and XLSX files that become metadata of their row. Rows "
        "with different values are then in different passages.",
    )
    metadata_keys: MetadataNames = Field(
        default_factory=empty_list,
        description="The keys of JSON that become metadata: of the object in a file, of each "
        "object of its list, or of each line of JSON Lines. `owner.team` is the key `team` within "
        "`owner`.",
    )

    @property
    def reads_documents(self) -> bool:
        """Whether the metadata depends on the content of documents."""
        columns = (self.text_columns, self.metadata_columns, self.metadata_keys)
        return bool(self.from_document or self.types or any(columns))


class OcrSettings(Settings):
    """How the text of scanned pages and images is recognized; needs the extra `ocr`."""

    label: ClassVar[str] = "ocr of a source"

    when: Literal["textless", "always", "never"] = Field(
        "textless",
        description="`textless` recognizes pages without text, `always` replaces the text of every "
        "page, `never` reads no pages and no images.",
    )
    max_pages: int = Field(
        100,
        ge=1,
        le=5_000,
        description="Maximum number of pages to recognize in one document. A page takes some "
        "seconds. Further pages count as pages without text. Each picture in Word and PowerPoint "
        "counts as a page.",
    )
    model: str | None = Field(
        None,
        min_length=1,
        description="A folder with other ONNX models of PP-OCR, relative to the project folder: a "
        "file `*rec*.onnx`, and perhaps `*det*.onnx`, `*cls*.onnx` and the characters in a "
        "`*.txt`. Nothing is downloaded.",
    )

    @property
    def is_off(self) -> bool:
        return self.when == "never"

    def needs_trust(self) -> Iterator[tuple[str, Wants, str]]:
        yield "model", "read", OUTSIDE


class SourceBase(Declaration):
    """The base of all source declarations, including those of plugins."""

    label: ClassVar[str] = "source"
    kind_key: ClassVar[str] = "type"
    declares_uris: ClassVar[bool] = False
    """Whether the documents' URIs consist of declared text only and therefore contain no secret."""

    max_bytes: int = Field(
        DEFAULT_MAX_BYTES,
        ge=1,
        le=1024 * MEGABYTE,
        description="Maximum size of one document in bytes; a larger document fails. By default "
        "4 MiB. For PDF and images, see `max_scan_bytes`.",
    )
    max_scan_bytes: int = Field(
        DEFAULT_MAX_SCAN_BYTES,
        ge=1,
        le=1024 * MEGABYTE,
        description="Maximum size of a PDF or an image in bytes, if it is more than `max_bytes`. "
        "By default 32 MiB.",
    )
    ocr: OcrSettings | None = Field(
        None,
        description="How the text of scanned pages and images is recognized. By default, pages "
        "without text are recognized if the extra `ocr` is installed.",
    )
    on_textless_pages: Literal["warn", "fail", "ignore"] = Field(
        "warn",
        description="Decides about documents in which pages, slides, sheets, chapters, cells or "
        "images have no text that can be searched: `warn` counts them in plans and reports, `fail` "
        "refuses the document, `ignore` does not report them.",
    )
    metadata: SourceMetadata | None = Field(
        None, description="Values added to the metadata of its passages, to filter by."
    )

    @model_validator(mode="after")
    def _has_files_for_sidecars(self) -> Self:
        if self.metadata is not None and self.metadata.sidecar and not self.has_files:
            message = "only files of the project folder have a sidecar"
            hint = "omit it, or use markdown_glob or file_glob"
            raise refused(message, hint, "metadata", "sidecar")
        return self

    @property
    def has_files(self) -> bool:
        """Whether it reads files of the project folder."""
        return False

    @property
    def size_limit(self) -> SizeLimit:
        return SizeLimit(self.max_bytes, self.max_scan_bytes)

    @property
    def names(self) -> list[str] | None:
        """The settings that identify this source, as part of its key; None means all settings."""
        return None


def one_of(*alternatives: dict[str, Any]) -> ConfigDict:
    """Return a model configuration whose JSON Schema requires one of the alternatives."""
    return ConfigDict(json_schema_extra={"anyOf": list(alternatives)})


SourceDeclaration: TypeAlias = Annotated[
    SourceBase,
    KindRegistry("sources", SourceBase),
]
"""A source, selected by `type`: built in or from a plugin."""
