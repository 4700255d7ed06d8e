"""Texts taken apart, with one meaning each of word, stem, sentence, fence and language."""
