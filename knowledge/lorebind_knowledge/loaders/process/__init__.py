"""The processes that read documents within limits of memory and time."""
