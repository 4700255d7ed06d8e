"""What counts the tokens of a model, where the YAML says it."""
