from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conch.doors.mcp import protocol
from conch.doors.mcp.protocol import Refusal, decode, encode, parse, request_id_of
from conch.doors.mcp.stdio import Cut, LineSplitter

texts = st.text(st.characters(exclude_categories=()), max_size=20)
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=10,
)
keys = st.sampled_from(["jsonrpc", "id", "method", "params", "result", "error"])
messages = values | st.dictionaries(keys, values | st.sampled_from(["2.0", "ping", 1]))


@given(st.binary(max_size=200))
def test_any_line_is_a_value_or_refused(line):
    try:
        decode(line)
    except Refusal as refusal:
        assert refusal.code == -32700


@given(messages)
def test_any_value_is_a_message_or_refused(message):
    try:
        parse(message)
    except Refusal as refusal:
        assert refusal.code in (-32600, -32602)


@given(values)
def test_whatever_we_say_is_one_line_that_a_strict_reader_understands(value):
    line = encode({"value": value})

    assert b"\n" not in line
    understood = json.loads(line.decode("utf-8"))
    json.dumps(understood, ensure_ascii=False).encode("utf-8")


def split(splitter, chunk):
    splitter.feed(chunk, len(chunk))
    return splitter.lines()


@given(st.lists(st.binary(max_size=30).map(lambda chunk: chunk.replace(b"x", b"\n")), max_size=20))
def test_lines_are_the_same_however_the_stream_is_cut(chunks):
    splitter = LineSplitter(1_000)

    lines = [line for chunk in [*chunks, b"\n"] for line in split(splitter, chunk)]

    assert lines == (b"".join(chunks) + b"\n").split(b"\n")[:-1]


@pytest.mark.parametrize("size", [1, 3, 100])
def test_a_line_too_long_is_reported_once_and_its_neighbours_are_kept(size):
    splitter = LineSplitter(10)
    stream = b"first\n" + b"y" * 95 + b"\nlast\n"

    chunks = [stream[start : start + size] for start in range(0, len(stream), size)]

    lines = [line for chunk in chunks for line in split(splitter, chunk)]
    assert [line.tail if isinstance(line, Cut) else line for line in lines] == [b"first", None, b"y" * 95, b"last"]


def test_a_line_as_long_as_allowed_is_kept():
    assert list(split(LineSplitter(10), b"0123456789\n")) == [b"0123456789"]


HUGE = '{"x": "' + "y" * 5_000 + '", "id": 9, "method": "nested"}'


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (f'{{"jsonrpc": "2.0", "id": 5, "method": "tools/call", "params": {HUGE}}}', 5),
        (f'{{"method": "tools/call", "params": {HUGE}, "jsonrpc": "2.0", "id": "fünf"}}', "fünf"),
        (f'{{"id": 5, "params": {HUGE}, "method": "tools/call"}}', 5),
        (f'{{"params": {HUGE}, "id": -5, "method": "ping", "jsonrpc": "2.0"}}', -5),
        (f'{{"method": "tools/call", "params": {HUGE}}}', None),
        (f'{{"jsonrpc": "2.0", "id": 5, "result": {HUGE}}}', None),
        (f'{{"method": "tools/call", "id": [{HUGE}, 5]}}', None),
        (f'{{"method": "tools/call", "id": 5.5, "params": {HUGE}}}', None),
        (f'[{{"jsonrpc": "2.0", "id": 5, "method": "ping", "params": {HUGE}}}]', None),
        ('{"method": "ping", "x": "' + "y" * 5_000 + ', \\"id\\": 5}', None),
    ],
)
def test_the_id_of_a_request_is_found_at_its_beginning_or_its_end(line, expected):
    data = line.encode()

    assert request_id_of(data[:1_024], data[-1_024:]) == expected


def test_a_lack_of_memory_is_not_called_a_fault_of_the_request(monkeypatch):
    real, attempts = protocol._read_value, iter([MemoryError])

    def read(text):
        for trouble in attempts:
            raise trouble
        return real(text)

    monkeypatch.setattr(protocol, "_read_value", read)
    with pytest.raises(Refusal) as refusal:
        decode(b'{"jsonrpc":"2.0","id":7,"method":"ping","params":{"a":1}}')

    assert (refusal.value.code, refusal.value.request_id) == (protocol.INTERNAL_ERROR, 7)
    assert refusal.value.message == "Internal error: there is not enough memory for the message."
