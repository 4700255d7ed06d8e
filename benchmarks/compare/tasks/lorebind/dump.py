"""Print the texts of all passages of the knowledge base, as JSON."""

import json

from lorebind import NotIngestedError, Project

with Project.load() as project:
    texts = []
    try:
        documents = [document.id for document in project.documents("docs")]
    except NotIngestedError:
        documents = []
    for document in documents:
        texts += [chunk.text for chunk in project.knowledge_base("docs").chunks(document)]
print(json.dumps(texts))
