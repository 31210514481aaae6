"""Mail must fit into the part of a reply that is kept for it, whatever others wrote."""

from __future__ import annotations

import json

import pytest

from conch.notices.mail import Mail, Waiting
from conch.tools.mail_view import view_mail
from conch.tools.pages import Budget

LIMIT = 32 * 1024


def waiting(letter: str, message_id: str) -> Waiting:
    return Waiting(7, f"topic_{8 * 'f0'}", message_id, letter * 48, "ada:1", letter * 120, "BLOCKED")


@pytest.mark.parametrize("letter", ["x", "\u00e9", "\x1b", "\U000e0001"])
def test_mail_fits_whatever_others_wrote(letter: str) -> None:
    hand_over, to_you, asked, notice, reserved = (waiting(letter, f"msg_{at}{7 * 'a0'}") for at in range(5))
    mail = Mail(hand_over, to_you, asked, notice, reserved, 99)

    shown, lines = view_mail(mail, Budget(LIMIT))

    texts = (json.dumps(each, ensure_ascii=False, separators=(",", ":")) for each in (shown, "\n".join(lines)))
    assert sum(len(text.encode()) for text in texts) <= LIMIT // 8
    assert shown["to_you"]["line"].startswith(letter * 15)
