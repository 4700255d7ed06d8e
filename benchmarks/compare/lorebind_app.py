"""Answer questions from a folder of Markdown files: `python lorebind_app.py QUESTION …`."""

import sys

from lorebind import Project

DECLARED = {
    "name": "shop",
    "models": [{"id": "default", "provider": "openai", "model": "gpt-4o-mini"}],
    "knowledge_bases": [
        {
            "id": "handbook",
            "sources": [{"type": "markdown_glob", "path": "documents/**/*.md"}],
            "chunking": {"strategy": "markdown"},
            "retrieval": {"top_k": 3},
        }
    ],
}

with Project.build(DECLARED) as project:
    project.ingest("handbook")
    for question in sys.argv[1:]:
        answer = project.ask(question)
        print(answer.text, [citation.label for citation in answer.citations])
