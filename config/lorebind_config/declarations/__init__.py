"""The YAML declarations, as strict models that remember where each value was written."""
