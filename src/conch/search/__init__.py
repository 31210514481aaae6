"""Search over the messages: by their words, by their meaning, or both.

Only `search.py` is imported at the start; the first search imports the others.
"""
