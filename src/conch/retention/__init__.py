"""What a store forgets: old rows by a policy, and one message by a person's word."""

from __future__ import annotations
