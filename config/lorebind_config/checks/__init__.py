"""Checks of declarations beyond the type of a value: references, names, conditions, flow."""
