"""PostgreSQL access for every part that stores data there: addresses, connections, errors."""
