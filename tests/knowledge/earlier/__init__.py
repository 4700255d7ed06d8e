"""What the version before wrote, and the project that it was written of."""
