"""The kinds of tasks."""
