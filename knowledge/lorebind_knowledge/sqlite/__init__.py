"""SQLite files: opening them, sharing connections among threads, and writing one at a time."""
