"""Several processes and machines that embed the texts of ingests together."""
