"""A wrapper around searches, and an extension that writes an audit log."""

import dataclasses
from pathlib import Path

from lorebind import Extension
from lorebind_knowledge.middleware.base import Wrapper

HERE = Path(__file__).parent


class Lowercase(Wrapper):
    """Makes no difference between questions that differ in capitals only."""

    def retrieval(self, inner):
        async def lowercase(asked):
            return await inner(dataclasses.replace(asked, question=asked.question.lower()))

        return lowercase


class Audit(Extension):
    """Writes a line for each search: what was searched, never what for."""

    def __init__(self, file):
        self.file = HERE / file

    def retrieval_completed(self, event):
        with self.file.open("a") as lines:
            lines.write(f"{event.kb_id}: {event.data['matches']} passages\n")
