"""Configuration: what a project can declare, and how it is read, checked and edited."""
