"""What happens in a run of a workflow, for those who watch it."""
