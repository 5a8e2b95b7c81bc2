"""Holds replies, events and the transcripts of the server's own tests to the types of OpenAI's and Anthropic's packages.

Their clients build objects of whatever comes; here every member must have its type, and none may be unknown to the
package, but for those that the servers of both have and their packages lack, and this server's own.
"""

import glob
import json
import os

import pydantic

# Members that are not in the packages: OpenAI's own servers send the first ones too.
BESIDE = {"store", "status", "logprobs", "bytes", "grammar_dropped", "plugins", "error_type"}


def held(data, kind, path="$"):
    """Returns data as kind, and fails where it does not fit, or has members that kind does not have."""
    value = pydantic.TypeAdapter(kind).validate_python(data)
    _known(value, path)
    return value


def _known(value, path):
    if isinstance(value, pydantic.BaseModel):
        extra = set(value.model_extra or {}) - BESIDE
        assert not extra, f"{path} has {sorted(extra)}, which {type(value).__name__} does not know"
        for name in type(value).model_fields:
            _known(getattr(value, name), f"{path}.{name}")
    elif isinstance(value, list):
        for i, v in enumerate(value):
            _known(v, f"{path}[{i}]")


def events(lines):
    """Yields the name and the data of each event of a stream."""
    name = None
    for line in lines:
        if line.startswith("event: "):
            name = line[7:].strip()
        elif line.startswith("data: "):
            yield name, json.loads(line[6:])


def transcripts(package):
    """Yields request line, status and body of every exchange in the transcripts of a package of the server."""
    root = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "..")
    files = sorted(glob.glob(os.path.join(root, "server", "api", package, "testdata", "*.txt")))
    assert files, f"no transcripts of {package}"
    for file in files:
        with open(file, encoding="utf-8") as f:
            text = f.read()
        for exchange in text.split("\n\n", 1)[1].split("\n===\n"):
            ask, reply = exchange.split("---\n", 1)
            head, body = reply.split("\n\n", 1)
            yield os.path.basename(file), ask.splitlines()[0], int(head.splitlines()[0]), body
