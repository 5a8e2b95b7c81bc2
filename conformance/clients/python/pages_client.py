"""The Python of docs/quick-start.md, run as a reader would."""

import contextlib
import io
import pathlib
import re

from checks import URL, check, run

PAGE = pathlib.Path(__file__).parents[3] / "docs" / "quick-start.md"
SOURCES = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(), re.M | re.S)


def runs(source):
    def block():
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            exec(source.replace("http://localhost:3000", URL), {})
        assert out.getvalue().strip(), "it prints nothing"

    return block


for number, source in enumerate(SOURCES, 1):
    check(f"block {number}")(runs(source))

run()
