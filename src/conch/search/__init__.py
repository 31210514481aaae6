"""Search over the messages: by their words, by their meaning, or both.

Only `search.py` is imported before somebody searches; it imports the others when that happens.
"""
