"""From a question to ranked passages, with one meaning of score."""
