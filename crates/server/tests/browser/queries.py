"""Queries on the page: syntax, n-grams, orders, commands, and explanations of empty results."""

import json
import subprocess

from driver import PROGRAM, all_of, allowed_errors, ask, click, count, ids, one, page, picture, script, settled, size, wait, WIDE
from selenium.webdriver.support.ui import Select

FILMS = [
    {"id": "1", "title": "Sweat", "text": "Blood, sweat and tears", "year": 1970, "tag": "red"},
    {"id": "2", "title": "Cold nights", "text": "A cold sweat at night", "year": 1976, "tag": "blue"},
    {"id": "3", "title": "The sweat of others", "text": "It is cold, and they sweat", "year": 1980, "tag": "red"},
    {"id": "4", "title": "Year 1976", "text": "Nothing happens; don't look", "year": 1990},
]
SCHEMA = {
    "text": [{"name": "title", "positions": True, "analyzer": "english"}, {"name": "text", "positions": True, "analyzer": "english"}],
    "attributes": [{"name": "year", "type": "integer"}, {"name": "tag", "type": "keyword"}],
}


def fill(folder):
    """Builds indexes on the command line: with schema and positions, with neither, and of n-grams."""
    (folder / "films.jsonl").write_text("".join(json.dumps(film) + "\n" for film in FILMS))
    (folder / "schema.json").write_text(json.dumps(SCHEMA))
    for command in [["index", "--schema", "schema.json", "-o", "films"], ["index", "-o", "plain"], ["ngram", "index", "-o", "letters"]]:
        subprocess.run([PROGRAM, *command, "films.jsonl"], cwd=folder, check=True, capture_output=True)


def go(url, address):
    page.get("about:blank")
    page.get(f"{url}/ui/#/search?{address}")
    wait(address, lambda: one("#count").text or one("#why").text)
    settled()


def typed(text, found, said):
    """Types a query, and waits for its hits in any order and for their count."""
    box = one("#query")
    box.clear()
    box.send_keys(text)
    wait(text, lambda: sorted(ids()) == found and count() == said)
    settled()


def matches(*found):
    return list(found), f"{len(found)} match{'' if len(found) == 1 else 'es'}" if found else "No matches"


def the_syntax_is_read(url):
    size(*WIDE)
    go(url, "index=films")
    assert one("#syntax").is_selected()
    for text, found in [
        ("title:sweat", "13"),
        ("+sweat -tears", "23"),
        ('"cold sweat"', "2"),
        ("year:>=1976", "234"),
        ("sweat year:[1970 TO 1976]", "12"),
        ("tag:red", "13"),
    ]:
        typed(text, *matches(*found))
    # The facets count the matches of the query.
    typed("title:sweat", *matches("1", "3"))
    reds = lambda: [text for text in (box.text for box in all_of("#facets .choice")) if text.startswith("red")]
    wait("the count of red", lambda: [text.split("\n")[1] for text in reds()] == ["2"])

    def explained():
        # The hits may be drawn once more after the click, closed.
        opener = one("#hits [data-opens=score]")
        if opener.get_attribute("aria-expanded") == "false":
            opener.click()
        return "title" in one(".explained").text

    wait("its score", explained)
    picture("syntax")
    # Without the syntax, signs mean nothing: the year is a word in one of the titles.
    click("#syntax")
    wait("words", lambda: "syntax=0" in page.current_url)
    typed("+year:>=1976", *matches("4"))
    typed("sweat -tears", *matches("1", "2", "3"))
    page.refresh()
    wait("words after a reload", lambda: count() == "3 matches" and not one("#syntax").is_selected())
    click("#syntax")
    wait("the syntax again", lambda: sorted(ids()) == ["2", "3"] and "syntax" not in page.current_url)
    # An index without schema and positions reads plain words unless the user chooses the syntax.
    Select(one("#index")).select_by_value("plain")
    wait("the other index", lambda: "index=plain" in page.current_url and not one("#syntax").is_selected())
    typed("sweat -tears", *matches("1", "2", "3"))
    click("#syntax")
    wait("its syntax", lambda: sorted(ids()) == ["2", "3"] and "syntax=1" in page.current_url)


def the_syntax_is_explained(url):
    go(url, "index=films")
    assert not one(".sheet").is_displayed()
    click(".help summary")
    for sign in ["+sweat -tears", "title:sweat", '"cold sweat"', "year:>=1976", "_id:(7 8)"]:
        assert sign in one(".sheet").text, sign
    picture("help")
    click(".help summary")


def a_query_that_is_not_at_its_end_is_said(url):
    go(url, "index=films&q=sweat")
    allowed_errors.append(r"films/(search|batch) .*400")
    box = one("#query")
    box.clear()
    box.send_keys("title:")
    wait("what is missing", lambda: "is missing here (character 7 of the query)" in one("#why").text)
    assert ids() == [] and count() == "" and box.get_attribute("aria-invalid") == "true"
    wait("the counts are marked", lambda: float(script("return getComputedStyle(document.getElementById('facets')).opacity")) < 0.6)
    assert not one("#tools").is_displayed() and not all_of("#problem .notice")
    picture("unread")
    box.clear()
    box.send_keys("(sweat:")
    wait("no field", lambda: "there is no field `sweat`" in one("#why").text)
    click("#why button")
    wait("the words", lambda: sorted(ids()) == ["1", "2", "3"] and not one("#syntax").is_selected())
    assert box.get_attribute("aria-invalid") is None and one("#why").text == ""


def a_search_without_hits_has_a_reason(url):
    go(url, "index=films&q=Zebras+okapi")
    wait("the words", lambda: one("#why").text.startswith("In no document: Zebras okapi"))
    assert count() == "No matches" and not all_of("#why button")
    picture("nothing")
    # Hits may also lack some of the words.
    typed("sweat zebras", *matches("1", "2", "3"))
    assert one("#why").text == "In no document: zebras"
    typed("+tears +cold", *matches())
    assert "No document meets all that the query wants" in one("#why").text
    click("#why button")
    wait("the words alone", lambda: sorted(ids()) == ["1", "2", "3"])
    typed("the", *matches())
    assert "The query has no word to search for" in one("#why").text
    go(url, "index=letters&q=xy")
    assert "too short: it has no n-gram (3 characters)" in one("#why").text, one("#why").text
    go(url, "index=letters&q=hippopotamus")
    assert "More errors can be allowed" in one("#why").text, one("#why").text
    ask(f"{url}/v1/indexes/empty", "PUT", "{}")
    go(url, "index=empty&q=sweat")
    assert "The index has no documents." in one("#why").text
    ask(f"{url}/v1/indexes/empty", "DELETE")


def indexes_of_ngrams_are_searched(url):
    go(url, "index=letters")
    assert "letters (n-grams)" in one("#index").text and "misspelt" in count()
    assert not one("#filters").is_displayed() and not one("#sort").is_displayed() and not one("#syntax").is_displayed()
    typed("blod swaet and tears", ["1"], "1 hit")
    hit = one("#hits article").text
    assert hit.startswith("Sweat\n") and "n-grams, 3 errors" in hit and all_of("#hits mark"), hit
    click("#hits [data-opens=document]")
    wait("the document", lambda: '"year": 1970' in one("#hits pre").text)
    picture("ngrams")
    Select(one("#allowed")).select_by_visible_text("0 wrong characters")
    wait("nothing without errors", lambda: count() == "No matches" and "allow=e0" in page.current_url)
    page.refresh()
    wait("the same after a reload", lambda: count() == "No matches" and one("#allowed").get_attribute("value") == "e0")
    Select(one("#allowed")).select_by_visible_text("75 % of the n-grams missing")
    wait("it again", lambda: ids()[:1] == ["1"])
    click("#verify")
    wait("without distances", lambda: "verify=0" in page.current_url and all_of(".grams") and "error" not in one(".grams").text)
    click("nav [data-view=indexes]")
    wait("its row", lambda: any("n-grams of 3 characters" in row.text for row in all_of(".indexes tbody tr")))


def hits_are_sorted(url):
    go(url, "index=films&q=sweat")
    assert [option.text for option in Select(one("#sort")).options] == ["score", "tag", "year"]
    best = ids()
    Select(one("#order")).select_by_value("asc")
    wait("the worst first", lambda: ids() == best[::-1] and "sort=_score%3Aasc" in page.current_url)
    Select(one("#sort")).select_by_value("year")
    wait("the oldest first", lambda: ids() == ["1", "2", "3"])
    Select(one("#order")).select_by_value("desc")
    wait("the newest first", lambda: ids() == ["3", "2", "1"] and "sort=year%3Adesc" in page.current_url)
    assert one("#hits .sorted").text == "year 1980"
    page.refresh()
    wait("the same after a reload", lambda: ids() == ["3", "2", "1"] and one("#sort").get_attribute("value") == "year")
    picture("sorted")
    Select(one("#sort")).select_by_value("_score")
    wait("the best first", lambda: ids() == best and "sort" not in page.current_url)


def copied(url):
    """Returns the command on the clipboard and its output in a shell."""
    page.execute_cdp_cmd("Browser.grantPermissions", {"origin": url, "permissions": ["clipboardReadWrite", "clipboardSanitizedWrite"]})
    click("#curl")
    wait("it is copied", lambda: "was copied" in one("#curl-said").text)
    command = page.execute_async_script("navigator.clipboard.readText().then(arguments[0], (error) => arguments[0](String(error)))")
    done = subprocess.run(["bash", "-c", command], check=True, capture_output=True, text=True)
    return command, json.loads(done.stdout)


def commands_are_what_is_shown(url):
    for address in ["index=films&q=don%27t+sweat+-tears&sort=year%3Adesc", "index=plain&q=sweat&syntax=0", "index=letters&q=swaet+and&allow=e2", "index=films"]:
        go(url, address)
        command, answer = copied(url)
        assert command.startswith("curl -X POST '" + url) and [hit["id"] for hit in answer["hits"]] == ids() != [], (command, answer)
        if "plain" not in address and "letters" not in address:
            assert count().startswith(f"{answer['matches']} match")
    # Without a clipboard, the page shows the command to be copied by hand.
    script("navigator.clipboard.writeText = () => Promise.reject(new Error())")
    click("#curl")
    wait("the command", lambda: one("#curl-text").text.startswith("curl") and script("return String(getSelection())").startswith("curl"))


TESTS = [
    the_syntax_is_read,
    the_syntax_is_explained,
    a_query_that_is_not_at_its_end_is_said,
    a_search_without_hits_has_a_reason,
    indexes_of_ngrams_are_searched,
    hits_are_sorted,
    commands_are_what_is_shown,
]
