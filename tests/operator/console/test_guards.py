"""Who may read and change through the console: this machine's own page, and nobody else's."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from oncekey_operator.console.guards import foreign
from tests.support.console_desk import GivenDesk, console, get, message, post, unknown

PAUSE = b'{"kind": "tenant", "name": "acme", "reason": "incident"}'


@pytest.mark.parametrize(
    "host",
    [
        *("evil.example", "evil.example:8099", "127.0.0.1.evil.example", "localhost.evil.example"),
        *("", "127.0.0.2", "[::1].evil.example", "evil.example@127.0.0.1", "0.0.0.0:8099"),
    ],
)
@pytest.mark.parametrize("path", ["", "console.js", "api/session", "api/operations"])
def test_a_foreign_host_is_refused(host: str, path: str) -> None:
    """A name that resolves to the loopback address (DNS rebinding) gets nothing, not the page."""
    request = replace(get(path), headers={**get(path).headers, "host": host})

    response = console(GivenDesk(), is_open=True).handle(request)

    assert response.status == 403
    assert "Host" in message(response)


@pytest.mark.parametrize("host", ["127.0.0.1", "127.0.0.1:80", "LocalHost:8099", "[::1]:8099"])
def test_the_names_of_the_loopback_address_are_served(host: str) -> None:
    """Every name of this machine's loopback address is good, with any port."""
    assert foreign({"host": host}) is None


@pytest.mark.parametrize(
    "headers",
    [
        {"origin": "https://evil.example"},
        {"origin": "null"},
        {"origin": "http://127.0.0.1:3000"},
        {"origin": "https://127.0.0.1:8099"},
        {"sec-fetch-site": "cross-site"},
        {"sec-fetch-site": "same-site"},
    ],
)
def test_a_page_of_another_origin_changes_and_reads_nothing(headers: dict[str, str]) -> None:
    """Origin and Sec-Fetch-Site are the console's own; another port of this machine is foreign."""
    desk = GivenDesk()
    served = console(desk, is_open=True, changes=True)

    answers = [
        served.handle(post("api/pause", PAUSE, headers=headers)),
        served.handle(get("api/operations", headers=headers)),
        served.handle(get("api/session", headers=headers)),
    ]

    assert [answer.status for answer in answers] == [403, 403, 403]
    assert desk.done == []


@pytest.mark.parametrize("token", ["", "another", "tökèn"])
def test_without_the_token_nothing_is_read_or_changed(token: str) -> None:
    """Each call of the API has the token in a header of its own."""
    desk = GivenDesk(unknown())
    served, headers = console(desk, changes=True), {"x-oncekey-console": token}

    assert served.handle(get("api/operations", headers=headers)).status == 401
    assert served.handle(post("api/pause", PAUSE, headers=headers)).status == 401
    assert (desk.wanted, desk.done) == ([], [])


def test_the_console_gives_its_token_to_nobody_unless_it_is_open() -> None:
    """Only the printed address has it, so that other users of the machine have no access."""
    request = get("api/session", headers={"x-oncekey-console": ""})

    assert json.loads(console(GivenDesk()).handle(request).body) == {"needs_token": True}
    assert "token" in json.loads(console(GivenDesk(), is_open=True).handle(request).body)


@pytest.mark.parametrize("content_type", ["", "text/plain", "application/x-www-form-urlencoded"])
def test_a_change_is_json(content_type: str) -> None:
    """What a form of another page could send is refused."""
    desk = GivenDesk()
    request = post("api/pause", PAUSE, headers={"content-type": content_type})

    response = console(desk, changes=True).handle(request)

    assert (response.status, message(response)) == (400, "send application/json")
    assert desk.done == []


def test_a_console_only_reads_unless_changes_are_allowed() -> None:
    """Without --allow-changes each action is refused, whatever the page offers."""
    desk = GivenDesk(unknown())

    response = console(desk).handle(post("api/pause", PAUSE))

    assert (response.status, desk.done) == (403, [])
    assert "--allow-changes" in message(response)
    assert console(desk, changes=True).handle(post("api/pause", PAUSE)).status == 200
    assert [action for action, _ in desk.done] == ["pause"]


def test_the_page_loads_nothing_from_elsewhere_and_runs_nothing_inline() -> None:
    """The policy permits the console's own files alone, and the page has no inline script."""
    response = console(GivenDesk()).handle(get(""))

    policy = response.headers["Content-Security-Policy"]
    assert "default-src 'none'" in policy
    assert "frame-ancestors 'none'" in policy
    assert "unsafe" not in policy
    assert b"://" not in response.body
    assert b"<script type" in response.body
    assert b" style=" not in response.body
    assert response.body.count(b"<script") == response.body.count(b'<script type="module" src=')
