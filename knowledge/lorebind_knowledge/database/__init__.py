"""Generic tables in SQLite or PostgreSQL: creating, migrating, reading and writing them."""
