"""What a queue and the reader behind it take of a message's text and of its names.

https://docs.aws.amazon.com/AWSSimpleQueueService/latest/APIReference/API_SendMessage.html
"""

from __future__ import annotations

import hashlib
import re

from oncekey.encoding.canonical import MAX_DEPTH

_STRING_OR_BRACKET = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"|[\[\]{}]', re.DOTALL)
# What SQS takes is #x9, #xA, #xD, #x20 to #xD7FF, #xE000 to #xFFFD and #x10000 to #x10FFFF. Of the
# rest JSON escapes the control characters by itself, and lone surrogates are no text.
_REFUSED = {"\ufffe": "\\ufffe", "\uffff": "\\uffff"}
# A MessageGroupId, and a MessageDeduplicationId: letters, digits and punctuation.
_NAME = re.compile(r"[!-~]{1,128}")


def queue_text(json_text: str) -> str:
    """`json_text`, with an escape for each character that SQS refuses: the same JSON."""
    for character, escaped in _REFUSED.items():
        # Outside of strings JSON has none of them, and in a string none can follow a backslash.
        json_text = json_text.replace(character, escaped)
    return json_text


def is_too_deep(json_text: str) -> bool:
    """Whether `json_text` has arrays and objects nested deeper than `MAX_DEPTH`.

    Where a reader gives up differs between versions of Python, and with the depth of its caller's
    stack. This bound is below all of them.
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
    """The same of a value, of dictionaries and lists, that is not written down yet."""
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
    """`name` as SQS takes it for a message's group or deduplication.

    One that it does not take, such as a tenant with a space in it, is replaced by its hash: the
    same name always by the same.

    Raises:
        UnicodeEncodeError: it has a lone surrogate.
    """
    raw = name.encode("utf-8")
    if _NAME.fullmatch(name):
        return name
    return f"sha256-{hashlib.sha256(raw).hexdigest()}"
