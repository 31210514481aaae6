"""Prompts: what a user can ask an agent to do with conch. Harnesses show them as commands such as `/conch:join`."""

from __future__ import annotations

from collections.abc import Container

from conch.errors import InvalidArgument
from conch.lean import NamedTuple
from conch.tools.offers import compose
from conch.tools.replies import Object

_LONGEST_ARGUMENT = 2_000


class Prompt(NamedTuple):
    name: str
    title: str
    description: str
    needs: str
    """The tool without which the prompt makes no sense."""
    text: str
    """It names tools in backticks, like every text for models."""
    arguments: dict[str, tuple[str, str]]
    """By name: its description, and the sentence that it adds to the text."""

    def listed(self) -> Object:
        takes = [{"name": name, "description": about[0], "required": False} for name, about in self.arguments.items()]
        return {"name": self.name, "title": self.title, "description": self.description, "arguments": takes}


PROMPTS = (
    Prompt(
        "join",
        "Join the other agents",
        "Join the room of this workspace and wait for your turn.",
        "join_path",
        "Join the other agents that work in this checkout through conch. Call `join_path`, and tell me in three lines "
        "who is here, who holds the stick and what is reserved. Read your notices with `event_inbox`, and answer the "
        "questions that you can answer. Then call `wait_for_turn`, change no shared file before it returns your_turn, "
        "and read the handoff first. To change only a few files while others work, reserve them with "
        "`scope_reserve` instead.",
        {"task": ("What to do once it is your turn.", "Once you may work, do this")},
    ),
    Prompt(
        "handover",
        "Hand over the stick",
        "Finish now and hand the stick over, with a truthful handoff.",
        "release_stick",
        "Hand over the stick now. Bring your work to a state that another agent can continue, and save it. Then call "
        "`release_stick` with a handoff. Its status says truthfully what you did, what you learned and which risks "
        "are open. Its next_action is one concrete step. Its artifacts name the files and lines that the next agent "
        "must open. Release your reservations with `scope_release`. If you do not hold the stick, only tell me so.",
        {
            "to": ("Who should get the stick: a label or a name.", "Use `pass_stick` and give the stick to"),
            "next_action": ("What the next agent should do.", "The next_action must say"),
        },
    ),
    Prompt(
        "status",
        "What is going on",
        "Say who works here, what waits, and what you should do next.",
        "get_room_state",
        "Tell me what is going on in this workspace, in at most ten lines. Call `get_room_state`, and `join_path` "
        "first if you have not joined. Look at the last handoffs with `get_room_events`, at the reservations with "
        "`scope_list`, at your notices with `event_inbox` and at open questions with `pending_list`. Say who holds the "
        "stick and since when, who waits, what is reserved, and what waits for you or for me. Change nothing.",
        {},
    ),
)


def offered_prompts(offered: Container[str]) -> list[Prompt]:
    """The prompts for a client that is offered these tools, in words for it."""
    return [_narrow(prompt, offered) for prompt in PROMPTS if prompt.needs in offered]


def _narrow(prompt: Prompt, offered: Container[str]) -> Prompt:
    composed = {
        name: (description, compose(sentence, offered).removesuffix("."))
        for name, (description, sentence) in prompt.arguments.items()
    }
    arguments = {name: about for name, about in composed.items() if about[1]}
    return prompt._replace(text=compose(prompt.text, offered), arguments=arguments)


def get_prompt(name: object, arguments: object, offered: Container[str]) -> Object:
    """The result of `prompts/get`. InvalidArgument says what is wrong with the request."""
    prompts = {prompt.name: prompt for prompt in offered_prompts(offered)}
    prompt = prompts.get(name) if isinstance(name, str) else None
    if prompt is None:
        raise InvalidArgument(f"There is no such prompt. The prompts are {', '.join(prompts)}.", field="name")
    sentences = [f"{prompt.arguments[key][1]}: {value}" for key, value in _check(prompt, arguments).items()]
    content = {"type": "text", "text": "\n".join([prompt.text, *sentences])}
    return {"description": prompt.description, "messages": [{"role": "user", "content": content}]}


def _check(prompt: Prompt, arguments: object) -> dict[str, str]:
    """The arguments that were given. Harnesses send an empty text for one that the user left out."""
    if arguments is None:
        return {}
    if not isinstance(arguments, dict):
        raise InvalidArgument("arguments must be an object.", field="arguments")
    for key, value in arguments.items():
        if key not in prompt.arguments:
            known = ", ".join(prompt.arguments) or "none"
            message = f"{str(key)[:80]!r} is not an argument of the prompt {prompt.name}. Its arguments: {known}."
            raise InvalidArgument(message, field="arguments")
        if not isinstance(value, str) or len(value) > _LONGEST_ARGUMENT:
            raise InvalidArgument(f"{key} must be a text of at most {_LONGEST_ARGUMENT} characters.", field=key)
    return {key: arguments[key].strip() for key in prompt.arguments if arguments.get(key, "").strip()}
