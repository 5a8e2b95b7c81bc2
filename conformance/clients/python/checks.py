"""What the scripts of this folder share.

A script declares checks with @check("name") and ends with run(). Each check
prints one line of JSON, {"check": name, "error": text}, the error empty when it
held; the Go test of the folder above reads them. The servers' addresses come
from the environment: TGI_URL, and TGI_KEYED_URL of one that wants TGI_KEY and
takes two requests at a time.
"""

import asyncio
import inspect
import json
import os
import re
import sys
import time
import traceback
import urllib.request
import warnings

URL = os.environ["TGI_URL"]
KEYED_URL = os.environ["TGI_KEYED_URL"]
KEY = os.environ["TGI_KEY"]

QUESTION = "Where does Mira live?"
ANSWER = "old mill"
PROMPT = f"<|im_start|>user\n{QUESTION}<|im_end|>\n<|im_start|>assistant\n"
MESSAGES = [{"role": "user", "content": QUESTION}]

DIALECTS = ("tgi-0.6", "tgi-2.2", "tgi-3")

# Words drawn almost evenly from the vocabulary: it takes hundreds until one ends the text.
LONG = {"temperature": 100.0, "seed": 1}
LONG_TOKENS = 900

warnings.simplefilter("ignore")  # old clients announce their end

_checks = []


def check(name):
    def keep(f):
        _checks.append((name, f))
        return f

    return keep


def run():
    for name, f in _checks:
        error = ""
        try:
            if inspect.iscoroutinefunction(f):
                asyncio.run(f())
            else:
                f()
        except BaseException as e:
            frames = traceback.extract_tb(e.__traceback__)
            script = os.path.abspath(sys.argv[0])
            line = [s.lineno for s in frames if os.path.abspath(s.filename) == script][-1]
            error = f"line {line}: {type(e).__name__}: {e}"
        print(json.dumps({"check": name, "error": error}), flush=True)


def metric(name, labels=""):
    """The value of one of the server's figures, 0 while there is none."""
    with urllib.request.urlopen(URL + "/metrics") as r:
        text = r.read().decode()
    found = re.search(rf"^{re.escape(name + labels)} (\S+)$", text, re.M)
    return float(found[1]) if found else 0.0


def dropped():
    return metric("tgi_request_failure", '{err="dropped"}')


def stops(leave):
    """Holds that the server drops the request when leave() leaves its stream.

    Some attempts: on a busy machine the text may be complete before the client
    has left.
    """
    for _ in range(5):
        before = dropped()
        leave()
        if _settled(before):
            return
    raise AssertionError("no request counts as dropped after the client left five streams")


async def stops_async(leave):
    """stops for a coroutine."""
    for _ in range(5):
        before = dropped()
        await leave()
        if _settled(before):
            return
    raise AssertionError("no request counts as dropped after the client left five streams")


def _settled(before):
    deadline = time.monotonic() + 60
    while metric("tgi_batch_current_size") > 0:
        assert time.monotonic() < deadline, "a sequence still runs a minute after its client has left"
        time.sleep(0.02)
    patience = time.monotonic() + 1  # the handler reports a little later than the engine
    while time.monotonic() < patience:
        if dropped() > before:
            return True
        time.sleep(0.02)
    return False


def same(got, want):
    assert got == want, f"got {got!r}, want {want!r}"


def holds(text, part):
    assert part in (text or ""), f"got {text!r}, want {part!r} in it"


def raises(kind, f, part=""):
    """Returns the error of type kind that f() raises, whose text must hold part."""
    try:
        f()
    except kind as e:
        holds(str(e), part)
        return e
    raise AssertionError(f"no {kind.__name__}")


async def raises_async(kind, awaitable, part=""):
    """raises for an awaitable."""
    try:
        await awaitable
    except kind as e:
        holds(str(e), part)
        return e
    raise AssertionError(f"no {kind.__name__}")
