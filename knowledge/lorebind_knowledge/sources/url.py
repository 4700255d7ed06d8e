"""`url`: documents on the web, one for each address."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from lorebind_knowledge.sources.base import SourceItem
from lorebind_knowledge.sources.web_address import shown, without_credentials

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from lorebind_knowledge.sources.fetcher import Fetcher


class WebSource:
    """Each address is a document, whose uri is the address without user, password and fragment."""

    def __init__(
        self, key: str, addresses: Iterable[tuple[str, str, str]], fetcher: Fetcher
    ) -> None:
        """
        Args:
            key: the source's key.
            addresses: each as it is fetched, as it is shown, and as it was shown by earlier
                versions: with templates in place of the values of variables, and with some values.
            fetcher: what fetches them.
        """
        self.key = key
        self._addresses = list(addresses)
        self._fetcher = fetcher

    def items(self) -> Iterator[SourceItem]:
        for address, public, former in self._addresses:
            read = partial(self._fetcher.fetch, address, name=shown(public))
            yield SourceItem(without_credentials(public), read, without_credentials(former))
