"""Documents on the web: addresses, what may be reached, and what is fetched."""
