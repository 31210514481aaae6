"""What a store forgets: old rows by a policy, and a message that a person redacts."""

from __future__ import annotations
