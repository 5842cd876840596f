"""Names and cells that want to be more than text: nothing runs, and nothing shifts its neighbours."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

import barrage_server as bs
from tests.browser.cells import visible
from tests.browser.tab import Tab
from tests.waiting import until

MARKUP = "<img src=x onerror=reportProblem('ran')><script>reportProblem('ran')</script>"
TEXTS = [
    MARKUP,
    "<svg/onload=alert(1)>",
    "javascript:alert(1)",
    "{{constructor.constructor('alert(1)')()}}",
    "\u202eright to left\u202c",
    "\u2066isolated\u2069\u200b\ufeff",
    "\x00\x01\x1b[31m\x7f\x85",
    "line\nline\r\nline\u2028line\ttab",
    "Z" + "\u0300\u0301\u0302\u0303" * 60,
    "שלום עולם",
    "👩‍👩‍👧‍👦" * 20,
    "\U0001f1e6\U000e0041\U000e007f",
    "&lt;b&gt; &amp; &#x202e;",
    "=1+1",
    "'; DROP TABLE t; --",
    "%s%n%00",
    "﷽" * 100,
    "",
]


def test_cells_are_text_whatever_they_hold(tab: Tab, server: bs.Server) -> None:
    schema = pa.schema([("before", pa.int64()), ("text", pa.string()), ("after", pa.int64())])
    table = server.keyed_table("t", schema, key="before")
    table.upsert({"before": list(range(len(TEXTS))), "text": TEXTS, "after": list(range(len(TEXTS)))})
    tab.open(server, "t")
    look = tab.agrees(table)
    assert len(look.rows) == len(TEXTS)
    # The whole of each in the side view.
    tab.focus()
    tab.page.keyboard.press("Control+Home")
    tab.page.keyboard.press("ArrowRight")
    tab.page.keyboard.press("Enter")
    for text in TEXTS:
        lines = [visible(line) for line in text.replace("\r\n", "\n").split("\n")]
        tab.cell_says("\n".join(lines))
        tab.page.keyboard.press("ArrowDown")


def test_names_of_tables_and_columns_are_text(tab: Tab, server: bs.Server) -> None:
    names = [
        MARKUP,
        "\u202ereversed",
        "\x00\n\x1b",
        "",
        " ",
        "c" * 1_000_000,
        "__proto__",
        "constructor",
        "a=b&row=9#x",
    ]
    schema = pa.schema([(name, pa.int64()) for name in names])
    tables: dict[str, Any] = {}
    for name in (MARKUP, "__proto__", "../../etc", "a b#c&d=e%25?token=x", "ä" * 200):
        tables[name] = server.append_table(name, schema)
        tables[name].append(pa.table([[number] for number in range(len(names))], schema=schema))
    tab.open(server)
    links = tab.page.locator("table.list a")
    until(lambda: links.count() == len(tables))
    assert set(links.all_text_contents()) == set(tables)
    for name in tables:
        tab.page.locator("table.list a", has_text=name[:40]).first.click()
        look = tab.until(lambda look: look.mirror.get("heads") and look.rows and look.rows[0][0] and not look.stale)
        assert look.mirror["label"] == f"Table {name}"
        assert look.mirror["heads"][:2] == [MARKUP, "[U+202E]reversed"]
        assert look.rows[0][:2] == ["0", "1"]
        tab.page.go_back()
    assert tab.page.locator("img, svg").count() == 0
    assert tab.page.locator("script").count() == 2  # the page's own


def test_a_million_characters_are_cut_and_come_whole_when_asked_for(tab: Tab, server: bs.Server) -> None:
    long = "".join(chr(97 + number % 26) for number in range(1_000_000))
    table = server.keyed_table("t", {"key": "int64", "text": "string", "blob": "binary"}, key="key")
    table.upsert({"key": [1, 2], "text": [long, "short"], "blob": [b"\xab" * 500_000, b""]})
    tab.open(server, "t")
    tab.agrees(table)
    tab.focus()
    tab.page.keyboard.press("ArrowRight")
    tab.page.keyboard.press("Enter")
    tab.cell_says(long[:100_000])
    assert "1,000,000 characters" in (tab.page.locator("aside.panel").text_content() or "")
    tab.page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    tab.page.locator("aside.panel").get_by_role("button", name="Copy").click()
    until(lambda: tab.page.evaluate("navigator.clipboard.readText()") == long, what="all of it on the clipboard")


def test_what_fails_these_tests_is_seen(tab: Tab, server: bs.Server) -> None:
    """The policy stops what a page would run, and its reports arrive here."""
    tab.provoked = "x.png|TrustedHTML|Content Security Policy|^CSP: "
    seen: list[str] = []
    tab.page.on("console", lambda message: seen.append(message.text))
    tab.open(server)
    tab.page.evaluate("document.body.append(Object.assign(new Image(), { src: 'http://127.0.0.1:9/x.png' }))")
    with pytest.raises(Exception, match="TrustedHTML"):
        tab.page.evaluate("document.body.innerHTML = '<b>x</b>'")
    until(lambda: tab.seen() is not None and any("img-src" in text for text in seen), what="the report")
    tab.provoked = None
    assert tab.seen() == []
    tab.page.evaluate("Promise.reject(new Error('a rejection')); null")
    tab.page.evaluate("console.error('an error')")
    until(lambda: any("a rejection" in text for text in tab.seen()))
    assert any("an error" in text for text in tab.problems)
    tab.problems.clear()
