"""HTML pages: parsed, cleaned of what is not content, and written as text."""
