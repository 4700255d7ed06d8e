"""What orders the best passages once more, by reading question and passage together."""
