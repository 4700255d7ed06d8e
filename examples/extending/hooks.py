"""A wrapper around searches, and an extension that writes an audit log."""

import dataclasses
from pathlib import Path

from lorebind import Extension
from lorebind.plugin import Wrapper

HERE = Path(__file__).parent


class Lowercase(Wrapper):
    """Ignores the difference between upper and lower case in questions."""

    def retrieval(self, inner):
        async def lowercase(request):
            return await inner(dataclasses.replace(request, question=request.question.lower()))

        return lowercase


class Audit(Extension):
    """Writes a line per search: the knowledge base and the number of passages, but not the
    question."""

    def __init__(self, file):
        self.file = HERE / file

    def retrieval_completed(self, event):
        with self.file.open("a") as lines:
            lines.write(f"{event.kb_id}: {event.data['matches']} passages\n")
