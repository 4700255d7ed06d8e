"""Evaluation: measure the results of searches against human relevance judgements."""
