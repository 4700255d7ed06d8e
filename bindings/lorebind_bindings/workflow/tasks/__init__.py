"""The kinds of tasks, each in a file named after it with a function `work`."""
