"""Generate the home page of the site from the README, so that both have the same words."""

from __future__ import annotations

import re
from pathlib import Path

PAGE = "docs/index.md"
ROOT = Path(__file__).parents[2]

_SITE = re.compile(
    r"https://(?:github|raw\.githubusercontent)\.com/lorebind/lorebind/(?:blob/)?main/docs/"
)
_RUN_IN = re.compile(r"^<!-- run in .*? -->\n\n", re.MULTILINE)
_DEVELOP = re.compile(r"^## Develop\n.*?(?=^\[\w)", re.MULTILINE | re.DOTALL)


def home_page() -> str:
    """Return the README without its part for developers; links to pages stay within the site."""
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    return _SITE.sub("", _DEVELOP.sub("", _RUN_IN.sub("", readme)))
