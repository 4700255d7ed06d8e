"""BM25 with the same meaning in every database: how texts and questions are split into words."""
