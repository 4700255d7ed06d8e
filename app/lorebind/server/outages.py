"""Log an outage once when it begins and once when it is over, however often work fails."""

from __future__ import annotations

import logging

log = logging.getLogger("lorebind.server")


class OutageLog:
    """The outages of one part of the server."""

    def __init__(self, failure: str, recovery: str) -> None:
        """
        Args:
            failure: what fails during an outage, such as `the tokens cannot be read`.
            recovery: what works after it.
        """
        self._failure, self._recovery = failure, recovery
        self._lasts = False

    def failed(self, reason: object) -> None:
        """Log that an outage begins, unless it lasts already."""
        if not self._lasts:
            log.error("%s: %s", self._failure, reason)
        self._lasts = True

    def worked(self) -> None:
        """Log that an outage is over, if there was one."""
        if self._lasts:
            log.warning("%s", self._recovery)
        self._lasts = False
