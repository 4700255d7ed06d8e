"""What a server remembers: tokens, knowledge bases made over the API, and requested runs."""
