"""Requirements of a project that its user must trust: code, variables, hosts and paths."""
