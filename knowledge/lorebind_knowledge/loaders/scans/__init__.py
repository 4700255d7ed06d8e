"""Scanned pages and images: their pictures, and the text that OCR recognizes in them."""
