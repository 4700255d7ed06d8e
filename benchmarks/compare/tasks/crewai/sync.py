"""Build the index of the folder docs again, then answer: `python sync.py QUESTION`.

Without `reset`, passages that are no longer in the files stay in the index.
"""

import sys
from pathlib import Path

from crewai.knowledge.knowledge import Knowledge
from crewai.knowledge.source.text_file_knowledge_source import TextFileKnowledgeSource
from embedding import EMBEDDER

source = TextFileKnowledgeSource(
    file_paths=sorted(Path("docs").rglob("*.md")), chunk_size=600, chunk_overlap=90
)
knowledge = Knowledge(collection_name="docs", sources=[source], embedder=EMBEDDER)
knowledge.reset()
knowledge.add_sources()
for question in sys.argv[1:]:
    for number, hit in enumerate(knowledge.query([question], results_limit=3), 1):
        print(f"[{number}]\n{hit['content']}\n")
