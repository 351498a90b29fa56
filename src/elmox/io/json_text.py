r"""Strings of JSON that are no text: `"\ud800"`, half of a pair that writes one character.

JSON's escapes can spell such a half (a lone surrogate) by itself; programs that cut strings in the
middle of an emoji write it. UTF-8 cannot encode it, so nothing made of it could be written to a
file or a terminal. A file decoded from UTF-8 has it nowhere but in an escape.
"""

import json
import re
from typing import Any

from elmox.errors import ElmoxError

_ESCAPE = re.compile(r"\\u[dD][89a-fA-F]")
_SHOWN = 20  # characters on either side


def check_json_text(source: str, values: Any) -> None:
    """Refuse values with a string that is no text.

    Args:
        source: the JSON that they came from. Where it has no escape in question, they are not
            looked at.
        values: all of it, or what is used of it.
    """
    if not _ESCAPE.search(source):
        return
    try:
        json.dumps(values, ensure_ascii=False).encode()
    except UnicodeEncodeError as error:
        place = error.start
        near = error.object[max(0, place - _SHOWN) : place + _SHOWN]
        raise ElmoxError(
            f"{error.object[place]!a} in {near!a} is half a character (a lone surrogate), "
            "expected Unicode text: mend or remove it"
        ) from None
