"""How passages are written into a prompt, and how they are read out of one again."""
