"""The documents of a knowledge base: to be listed, added and deleted one by one."""
