"""Tables of any kind in SQLite or PostgreSQL: made, migrated, read and written."""
