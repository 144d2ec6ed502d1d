"""The console in a real browser, on a running `oncekey dev`."""

from __future__ import annotations

import json
import shutil
from typing import TYPE_CHECKING

import pytest

from tests.support.dev_service import running
from tests.support.payments_client import Client, new_key

if TYPE_CHECKING:
    from collections.abc import Iterator

    from playwright.sync_api import Browser, Page

# Far more than the lease of a dead attempt.
WITHIN_MS = 60_000
CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser"))), None)
pytestmark = pytest.mark.skipif(
    CHROMIUM is None,
    reason="THE CONSOLE WAS NOT TRIED IN A BROWSER: install chromium (`make chromium`, as root)",
)


@pytest.fixture(scope="module")
def charges() -> Iterator[Client]:
    """A client of a service whose dead attempts are found dead soon after their timeout."""
    service, env = "tests.support.effect_service:SERVICE", {"ONCEKEY_LEASE_MARGIN_MS": "300"}
    with running(service, env=env, sandboxes=2, timeout_s=4) as dev:
        yield Client(dev, path="/unrecorded")


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """A headless Chromium of the system."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        # Root, as in a container, may not use the sandbox.
        started = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield started
        started.close()


@pytest.fixture
def page(browser: Browser, charges: Client) -> Iterator[Page]:
    """The console, whose own log must be empty at the end."""
    page = browser.new_page(viewport={"width": 1280, "height": 800})
    said: list[str] = []
    page.on("console", lambda line: said.append(line.text))
    page.on("pageerror", lambda error: said.append(str(error)))
    page.goto(f"{charges.dev.url}/_console/")
    yield page
    page.close()
    assert said == []


def test_a_crash_from_the_kill_to_the_replay(page: Page, charges: Client) -> None:
    """Kill, unknown, settle, replay: each is done by a click, and the timeline shows it."""
    from playwright.sync_api import expect

    key = new_key()
    page.get_by_role("link", name="Faults").click()
    hold = page.get_by_role("switch", name="Hold calls before they are applied")
    hold.click()
    expect(hold).to_be_checked()
    asked = charges.start(key)
    charges.provider.wait_held(1)
    busy = page.get_by_role("listitem").filter(has_text="runs a request")
    busy.get_by_role("button", name="Kill").click()
    assert asked.result().status == 500
    hold.click()
    expect(hold).not_to_be_checked()

    page.get_by_role("link", name="Operations").click()
    page.get_by_role("row").filter(has_text="POST /unrecorded").get_by_role("link").click()
    one = page.get_by_role("complementary")
    life = one.get_by_role("list").first
    expect(life).to_contain_text("The process was killed")
    expect(life).to_contain_text("The lease ended", timeout=WITHIN_MS)
    one.get_by_role("button", name="Repeat the request").click()
    expect(one).to_contain_text("unknown")
    expect(life).to_contain_text("A request got 409 outcome-unknown")

    one.get_by_role("button", name="Settle as completed").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Answer").fill(json.dumps({"statusCode": 201, "body": '{"charge": "c1"}'}))
    dialog.get_by_role("button", name="Settle").click()
    expect(dialog.get_by_role("alert")).to_contain_text("Reason")
    dialog.get_by_label("Reason").fill("seen at the provider")
    dialog.get_by_role("button", name="Settle").click()
    expect(one).to_contain_text("completed")
    expect(life).to_contain_text("seen at the provider")
    one.get_by_role("button", name="Repeat the request").click()
    expect(life).to_contain_text("Replayed")

    answer = charges.ask(key)
    assert (answer.status, answer.json()) == (201, {"charge": "c1"})


def test_everything_is_within_reach_of_the_keyboard(page: Page, charges: Client) -> None:
    """Without a mouse: filter, open an operation, read its life, and go back to its line."""
    from playwright.sync_api import expect

    repeatable = charges.at("/repeatable")
    assert repeatable.ask(new_key()).status == 201
    assert charges.ask(new_key()).status == 201
    rows = page.locator("#rows tr")
    expect(rows.filter(has_text="POST /unrecorded").first).to_be_visible()
    expect(rows.filter(has_text="POST /repeatable")).to_have_count(1)
    page.keyboard.press("/")
    page.keyboard.type("repeat")
    page.keyboard.press("Escape")
    expect(rows.filter(has_text="POST /unrecorded")).to_have_count(0)
    expect(rows).to_have_count(1)
    page.keyboard.press("j")
    page.keyboard.press("Enter")
    one = page.get_by_role("complementary")
    expect(one).to_be_focused()
    expect(one).to_contain_text("Reserved")
    expect(one.get_by_role("heading").first).to_have_text("POST /repeatable")
    page.keyboard.press("Tab")
    expect(page.get_by_role("link", name="Close the operation")).to_be_focused()
    page.keyboard.press("Escape")
    expect(one).to_be_hidden()
    expect(rows.get_by_role("link")).to_be_focused()
    page.keyboard.press("2")
    expect(page.get_by_role("heading", name="Outbox")).to_be_visible()
    page.keyboard.press("?")
    expect(page.get_by_role("dialog", name="Keyboard")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog", name="Keyboard")).to_be_hidden()


def test_names_with_markup_stay_names(page: Page, charges: Client) -> None:
    """A tenant whose name is markup is shown as it is, and runs nothing."""
    from playwright.sync_api import expect

    tenant = '<img src=x onerror="document.title=1">'
    assert charges.of(tenant).ask(new_key()).status == 201

    expect(page.get_by_role("cell", name=tenant)).to_be_visible()
    page.get_by_role("row").filter(has_text=tenant).get_by_role("link").click()
    expect(page.get_by_role("complementary")).to_contain_text(tenant)
    expect(page).to_have_title("oncekey console")
