"""Print the texts of all passages in the databases of Chroma below this folder, as JSON."""

import json
from pathlib import Path

import chromadb

texts = []
for database in Path().rglob("chroma.sqlite3"):
    client = chromadb.PersistentClient(str(database.parent))
    for collection in client.list_collections():
        texts += client.get_collection(collection.name).get()["documents"]
print(json.dumps(texts))
