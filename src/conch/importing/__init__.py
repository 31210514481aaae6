"""Imports the data of similar programs."""
