"""Knowledge bases as files: pack an index with its vectors, and unpack it into any store."""
