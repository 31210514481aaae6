"""The stick: leases, waiting for it, and handing it over."""

from __future__ import annotations
