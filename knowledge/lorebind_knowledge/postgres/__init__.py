"""PostgreSQL, for every part that keeps something there: addresses, connections, errors."""
