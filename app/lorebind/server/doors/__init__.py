"""What a request passes before it reaches a route: hosts, tokens, rates, sizes, times."""
