"""The server of the tests: the wheel's, else the system's own. If there is neither, the tests say so."""

from __future__ import annotations

import psycopg
import pytest
from tests import conftest


def test_the_systems_own_server_serves() -> None:
    programs = conftest.find_the_systems()
    if programs is None:
        pytest.skip("there is no PostgreSQL of the system's own here")

    with conftest.run_the_systems(programs) as postgres, psycopg.connect(postgres.url) as connection:
        found = connection.execute("SHOW data_directory").fetchone()

    assert found is not None
    assert found[0].startswith(postgres.url.partition("host=")[2])


@pytest.mark.parametrize(("ci", "outcome"), [("true", pytest.fail.Exception), ("", pytest.skip.Exception)])
def test_without_any_server_tests_are_skipped_with_a_reason_and_fail_in_ci(
    monkeypatch: pytest.MonkeyPatch, ci: str, outcome: type[BaseException]
) -> None:
    monkeypatch.setattr(conftest, "find_spec", lambda name: None)
    monkeypatch.setattr(conftest, "find_the_systems", lambda: None)
    monkeypatch.setenv("CI", ci)

    with pytest.raises(outcome, match="There is no PostgreSQL for the tests"):
        conftest.run_postgres()
