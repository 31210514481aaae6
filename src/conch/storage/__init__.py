"""Engines: how to run a query, and what a transaction locks."""

from __future__ import annotations
