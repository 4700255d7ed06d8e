"""BM25, with one meaning in every database: how texts and questions become words."""
