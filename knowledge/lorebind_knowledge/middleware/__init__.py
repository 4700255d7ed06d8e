"""What stands around embedders, stores and searches, and the one place where it is put together."""
