"""The documents of a knowledge base: listing, adding and deleting them individually."""
