"""A real console in a real browser: `conch serve` on a loopback port, and headless Chromium."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.browser.serving import CHROMIUM, OPTIONS, Console, stage

playwright = pytest.importorskip("playwright.sync_api", reason="`make test-browser` installs Playwright.")

AXE = Path(__file__).parent / "axe/node_modules/axe-core/axe.min.js"


@pytest.fixture(scope="session")
def chromium() -> Iterator[Any]:
    if CHROMIUM is None:
        pytest.skip("There is no Chromium; install the package `chromium`.")
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=CHROMIUM, args=OPTIONS)
        yield browser
        browser.close()


@pytest.fixture(scope="session")
def gallery(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Console]:
    """A console to look at. Tests that change something use their own."""
    with stage(tmp_path_factory.mktemp("gallery")) as console:
        yield console


@pytest.fixture
def console(tmp_path: Path) -> Iterator[Console]:
    with stage(tmp_path) as console:
        yield console


@pytest.fixture
def visit(chromium: Any) -> Iterator[Callable[..., Any]]:
    """Open a page of a console in a browser of its own. An error of a script fails the test."""
    contexts, errors = [], list[str]()

    def visit(console: Console, path: str = "/", **options: Any) -> Any:
        context = chromium.new_context(**{"viewport": {"width": 1280, "height": 900}, **options})
        context.set_default_timeout(15_000)
        contexts.append(context)
        page = context.new_page()
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.goto(console.enter(path.partition("?")[0]))
        if "?" in path:
            page.goto(console.address + path)
        page.locator("h1").first.wait_for()
        return page

    yield visit
    for context in contexts:
        context.close()
    assert errors == []


@pytest.fixture
def find_problems() -> Callable[[Any], list[str]]:
    """What axe-core finds serious or critical on a page."""
    if not AXE.exists():
        pytest.skip("`make test-browser` installs axe-core with npm.")

    def find(page: Any) -> list[str]:
        page.evaluate(AXE.read_text())
        found = page.evaluate("axe.run()")["violations"]
        return [
            f"{each['id']}: {each['nodes'][0]['target']}" for each in found if each["impact"] in ("serious", "critical")
        ]

    return find
