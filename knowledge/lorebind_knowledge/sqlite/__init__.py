"""SQLite files: how they are opened, lent to threads, and written in turn."""
