"""How good the answers of a search are, by judgements that people made."""
