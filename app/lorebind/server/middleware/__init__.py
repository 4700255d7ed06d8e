"""The checks before a request reaches a route: host, token, rate limit, size and time limit."""
