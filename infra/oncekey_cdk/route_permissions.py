"""The permission of an API to invoke a function: one for each route, or one for all of them."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from constructs import IConstruct

# Each permission is a statement of 400 to 600 characters in the policy of the function, and Lambda
# takes 20 KB. So many leave room for a second API, and for other callers.
# https://docs.aws.amazon.com/lambda/latest/dg/gettingstarted-limits.html
_MOST_OF_THEIR_OWN = 15


class RoutePermissions:
    """Counts the routes of each function behind one API."""

    def __init__(self) -> None:
        self._routes: Counter[str] = Counter()

    def has_its_own(self, function: IConstruct) -> bool:
        """Whether the next route of `function` gets a permission of its own.

        Those beyond share one, by which the API may invoke the function for any of its routes.
        """
        self._routes[function.node.path] += 1
        return self._routes[function.node.path] <= _MOST_OF_THEIR_OWN
