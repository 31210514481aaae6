"""Checks arguments against the top level of a tool's JSON Schema, and that every text can be stored.

The domains check what is inside a handoff or a policy: they can give better reasons than a schema.
"""

from __future__ import annotations

from conch.errors import InvalidArgument, InvalidHandoff, LimitExceeded
from conch.lean import Any
from conch.tools.replies import Object

_TYPES: dict[str, tuple[type | tuple[type, ...], str]] = {
    "string": (str, "a string"),
    "integer": (int, "a whole number"),
    "number": ((int, float), "a number"),
    "boolean": (bool, "true or false"),
    "object": (dict, "an object"),
    "array": (list, "a list"),
}
# These are checked, but not listed: a model rarely meets them, and an error explains them better.
_UNLISTED = ("minLength", "maxLength", "minimum", "maximum", "is_open")
_DEEPEST = 32  # far below the depth at which JSON encoders fail
_DEEPEST_NAMED = 3  # an error names fields down to `outbox[0].metadata.to`, and no deeper


def listed_schema(schema: Any) -> Any:
    """The schema as a client sees it, without the bounds."""
    if isinstance(schema, dict):
        return {name: listed_schema(value) for name, value in schema.items() if name not in _UNLISTED}
    return [listed_schema(item) for item in schema] if isinstance(schema, list) else schema


def check_arguments(tool: str, schema: Object, arguments: Object) -> Object:
    """Return the arguments without optional ones that are null. A refusal names the field."""
    properties: Object = schema["properties"]
    required = schema.get("required", ())
    for field in arguments:
        if field not in properties:
            known = ", ".join(properties) or "none"
            # If a misspelled field were ignored, the call would do something other than what was asked.
            raise InvalidArgument(f"{field[:80]!r} is not a field of {tool}. Its fields: {known}.", field=field[:80])
    # Many clients send null for a field that they leave out.
    given = {field: value for field, value in arguments.items() if value is not None or field in required}
    for field in required:
        if field not in given:
            raise _refusal(field, f"{field} is required.")
    for field, value in given.items():
        if type(value) is str and _is_plainly_right(properties[field], value):
            continue
        _check_value(field, properties[field], value)
        check_texts(field, value)
    return given


def _is_plainly_right(schema: Object, value: str) -> bool:
    """Whether a text is plainly valid, as almost every id is. The slower checks also find out what is wrong."""
    return (
        value.isascii()
        and value.isprintable()
        and schema.get("type") == "string"
        and "enum" not in schema
        and schema.get("minLength", 0) <= len(value.strip())
        and len(value) <= schema.get("maxLength", len(value))
    )


def _check_value(field: str, schema: Object, value: Any) -> None:
    schema = _fitting(field, schema, value)
    if "enum" in schema and value not in schema["enum"] and "is_open" not in schema:
        raise _refusal(field, f"{field} must be one of {', '.join(map(str, schema['enum']))}.")
    if isinstance(value, str):
        _check_length(field, schema, value)
    elif isinstance(value, int):
        if not schema.get("minimum", value) <= value <= schema.get("maximum", value):
            wanted = f"a whole number from {schema.get('minimum')} to {schema.get('maximum')}"
            raise _refusal(field, f"{field} must be {wanted}.")
    elif isinstance(value, list) and not all(_is_type(item, schema["items"]["type"]) for item in value):
        raise _refusal(field, f"Every item of {field} must be {_TYPES[schema['items']['type']][1]}.")


def _fitting(field: str, schema: Object, value: Any) -> Object:
    """The schema of the value's type: the given one, or one of its choices."""
    if "anyOf" not in schema and _is_type(value, schema["type"]):
        return schema
    choices: list[Object] = schema.get("anyOf", [schema])
    for choice in choices:
        if _is_type(value, choice["type"]):
            return choice
    wanted = " or ".join(_TYPES[choice["type"]][1] for choice in choices)
    raise _refusal(field, f"{field} must be {wanted}.")


def _check_length(field: str, schema: Object, value: str) -> None:
    if len(value.strip()) < schema.get("minLength", 0):
        raise _refusal(field, f"{field} must be non-empty.")
    limit = schema.get("maxLength", len(value))
    if len(value) > limit:
        message = f"{field} is {len(value)} characters long; at most {limit} are allowed."
        raise LimitExceeded(message, field=field, limit=limit, actual=len(value))


def _is_type(value: Any, name: str) -> bool:
    # Python counts True among the integers; JSON does not.
    return isinstance(value, _TYPES[name][0]) and (name == "boolean" or not isinstance(value, bool))


def check_texts(field: str, value: Any, depth: int = 0) -> None:
    """Refuse NUL and half a surrogate pair, which no store can keep, and very deep nesting."""
    if isinstance(value, str):
        if "\0" in value:
            raise _refusal(field, f"{field} contains a NUL character; remove it.")
        if not value.isascii() and any("\ud800" <= letter <= "\udfff" for letter in value):
            raise _refusal(field, f"{field} contains half of a surrogate pair, which is not valid Unicode.")
    elif isinstance(value, (dict, list)):
        if depth == _DEEPEST:
            raise _refusal(field, f"{field} is nested more than {_DEEPEST} levels deep.")
        is_named = depth < _DEEPEST_NAMED and field != "handoff"  # `rooms/handoffs.py` names the parts of a handoff
        if isinstance(value, list):
            for place, item in enumerate(value):
                check_texts(f"{field}[{place}]" if is_named else field, item, depth + 1)
            return
        for name, item in value.items():
            check_texts(field, name, depth + 1)
            check_texts(f"{field}.{name[:80]}" if is_named else field, item, depth + 1)


def _refusal(field: str, message: str) -> InvalidArgument:
    kind = InvalidHandoff if field == "handoff" else InvalidArgument
    return kind(message, field=field)
