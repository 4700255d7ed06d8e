"""Read HTML pages: parse them, remove boilerplate, and write the content as text."""
