"""Retries of transient failures, and rate limits."""
