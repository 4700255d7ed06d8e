"""Files of the project: globs, what is ignored, and templates in paths."""
