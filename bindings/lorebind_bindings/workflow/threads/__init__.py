"""Where threads of workflows are kept: checkpointers, who runs a thread, and what is done in it."""
