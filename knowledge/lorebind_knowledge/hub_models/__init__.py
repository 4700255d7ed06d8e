"""Models from the Hugging Face hub that fastembed runs: their settings and their files."""
