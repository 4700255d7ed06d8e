"""Plumbing below all rooms: threads, event loops, processors, sessions of models, encodings."""
