"""The source `url`: documents on the web, one per address."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from pydantic import Field, model_validator

from lorebind_config.declarations.base import Fault, RefusedError, Settings, empty_list
from lorebind_config.declarations.sources import SourceBase, one_of
from lorebind_config.declarations.values import ConfigMap, WebAddress
from lorebind_knowledge.sources.base import SourceItem, public_address, without_credentials

if TYPE_CHECKING:
    from lorebind_config.declarations.base import Wants
    from lorebind_knowledge.sources.make import SourceEnvironment
    from lorebind_knowledge.sources.web.fetcher import Fetcher

A_URL: dict[str, Any] = {"required": ["url"], "properties": {"url": {"type": "string"}}}
URLS: dict[str, Any] = {"required": ["urls"], "properties": {"urls": {"minItems": 1}}}


class FetchConfig(Settings):
    """Settings for fetching documents. Private addresses are refused unless allowed here."""

    templated: ClassVar[tuple[str, ...]] = ("headers",)

    timeout_seconds: float = Field(
        30, gt=0, le=3600, description="Seconds that a document may take, including redirects."
    )
    max_redirects: int = Field(3, ge=0, le=20, description="Maximum number of redirects to follow.")
    allow: list[str] = Field(
        default_factory=empty_list,
        description="Hosts, addresses and networks that may be reached although they are private.",
    )
    headers: ConfigMap = Field(
        default_factory=dict,
        description="Headers for the addresses written here, not for other hosts in redirects.",
    )

    def needs_trust(self) -> Iterator[tuple[str, Wants, str]]:
        if self.allow:
            yield "allow", "reach", f"addresses of private networks: {', '.join(self.allow)}"


class Web(SourceBase):
    """Settings of all sources that fetch documents."""

    url: WebAddress | None = Field(None, description="An http or https address.")
    urls: list[WebAddress] = Field(
        default_factory=empty_list, description="More addresses, with or without `url`."
    )
    fetch: FetchConfig = Field(default_factory=FetchConfig, description="How to fetch documents.")

    @property
    def addresses(self) -> list[str]:
        """All addresses of the source, in the order written: `url`, then `urls`."""
        return ([self.url] if self.url is not None else []) + self.urls


class UrlSource(Web):
    """Documents on the web, one per address, in any format that a loader reads."""

    declares_uris: ClassVar[bool] = True

    model_config = one_of(A_URL, URLS)  # the same as `_has_an_address`
    templated: ClassVar[tuple[str, ...]] = ("url", "urls")

    type: Literal["url"] = Field(description="Documents by address.")

    @model_validator(mode="after")
    def _has_an_address(self) -> UrlSource:
        if not self.addresses:
            raise RefusedError([Fault("the source names no address", "write 'url' or 'urls'")])
        return self

    @property
    def names(self) -> list[str]:
        return self.addresses


Declaration = UrlSource


def make(declaration: Web, environment: SourceEnvironment) -> WebSource:
    from lorebind_knowledge.sources.web.fetcher import Fetcher

    addresses = [filled.addresses for filled in environment.filled(declaration)]
    fetch = declaration.fetch
    fetcher = Fetcher(
        timeout_seconds=fetch.timeout_seconds,
        max_redirects=fetch.max_redirects,
        allow=fetch.allow,
        headers=environment.filled(fetch)[0].headers,
        max_bytes=declaration.max_bytes,
        max_scan_bytes=declaration.max_scan_bytes,
    )
    return WebSource(environment.key, list(zip(*addresses, strict=True)), fetcher)


@dataclass(frozen=True)
class WebSource:
    """A source with one document per address.

    The uri of a document is its address without user, password and fragment.
    """

    key: str
    addresses: Sequence[tuple[str, str]]
    """Each as it is fetched, and as it is shown (with templates instead of values)."""
    fetcher: Fetcher

    def items(self) -> Iterator[SourceItem]:
        for address, public in self.addresses:
            read = partial(self.fetcher.fetch, address, name=public_address(public))
            yield SourceItem(without_credentials(public), read)
