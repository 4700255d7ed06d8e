"""The stored state of a server: tokens, created knowledge bases and requested runs."""
