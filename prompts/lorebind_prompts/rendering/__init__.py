"""Write passages into a prompt, and read them out of one again."""
