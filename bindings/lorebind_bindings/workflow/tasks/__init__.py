"""The kinds of tasks, each in a file named after it; `work` is what it does."""
