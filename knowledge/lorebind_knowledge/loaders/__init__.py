"""From bytes to text, with the places of its headings."""
