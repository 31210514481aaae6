"""Everything that a reply can grant, and every way in which that reply can be lost."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from tests.arguments import HANDOFF

from conch.app import App
from conch.tools.replies import Delivery, Reply
from conch.upkeep.verify import verify_store


class Scene:
    """Bob gets something in a room with ada, and with an agent that is gone."""

    def __init__(self, app: App, enter: Any, child: Callable[[], Any], clock: Any) -> None:
        self.app, self.clock = app, clock
        self._child, self._third = child(), child()
        self.ada, self.bob = enter("ada:1"), enter("bob:2", self._child.process)
        self.gone = enter("gone:3", self._third.process)

    def end_bob(self) -> None:
        self._child.kill()

    def end_the_third(self) -> None:
        self._third.kill()

    def has_stick(self) -> bool:
        return bool(self.ada.data("get_room_state")["room"]["owner"] == "bob:2")

    def has_offer(self) -> bool:
        return bool(self.ada.data("get_room_state")["room"]["reserved_for"] == "bob:2")

    def has_reservation(self) -> bool:
        return [each["agent_id"] for each in self.ada.data("scope_list")["reservations"]] == ["bob:2"]

    def has_read(self) -> bool:
        return bool(self.bob.read(self.bob.home) == [])

    def has_seen(self) -> bool:
        return bool(self.bob.data("listen", wait_seconds=0)["status"] == "timeout")


class Grant(NamedTuple):
    prepare: Callable[[Scene], object]
    make: Callable[[Scene], Reply]
    is_held: Callable[[Scene], bool]
    again: Callable[[Scene], Reply] | None = None
    """The call that asks for it again, if it tells of the same thing."""


def pass_stick(scene: Scene, to: str) -> None:
    scene.ada.data("wait_for_turn")
    scene.ada.data("pass_stick", to_agent_id=to, handoff=HANDOFF)


def keep_silent(scene: Scene) -> None:
    """The agent that is gone still holds the stick."""
    scene.gone.data("wait_for_turn")
    scene.end_the_third()


def leave_work(scene: Scene) -> None:
    scene.gone.reserve("src")
    scene.end_the_third()


def leave_offer(scene: Scene) -> None:
    pass_stick(scene, "gone:3")
    scene.gone.reserve("src")
    scene.end_the_third()


def wait(scene: Scene) -> Reply:
    return scene.bob.call("wait_for_turn", max_wait_ms=0)


def take_over(scene: Scene) -> Reply:
    return scene.bob.call("takeover_stick", expected_turn_id=1, reason="it is gone")


def reserve(scene: Scene) -> Reply:
    return scene.bob.call("scope_reserve", scope="src", takeover_stale=True)


def adopt(scene: Scene) -> Reply:
    return scene.bob.call("agent_adopt", name="gone:3", scope="*")


def notify(scene: Scene) -> None:
    payload = {"subject": "CI", "blocker": "no token", "requested_action": "add one", "urgency": "high"}
    scene.ada.data("event_send", event_type="BLOCKED", to_agent="bob:2", payload=payload)


GRANTS = {
    "stick": Grant(lambda scene: None, wait, Scene.has_stick, wait),
    "stick, kept by a heartbeat": Grant(
        lambda scene: None, wait, Scene.has_stick, lambda scene: scene.bob.call("heartbeat")
    ),
    "offered stick": Grant(lambda scene: pass_stick(scene, "bob:2"), wait, Scene.has_stick, wait),
    "heard stick": Grant(
        lambda scene: pass_stick(scene, "bob:2"),
        lambda scene: scene.bob.call("listen", wait_seconds=0),
        Scene.has_stick,
        wait,
    ),
    "takeover": Grant(keep_silent, take_over, Scene.has_stick, wait),
    "reservation": Grant(lambda scene: None, reserve, Scene.has_reservation, reserve),
    "stale reservation": Grant(leave_work, reserve, Scene.has_reservation, reserve),
    "adopted reservation": Grant(leave_work, adopt, Scene.has_reservation, adopt),
    "adopted reservation, reserved again": Grant(leave_work, adopt, Scene.has_reservation, reserve),
    "adopted offer": Grant(leave_offer, adopt, Scene.has_offer, adopt),
    "messages": Grant(
        lambda scene: scene.ada.send(scene.ada.home, "hello"),
        lambda scene: scene.bob.call("sync", topic_id=scene.bob.home, wait_seconds=0),
        Scene.has_read,
    ),
    "notices": Grant(notify, lambda scene: scene.bob.call("event_inbox"), Scene.has_seen),
    "news": Grant(notify, lambda scene: scene.bob.call("listen", wait_seconds=0), Scene.has_seen),
}


def cancel(delivery: Delivery) -> None:
    delivery.retracted(lambda task: task())


def cancel_after_reading(delivery: Delivery) -> None:
    delivery.read()
    cancel(delivery)


def leave_unread(delivery: Delivery) -> None:
    delivery.unread(lambda task: task())


LOSSES = {"cancelled": cancel, "cancelled after it was read": cancel_after_reading, "unread": leave_unread}
every_grant = pytest.mark.parametrize("grant", GRANTS.values(), ids=GRANTS)
every_loss = pytest.mark.parametrize("lose", LOSSES.values(), ids=LOSSES)
grants_told_again = pytest.mark.parametrize(
    "grant", [each for each in GRANTS.values() if each.again], ids=[name for name in GRANTS if GRANTS[name].again]
)


@pytest.fixture
def scene(app: App, enter: Any, child: Callable[[], Any], clock: Any, workspace: str) -> Scene:
    subprocess.run(["git", "init", "-q", workspace], check=True)
    Path(workspace, "src").mkdir()
    Path(workspace, "src", "new.py").write_text("")
    return Scene(app, enter, child, clock)


def granted(scene: Scene, grant: Grant) -> Delivery:
    grant.prepare(scene)
    reply = grant.make(scene)
    assert not reply.is_error, reply.text
    return reply.delivery


@every_loss
@every_grant
def test_what_a_lost_reply_granted_is_taken_back(scene: Scene, grant: Grant, lose: Callable[[Delivery], None]) -> None:
    delivery = granted(scene, grant)

    lose(delivery)
    lose(delivery)  # a door may try again

    assert not grant.is_held(scene)
    assert verify_store(scene.app.store).problems == []


@every_grant
def test_what_a_reply_granted_that_was_read_stays(scene: Scene, grant: Grant) -> None:
    delivery = granted(scene, grant)

    delivery.read()

    assert grant.is_held(scene)


@pytest.mark.parametrize("lost", ["first", "second"])
@every_loss
@grants_told_again
def test_what_was_granted_stays_if_another_reply_that_tells_of_it_was_read(
    scene: Scene, grant: Grant, lose: Callable[[Delivery], None], lost: str
) -> None:
    assert grant.again is not None
    replies = [granted(scene, grant), grant.again(scene).delivery]
    missed, other = replies if lost == "first" else reversed(replies)
    other.read()

    lose(missed)

    assert grant.is_held(scene)
    assert verify_store(scene.app.store).problems == []


@grants_told_again
def test_what_was_granted_stays_after_a_cancellation_if_another_reply_may_be_read(scene: Scene, grant: Grant) -> None:
    assert grant.again is not None
    first = granted(scene, grant)
    grant.again(scene)

    cancel(first)

    assert grant.is_held(scene)


@grants_told_again
def test_what_was_granted_is_taken_back_if_it_is_unread_although_it_was_asked_for_again(
    scene: Scene, grant: Grant
) -> None:
    assert grant.again is not None
    first, second = granted(scene, grant), grant.again(scene).delivery

    leave_unread(first)
    leave_unread(second)

    assert not grant.is_held(scene)
    assert verify_store(scene.app.store).problems == []


@every_loss
@grants_told_again
def test_what_a_lost_reply_granted_is_taken_back_from_an_agent_that_is_gone(
    scene: Scene, grant: Grant, lose: Callable[[Delivery], None]
) -> None:
    delivery = granted(scene, grant)
    scene.end_bob()

    lose(delivery)

    assert not grant.is_held(scene)
    assert verify_store(scene.app.store).problems == []


@every_loss
def test_a_turn_whose_lease_was_named_stays(scene: Scene, lose: Callable[[Delivery], None]) -> None:
    reply = wait(scene)
    scene.bob.call("release_stick", lease_id=reply.data["lease_id"], expected_turn_id=7, handoff=HANDOFF)  # refused

    lose(reply.delivery)

    assert scene.has_stick()
