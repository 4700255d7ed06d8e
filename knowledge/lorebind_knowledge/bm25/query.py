"""From a question to the words worth looking for."""

from __future__ import annotations

import re

# English words that say how a sentence is built rather than what it is about.
_STOP_WORDS = """
a about above after again against all also am an and any are as at be because been before being
below between both but by can could did do does doing down during each few for from further had
has have having he her here hers herself him himself his how i if in into is it its itself just
me more most my myself no nor not now of off on once only or other our ours ourselves out over
own same she should so some such than that the their theirs them themselves then there these
they this those through to too under until up very was we were what when where which while who
whom why will with would you your yours yourself yourselves
"""
STOP_WORDS = frozenset(_STOP_WORDS.split())

_WORD = re.compile(r"[^\W_]+")


def query_words(question: str) -> list[str]:
    """The words of a question in lower case, without stop words and single letters.

    As in texts, an underscore ends a word: `max_tokens` is looked for as two.
    A word that comes twice is given twice: long questions repeat what they are about, and BM25
    weights it so. A single character outside ASCII stays, it may be a word of its own.
    """
    words = _WORD.findall(question.lower())
    return [word for word in words if word not in STOP_WORDS and (len(word) > 1 or word > "\x7f")]
