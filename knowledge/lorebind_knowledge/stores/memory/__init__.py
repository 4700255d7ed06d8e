"""The store in this process, for tests and notebooks."""
