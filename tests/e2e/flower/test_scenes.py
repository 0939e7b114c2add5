"""What a person does with the pages, in a real browser, before a real beat and a real worker."""

from __future__ import annotations

import re
from collections.abc import Callable

from playwright.sync_api import Browser, Locator, Page, expect

from tests.e2e.flower.browser import Tab
from tests.e2e.flower.data import EDITED, PILED_UP, RENDERS, WANTED
from tests.e2e.flower.pages import settled
from tests.e2e.flower.stage import Stage


def row_of(page: Page, name: str) -> Locator:
    return page.locator("tbody tr").filter(has=page.get_by_role("link", name=name, exact=True))


def find(page: Page, name: str) -> Locator:
    """Search for a schedule; its row, when it is the only one."""
    page.get_by_label("Search").fill(name)
    expect(page.locator("tbody tr")).to_have_count(1)
    return row_of(page, name)


def test_a_stranger_sees_nothing(browser: Browser, stage: Stage) -> None:
    """Without the password every page, file and address of the API is 401, as Flower's own are."""
    with browser.new_context() as context:
        for path in ("/workers", "/parrot", "/parrot/schedules", "/parrot/api/schedules", "/parrot/api/events"):
            answer = context.request.get(stage.url + path, max_redirects=0)
            assert (path, answer.status) == (path, 401)
            assert WANTED not in answer.text()


def test_run_pause_and_resume(stage: Stage, make_tab: Callable[..., Tab]) -> None:
    """Found among a thousand by a part of its name, run; both pages show the fire by themselves. Paused with a note,
    then resumed."""
    fires, schedules = make_tab().go("/parrot/fires"), make_tab().go("/parrot/schedules")
    settled(fires)
    settled(schedules)
    for page in (fires, schedules):
        expect(page.locator("#live-status")).to_have_text("Live")
        page.evaluate("window.neverReloaded = true")
    expect(row_of(fires, WANTED)).to_have_count(0)
    row = find(schedules, WANTED)
    expect(row).to_contain_text("never")
    expect(row).to_contain_text("(Europe/Madrid).")
    row.get_by_role("button", name="Run now").click()
    expect(row).to_contain_text("success")
    expect(row_of(fires, WANTED)).to_contain_text("success")

    row.get_by_role("button", name="Pause").click()
    schedules.get_by_role("dialog").get_by_role("textbox").fill("stocktaking")
    schedules.get_by_role("dialog").get_by_role("button", name="Pause").click()
    expect(row).to_contain_text("paused")
    expect(row).to_contain_text("ann: stocktaking")
    assert stage.client.get(WANTED).state == "paused"
    row.get_by_role("button", name="Resume").click()
    expect(row).to_contain_text("active")
    assert stage.client.get(WANTED).state == "active"
    assert all(page.evaluate("window.neverReloaded") for page in (fires, schedules))


def test_edit_with_a_preview(stage: Stage, tab: Tab) -> None:
    """The due times follow while a cron line is typed; a wrong one is marked where it is; saved, the page shows it."""
    page = tab.go(stage.path_of(WANTED))
    settled(page)
    form = editor(page)
    expr, preview = form.get_by_label("expr"), form.locator(".parrot-preview")
    expect(preview.locator("tbody tr")).to_have_count(5)
    before = preview.inner_text()
    tab.expect(422, "/parrot/api/preview")
    expr.fill("61 4 * * *")
    expect(expr).to_have_attribute("aria-invalid", "true")
    expect(preview).to_contain_text("61")
    expr.fill("45 4 * * *")
    expect(expr).not_to_have_attribute("aria-invalid", "true")
    expect(preview.locator("tbody tr").first).to_contain_text("04:45:00")
    assert preview.inner_text() != before
    assert "45 4" not in str(stage.client.get(WANTED).schedule_config), "nothing is saved before Save"
    form.get_by_role("button", name="Save").click()
    expect(form).to_be_hidden()
    expect(page.locator("#sentence")).to_contain_text("4:45")
    expect(page.locator("#coming tbody tr").first).to_contain_text("04:45:00")
    assert stage.client.get(WANTED).schedule_config["expr"] == "45 4 * * *"


def test_two_people_edit(stage: Stage, make_tab: Callable[..., Tab]) -> None:
    """Whoever saves second is told what the first has changed, nothing is lost, and may then go on."""
    first, second = make_tab(), make_tab()
    editors = []
    for tab in (first, second):
        settled(tab.go(stage.path_of(EDITED)))
        editors.append(editor(tab.page))
    editors[0].get_by_label("Catch up limit").fill("5")
    editors[0].get_by_role("button", name="Save").click()
    expect(editors[0]).to_be_hidden()
    second.expect(409, "/parrot/api/schedules/")
    editors[1].get_by_label("minute", exact=True).fill("17")
    editors[1].get_by_role("button", name="Save").click()
    expect(editors[1].get_by_role("alert")).to_contain_text("Somebody changed it")
    expect(editors[1].get_by_role("alert")).to_contain_text("Catch up limit")
    assert stage.client.get(EDITED).schedule_config["minute"] == 0
    editors[1].get_by_role("button", name="Keep my changes").click()
    editors[1].get_by_role("button", name="Save").click()
    expect(editors[1]).to_be_hidden()
    saved = stage.client.get(EDITED)
    assert (saved.schedule_config["minute"], saved.catch_up_limit) == (17, 5)


def test_a_line_moves(stage: Stage, tab: Tab) -> None:
    """Three fires of one group: the holder changes and the line gets shorter, without a reload."""
    page = tab.go("/parrot/groups")
    settled(page)
    expect(page.locator("#live-status")).to_have_text("Live")
    page.evaluate("window.neverReloaded = true")
    group = page.get_by_role("region", name="Group gpu")
    stage.run(*RENDERS)
    holder = group.locator("table").nth(0).locator("tbody tr")
    waiting = group.locator("table").nth(1).locator("tbody tr")
    expect(waiting).to_have_count(2)
    for i, name in enumerate(RENDERS):
        expect(holder).to_contain_text(name)
        expect(holder).to_contain_text("running")
        expect(waiting).to_have_count(2 - i)
        stage.end(name)
    expect(group).to_have_count(0)
    assert page.evaluate("window.neverReloaded")


def test_the_pile_up_is_seen(stage: Stage, tab: Tab) -> None:
    """The hour in which four hundred are due is the darkest cell of its kind and the first of the peaks."""
    page = tab.go("/parrot/timeline")
    settled(page)
    expect(page.locator("#peaks tbody tr").first).to_contain_text(f"task {PILED_UP}")
    strip = page.get_by_role("slider", name=re.compile("^task:"))
    darkest = strip.locator("[data-level='5']")
    expect(darkest).to_have_count(1)
    darkest.hover()
    expect(strip).to_have_attribute("aria-valuetext", re.compile(rf" {PILED_UP // 100}\d\d due$"))


def test_the_beat_is_alive(stage: Stage, tab: Tab) -> None:
    """Its process, and that it was seen just now."""
    page = tab.go("/parrot/beats")
    settled(page)
    expect(page.locator("#health")).to_contain_text("Healthy: 1 beat is alive")
    row = page.locator("#beats tbody tr")
    expect(row).to_have_count(1)
    expect(row).to_contain_text("alive")
    expect(row).to_contain_text(str(stage.procs["beat-1"].pid))


def test_flowers_own_pages(stage: Stage, tab: Tab) -> None:
    """They work as ever, each with our link; the link of a fire leads to its task."""
    for path in ("/", "/tasks", "/broker", "/workers"):
        page = tab.go(path)
        expect(ours(page)).to_have_attribute("href", "/parrot/schedules")
    page.get_by_role("link", name=re.compile("worker-1@")).click()
    expect(page).to_have_url(re.compile("/worker/worker-1(@|%40)"))
    expect(ours(page)).to_be_visible()
    page = tab.go("/parrot/fires")
    settled(page)
    row = row_of(page, "pulse").filter(has_text="success").first
    fire = row.get_attribute("data-id")
    row.get_by_role("link").last.click()
    expect(page).to_have_url(f"{stage.url}/task/{fire}")
    expect(page.get_by_text("stage.sync").first).to_be_visible()
    ours(page).click()
    expect(page).to_have_url(f"{stage.url}/parrot/schedules")


def ours(page: Page) -> Locator:
    """Our link in Flower's navbar."""
    return page.get_by_role("navigation", name="Primary").get_by_role("link", name="Schedules")


def editor(page: Page) -> Locator:
    page.get_by_role("button", name="Edit", exact=True).click()
    found = page.get_by_role("region", name="Edit")
    expect(found.locator(".parrot-preview tbody tr").first).to_be_visible()
    return found
