"""Topics, messages, cursors and questions."""

from __future__ import annotations
