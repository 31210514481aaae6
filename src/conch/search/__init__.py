"""Search over messages: by words, by meaning, or both.

Only `search.py` is imported at start-up; the first search imports the others.
"""
