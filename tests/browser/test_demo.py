"""The demo, seen in the console."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.browser.scene import Scene
from tests.browser.serving import Console, end, environment, serve


@pytest.fixture
def demo(tmp_path: Path) -> Iterator[Console]:
    """The console of the store that `conch demo` leaves behind."""
    environ = environment(tmp_path)
    command = [sys.executable, "-m", "conch", "demo", "--keep"]
    said = subprocess.run(command, env=environ, capture_output=True, text=True, check=True, timeout=60).stdout
    found = re.search(r"CONCH_DATA_DIR=(\S+)", said)
    assert found is not None, said
    scene = Scene({**environ, "CONCH_DATA_DIR": found[1]}, tmp_path)
    console = serve(scene)
    yield console
    end(console)
    scene.close()
    shutil.rmtree(Path(found[1]).parent)


def test_the_demo_is_told_in_rooms_lanes_and_rows(demo: Console, visit: Callable[..., Any]) -> None:
    page = visit(demo)

    page.get_by_role("link", name="checkout").click()
    page.locator(".chart .turn").first.wait_for()
    rows = page.locator("#timeline > li")
    said = " ".join(" ".join(rows.all_text_contents()).split())

    assert page.locator(".chart .turn").count() == 9
    assert page.locator(".chart .arrow.taken").count() == 2
    assert (
        page.locator(".chart .died").count() == 2
    )  # the one that crashed, and the last one, which ended with the demo
    assert "Passed to" in said
    assert "took over from claude" in said
    assert "step 3 now covers stale entries" in said
    assert "plan.md:3" in said
