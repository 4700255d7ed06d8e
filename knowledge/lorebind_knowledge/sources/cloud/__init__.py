"""Objects in buckets of cloud providers."""
