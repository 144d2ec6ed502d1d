"""Which texts and names of messages SQS and the JSON readers behind it accept.

https://docs.aws.amazon.com/AWSSimpleQueueService/latest/APIReference/API_SendMessage.html
"""

from __future__ import annotations

import hashlib
import re

from oncekey.encoding.canonical import MAX_DEPTH

_STRING_OR_BRACKET = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"|[\[\]{}]', re.DOTALL)
# SQS accepts #x9, #xA, #xD, #x20 to #xD7FF, #xE000 to #xFFFD and #x10000 to #x10FFFF. Of the other
# characters, JSON already escapes the control characters, and lone surrogates are refused earlier.
_REFUSED = {"\ufffe": "\\ufffe", "\uffff": "\\uffff"}
# A MessageGroupId, and a MessageDeduplicationId: letters, digits and punctuation.
_NAME = re.compile(r"[!-~]{1,128}")


def queue_text(json_text: str) -> str:
    """`json_text`, with an escape for each character that SQS refuses: the same JSON."""
    for character, escaped in _REFUSED.items():
        # In JSON they occur only inside strings, and never after a backslash.
        json_text = json_text.replace(character, escaped)
    return json_text


def is_too_deep(json_text: str) -> bool:
    """Whether `json_text` has arrays and objects nested deeper than `MAX_DEPTH`.

    The depth at which a reader fails differs between versions of Python and with the depth of the
    caller's stack. This bound is below all of them.
    """
    if json_text.count("[") + json_text.count("{") <= MAX_DEPTH:
        return False
    depth = 0
    for found in _STRING_OR_BRACKET.finditer(json_text):
        match found[0]:
            case "[" | "{":
                depth += 1
                if depth > MAX_DEPTH:
                    return True
            case "]" | "}":
                depth -= 1
            case _:
                pass
    return False


def is_value_too_deep(value: object) -> bool:
    """Whether a value of dictionaries and lists is nested deeper than `MAX_DEPTH`."""
    level, depth = [value], 0
    while level := [item for item in level if isinstance(item, dict | list | tuple)]:
        depth += 1
        if depth > MAX_DEPTH:
            return True
        level = [
            child for item in level for child in (item.values() if isinstance(item, dict) else item)
        ]
    return False


def queue_name(name: str) -> str:
    """`name` in a form that SQS accepts as a MessageGroupId or MessageDeduplicationId.

    A name that SQS does not accept, such as a tenant with a space in it, is replaced by its hash.
    The same name always gives the same result.

    Raises:
        UnicodeEncodeError: the name has a lone surrogate.
    """
    raw = name.encode("utf-8")
    if _NAME.fullmatch(name):
        return name
    return f"sha256-{hashlib.sha256(raw).hexdigest()}"
