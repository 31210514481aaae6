"""Identifiers: fresh ones never repeat, fingerprints tell near neighbours apart."""

from __future__ import annotations

from conch.ids import digest, new_id, new_lease


def test_fresh_identifiers_say_what_they_are_and_never_repeat() -> None:
    made = [new_id("room") for _ in range(1_000)] + [new_lease() for _ in range(1_000)]

    assert len(set(made)) == 2_000
    assert made[0].startswith("room_")
    assert made[-1].startswith("lease_")


def test_a_digest_is_stable() -> None:
    assert digest("") == digest("")
    assert len(digest("conch")) == 32
    assert digest("conch") != digest("conchs")


def test_the_first_four_digits_of_neighbours_are_spread_evenly() -> None:
    prefixes = [digest(f"process:host:boot:{pid}:{pid * 7}")[:4] for pid in range(1_000, 3_000)]

    assert len(set(prefixes)) > 1_900  # 2,000 of 65,536: about 30 pairs meet by chance


def test_any_text_has_a_digest() -> None:
    assert digest("\ud800") != digest("\udfff")
