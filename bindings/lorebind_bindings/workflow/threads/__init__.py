"""Storage for workflow threads: checkpointers, locks, and the records of finished tasks."""
