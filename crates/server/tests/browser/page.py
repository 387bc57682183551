"""The page in a real browser: python page.py URL PROGRAM CHROMIUM CHROMEDRIVER PICTURES

URL is a server of an empty folder. PROGRAM is warpseek, for servers of other folders. Pictures of all views are left in PICTURES.
"""

import json
import pathlib
import re
import tempfile
import time

from driver import KEY, NARROW, URL, WIDE, allowed_errors, all_of, ask, brightness, clean, click, count, fits, focused, ids, keys, one, page, picture, scheme, script, serving, settled, size, wait
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

import away
import queries
import shapes


COLOURS = ["red", "green", "blue"]


def documents():
    lines = []
    for i in range(60):
        text = f"Lantern number {i} gives a warm light. " + "It hangs from a hook. " * (i % 5) + ("A spare wick is in the box. " if i % 4 == 0 else "")
        lines.append({"id": f"lamp-{i}", "title": f"Lantern {i}", "text": text, "colour": COLOURS[i % 3], "year": 1900 + i, "made": f"{1990 + i % 30}-05-01"})
    lines.append({"id": "markup", "title": "<img src=x onerror=alert(1)> sundial", "text": "A <script>alert(2)</script> sundial & its shadow", "colour": "stone", "year": 1700})
    lines.append({"id": "long", "title": "Chronicle " * 40, "text": "chronicle " + "averylongwordwithoutanyblank" * 60, "colour": "grey", "year": 2001})
    return "\n".join(map(json.dumps, lines))


def fill():
    mappings = {"title": "text", "text": "text", "colour": "keyword", "year": "long", "made": "date"}
    body = {"mappings": {"properties": {name: {"type": kind} for name, kind in mappings.items()}}}
    ask(f"{URL}/v1/indexes/lamps", "PUT", json.dumps(body))
    assert ask(f"{URL}/v1/indexes/lamps/bulk?refresh=true", "POST", documents())["errors"] == []


def an_empty_server_says_how_to_begin():
    size(*WIDE)
    scheme("light")
    page.get(f"{URL}/ui")
    wait("the empty server", lambda: "There are no indexes yet" in one("#empty").text)
    assert f"curl -X PUT '{URL}/books/_doc/1" in one("#empty").text
    assert not one("#search-form").is_displayed()
    assert page.current_url.startswith(f"{URL}/ui/"), page.current_url
    picture("empty")
    fill()
    wait("the first index", lambda: len(ids()) == 10)
    assert count() == "62 matches, 10 shown", count()


def hits_come_as_one_types():
    wait("focus", lambda: focused() == "query")
    keys("lantern wick")
    wait("hits", lambda: count().startswith("60 matches") and len(ids()) == 10)
    hit = one("#hits article")
    assert hit.find_element(By.CSS_SELECTOR, "h2 mark").text == "Lantern", hit.text
    assert [mark.text for mark in hit.find_elements(By.CSS_SELECTOR, ".snippet mark")] == ["Lantern", "wick"], hit.text
    body = {"query": "lantern wick", "k": 25}
    want = [found["id"] for found in ask(f"{URL}/v1/indexes/lamps/search", "POST", json.dumps(body))["hits"]]
    assert ids() == want[:10]
    assert not one("#device").is_displayed() and one("#took").text.endswith("ms")
    click("#trace summary")
    assert one("#device").text == "CPU" and one("#algorithm").text
    steps = [line.text.split()[0] for line in all_of("#trace .legend li")]
    assert steps == ["wait", "parse", "plan", "search", "fetch", "highlight"], steps
    click("#more")
    wait("more hits", lambda: len(ids()) == 20)
    assert ids() == want[:20] and count() == "60 matches, 20 shown", count()
    assert focused() == want[10], focused()
    picture("search")


def facets_narrow():
    def choice(label):
        settled()
        return wait(f"the choice {label}", lambda: next(box for box in all_of(".choice") if box.text.split("\n")[0] == label))

    assert choice("red").text.split("\n")[1] == "20", choice("red").text
    choice("red").click()
    wait("only red ones", lambda: count().startswith("20 matches"))
    wait("the counts", lambda: choice("green").text.split("\n")[1] == "20")
    choice("green").click()
    wait("red and green ones", lambda: count().startswith("40 matches"))
    settled()
    ranges = [box.text for box in all_of("fieldset .choice") if "–" in box.text or "below" in box.text]
    assert len(ranges) >= 4, ranges
    settled()
    typed = one("fieldset .typed input[data-key='year to']")
    typed.send_keys("1905", Keys.TAB)
    wait("those up to 1905", lambda: count() == "4 matches")
    assert all(int(found.split("-")[1]) % 3 < 2 and int(found.split("-")[1]) <= 5 for found in ids()), ids()
    picture("facets")
    one("fieldset .typed input[data-key='year from']").send_keys("1905", Keys.TAB)
    wait("those of 1905", lambda: count() == "No matches")
    assert "Filters are in use." in one("#why").text
    click("#why button")
    wait("all of them", lambda: count().startswith("60 matches") and not all_of(".chip"))
    choice("red").click()
    wait("red ones", lambda: count().startswith("20 matches"))
    choice("green").click()
    wait("green ones too", lambda: count().startswith("40 matches"))
    settled()
    one("fieldset .typed input[data-key='year to']").send_keys("1905", Keys.TAB)
    wait("those up to 1905 again", lambda: count() == "4 matches")
    address = page.current_url
    # The address contains the whole state.
    page.get("about:blank")
    page.get(address)
    wait("the same after a reload", lambda: count() == "4 matches" and len(all_of(".chip")) == 3)
    while all_of(".chip"):
        settled()
        left = len(all_of(".chip"))
        click(".chip")
        wait("a filter is gone", lambda: len(all_of(".chip")) == left - 1)
    wait("all of them again", lambda: count().startswith("60 matches"))


def ranges_are_round():
    def names(kind, *values):
        counted = [{"value": value, "count": number} for value, number in values]
        return page.execute_async_script(
            """const [values, kind, done] = arguments;
            import("/ui/ranges.js").then(({ divide, name }) => done(divide(values, kind).map((range) => name(range, kind))), (error) => done(String(error)))""",
            counted,
            kind,
        )

    def each(*values):
        return [(value, 1) for value in values]

    years = ["below 1820", "1820 – 1839", "1840 – 1859", "1860 – 1879", "1880 – 1899", "from 1900"]
    assert names("long", *each(1811, 1850, 1900, 1912)) == years
    assert names("long", *each(1, 2, 3)) == ["below 2", "2", "from 3"], names("long", *each(1, 2, 3))
    assert names("long", *each(7)) == [] and names("long") == []
    sizes = names("long", (0, 3), (4, 50), (60, 40), (800, 5), (70_000, 1))
    assert sizes == ["below 10", "10 – 99", "100 – 999", "1000 – 9999", "from 10,000"], sizes
    for least, most in [(0, 1.7e308), (1e20, 1e20 + 1e5), (5e-324, 1e-320)]:
        assert isinstance(names("double", *each(least, most)), list)
    shares = names("double", *each(0.1, 0.25, 0.7))
    assert shares == ["below 0.2", "0.2 – 0.3", "0.3 – 0.4", "0.4 – 0.5", "0.5 – 0.6", "0.6 – 0.7", "from 0.7"], shares
    below_zero = names("double", *each(-5, -1.5, 5))
    assert below_zero == ["below -4", "-4 – -2", "-2 – 0", "0 – 2", "2 – 4", "from 4"], below_zero
    dates = names("date", *each("1990-05-01T00:00:00.000Z", "2019-05-01T00:00:00.000Z"))
    assert dates == ["before 1995", "1995 – 1999", "2000 – 2004", "2005 – 2009", "2010 – 2014", "from 2015"], dates
    days = names("date", *each("2024-02-27T00:00:00.000Z", "2024-03-02T12:00:00.000Z"))
    assert days == ["before 2024-02-28", "2024-02-28", "2024-02-29", "2024-03-01", "from 2024-03-02"], days


def scores_are_explained():
    wait("hits", lambda: len(ids()) == 10)
    hit = one("#hits article")
    button = hit.find_element(By.CSS_SELECTOR, "[data-opens=score]")
    button.click()
    table = wait("the explanation", lambda: hit.find_element(By.CSS_SELECTOR, ".explained table"))
    assert button.get_attribute("aria-expanded") == "true"
    parts = [float(part.get_attribute("value")) for part in table.find_elements(By.CSS_SELECTOR, "tbody data")]
    whole = float(table.find_element(By.CSS_SELECTOR, "tfoot data").get_attribute("value"))
    shown = float(hit.find_element(By.CSS_SELECTOR, "data.score").get_attribute("value"))
    assert len(parts) == 3 and sum(parts) == whole == shown, (parts, whole, shown)
    bars = [bar.size["width"] for bar in table.find_elements(By.CSS_SELECTOR, ".meter span")]
    assert bars[0] == max(bars) and all(abs(bar / bars[0] - part / parts[0]) < 0.05 for bar, part in zip(bars, parts)), (bars, parts)
    picture("explain")
    button.click()
    wait("it is closed", lambda: not table.is_displayed())


def texts_of_documents_are_no_markup():
    query = one("#query")
    query.clear()
    query.send_keys("sundial")
    wait("the hit", lambda: ids() == ["markup"])
    assert one("#hits h2").text == "<img src=x onerror=alert(1)> sundial"
    assert "<script>alert(2)</script>" in one("#hits .snippet").text
    assert not all_of("#hits img") and not all_of("#hits script")
    click("[data-opens=document]")
    wait("the document", lambda: "onerror" in one("#hits pre").text)


def the_last_answer_is_shown():
    # One answer is late and arrives although its request was aborted.
    script(
        """const real = window.fetch;
        window.fetch = (url, { signal, ...options }) => {
          const answer = real(url, options);
          if (!options.body?.includes("sundial")) return answer;
          window.late = signal;
          return new Promise((done) => setTimeout(() => done(answer), 700));
        }"""
    )
    query = one("#query")
    for text in ["sundial shadow", "l", "lantern", "lantern 7"]:
        query.clear()
        query.send_keys(text)
        wait("it is asked", lambda: text[0] == "l" or script("return window.late"))
    wait("the last one", lambda: ids()[:1] == ["lamp-7"])
    assert script("return window.late.aborted"), "it was not given up"
    time.sleep(1)
    assert ids()[0] == "lamp-7" and "q=lantern+7" in page.current_url, ids()


def keys_are_enough():
    page.get("about:blank")
    page.get(f"{URL}/ui/#/indexes")
    wait("the indexes", lambda: all_of(".indexes"))
    keys("/")
    wait("the search box", lambda: focused() == "query")
    keys("lantern")
    wait("hits", lambda: count().startswith("60 matches"))
    first = ids()
    keys(Keys.ARROW_DOWN)
    wait("the first hit", lambda: focused() == first[0])
    keys(Keys.ARROW_DOWN)
    wait("the second hit", lambda: focused() == first[1])
    keys("e")
    wait("its score", lambda: all_of("#hits li:nth-child(2) .explained table"))
    keys(Keys.ENTER)
    wait("its document", lambda: first[1] in one("#hits li:nth-child(2) pre").text or "title" in one("#hits li:nth-child(2) pre").text)
    keys(Keys.ARROW_UP, Keys.ARROW_UP)
    wait("the search box again", lambda: focused() == "query")
    # Filters can be used with Tab and the space bar.
    settled()
    keys(Keys.TAB)
    assert focused() == "index", focused()
    for _ in range(10):
        keys(Keys.TAB)
        if script("return document.activeElement.closest('#facets') && document.activeElement.type") == "checkbox":
            break
    before = count()
    keys(Keys.SPACE)
    wait("it narrows", lambda: count() != before and len(all_of(".chip")) == 1)
    wait("the focus stays", lambda: script("return document.activeElement.type === 'checkbox' && document.activeElement.checked"))


def names_and_landmarks():
    for selector in ["header", "nav", "main", "form[role=search]", "aside"]:
        assert all_of(selector), selector
    nameless = script(
        """return [...document.querySelectorAll("input, select, button, a[href], summary")]
        .filter((at) => at.checkVisibility() && !(at.labels?.length || at.textContent.trim() || at.getAttribute("aria-label"))).map((at) => at.outerHTML)"""
    )
    assert not nameless, nameless
    assert one("#count").get_attribute("aria-live") == "polite"
    outline = script("const box = document.getElementById('query'); box.focus(); return getComputedStyle(box).outlineStyle")
    assert outline != "none", outline


def indexes_are_shown():
    click("nav [data-view=indexes]")
    row = wait("the table", lambda: one(".indexes tbody tr").text.split())
    assert row[:3] == ["lamps", "62", "0"] and row[-3:] == ["5", "fields", "CPU"], row
    click(".indexes summary")
    wait("the fields", lambda: "year long" in one(".indexes .fields").text)
    picture("indexes")
    click(".indexes tbody a")
    wait("its hits", lambda: len(ids()) == 10)


def load_is_live():
    click("nav [data-view=load]")
    cards = wait("the cards", lambda: len(all_of(".card:not([hidden])")) == 4 and all_of(".card:not([hidden])"))
    assert [card.find_element(By.TAG_NAME, "h2").text for card in cards] == ["Searches", "Latency of searches", "Requests", "Cache hits"]

    def line():
        """Returns the points of the first line."""
        return re.findall(r"[\d.]+,[\d.]+", one(".card .line").get_attribute("d"))

    def searched(condition):
        """Searches before each check, because the figures cover the last ten seconds."""
        ask(f"{URL}/v1/indexes/lamps/search", "POST", json.dumps({"query": f"lantern {time.monotonic_ns()}"}))
        return condition()

    rate = wait("a rate", lambda: searched(lambda: float(one(".card dd").text) > 0 and one(".card dd").text))
    assert [mark.text for mark in cards[0].find_elements(By.CSS_SELECTOR, ".axis li")] == ["2 min ago", "1 min ago", "now"]
    before = line()
    wait("more points", lambda: searched(lambda: len(line()) > len(before) + 1))
    # The last point is at the right end, the present, and seconds are equally wide on the axis.
    places = [float(place.split(",")[0]) for place in line()]
    assert places[-1] == 240 and all(1 < b - a < 6 for a, b in zip(places, places[1:])), places
    latency = [value.text for value in cards[1].find_elements(By.TAG_NAME, "dd")]
    assert all(value.endswith("ms") for value in latency), (rate, latency)
    label = cards[0].find_element(By.TAG_NAME, "svg").get_attribute("aria-label")
    assert "per second" in label, label
    picture("load")
    click("#load-pause")
    time.sleep(1.2)
    before = line()
    time.sleep(1.5)
    assert before == line()
    click("#load-pause")


def dark_and_light():
    page.get("about:blank")
    scheme("dark")
    page.get(f"{URL}/ui/#/search?index=lamps&q=lantern+wick")
    wait("hits", lambda: len(ids()) == 10)
    assert brightness() < 150, brightness()
    click("#hits [data-opens=score]")
    wait("the explanation", lambda: all_of(".explained table"))
    picture("dark")
    click("#theme")
    wait("light", lambda: brightness() > 600)
    page.refresh()
    wait("light after a reload", lambda: brightness() > 600)
    script("localStorage.clear()")
    scheme("light")


def narrow_screens():
    size(*NARROW)
    for view in ["search?index=lamps&q=lantern+wick", "search?index=lamps&q=chronicle", "indexes", "load"]:
        page.get("about:blank")
        page.get(f"{URL}/ui/#/{view}")
        name = view.split("?")[0]
        ready = {"search": lambda: len(ids()) > 0, "indexes": lambda: all_of(".indexes"), "load": lambda: one(".card dd").text != "–"}[name]
        wait(view, ready)
        if name == "search":
            settled()
            click("#filters summary")
            click("#hits [data-opens=score]")
            wait("the explanation", lambda: all_of(".explained table"))
        fits(view)
        picture(f"narrow-{name}" if "chronicle" not in view else "narrow-long")
    size(*WIDE)


def errors_are_said():
    page.get("about:blank")
    page.get(f"{URL}/ui/#/search?index=nowhere&q=lantern")
    wait("the other index", lambda: "There is no index nowhere" in one("#problem").text and len(ids()) == 10)
    # An index that is deleted while the page shows it.
    ask(f"{URL}/v1/indexes/lamps", "DELETE")
    allowed_errors.append(r"lamps/(search|batch) .*404")
    one("#query").send_keys(" wick")
    wait("the error", lambda: "no such index [lamps]" in one("#problem").text)
    assert ids() == [] and count() == "", "hits of another query are still there"
    picture("error")
    click("#problem button")
    wait("there is none any more", lambda: "There are no indexes yet" in one("#empty").text)


def keys_are_asked_for():
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        (folder / "keys").write_text(f"read {KEY}\n")
        with serving(folder / "data", "--api-key-file", str(folder / "keys")) as (url, _, lines):
            assert lines[1].strip().endswith(f"{url}/ui"), lines
            allowed_errors.append(r"/v1/status .*(401|503)")
            page.get(f"{url}/ui")
            wait("the question", lambda: one("#key").is_displayed())
            picture("key")
            one("#key-text").send_keys("a-wrong-key-of-some-length", Keys.ENTER)
            wait("it is refused", lambda: "does not accept this key" in one("#key-why").text)
            one("#key-text").send_keys(KEY, Keys.ENTER)
            wait("the page", lambda: "There are no indexes yet" in one("#empty").text)
            page.refresh()
            wait("it is kept", lambda: "There are no indexes yet" in one("#empty").text)
            queries.fill(folder / "data")
            wait("the first index", lambda: len(ids()) > 0)
            command, answer = queries.copied(url)
            assert KEY in command and "with your API key" in one("#curl-said").text
            assert [hit["id"] for hit in answer["hits"]] == ids()
            clean(url)



TESTS = [
    an_empty_server_says_how_to_begin,
    hits_come_as_one_types,
    facets_narrow,
    ranges_are_round,
    scores_are_explained,
    texts_of_documents_are_no_markup,
    the_last_answer_is_shown,
    keys_are_enough,
    names_and_landmarks,
    indexes_are_shown,
    load_is_live,
    dark_and_light,
    narrow_screens,
    *shapes.TESTS,
    errors_are_said,
]


def run(tests, url, *arguments):
    for test in tests:
        test(*arguments)
        clean(url)
        print(f"page: {test.__name__.replace('_', ' ')}", flush=True)


try:
    run(TESTS, URL)
    with tempfile.TemporaryDirectory() as folder:
        queries.fill(pathlib.Path(folder))
        with serving(folder) as (url, _, _):
            run(queries.TESTS, url, url)
        for test in away.TESTS:
            test(folder)
            print(f"page: {test.__name__.replace('_', ' ')}", flush=True)
    keys_are_asked_for()
    print("page: keys are asked for")
finally:
    page.quit()
