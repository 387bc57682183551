"""A server that does not answer: hits of another query disappear, and the page tries again."""

import signal
import time

from driver import all_of, allowed_errors, clean, click, count, ids, one, page, script, serving, wait
from queries import go


def one_that_hangs(folder):
    with serving(folder) as (url, server, _):
        go(url, "index=films&q=sweat")
        assert len(ids()) == 3
        server.send_signal(signal.SIGSTOP)
        allowed_errors.append(r"ERR_(CONNECTION_REFUSED|EMPTY_RESPONSE|CONNECTION_RESET|ABORTED)")
        try:
            one("#query").send_keys(" tears")
            wait("the old hits are marked", lambda: float(script("return getComputedStyle(document.getElementById('hits')).opacity")) < 0.6)
            wait("the old hits go", lambda: ids() == [] and count() == "Searching…", 4)
            wait("it is said", lambda: "The server does not answer." in one("#problem").text and count() == "", 10)
        finally:
            server.send_signal(signal.SIGCONT)
        wait("hits of the new query", lambda: ids()[:1] == ["1"] and not all_of("#problem .notice"))
        clean(url)


def one_that_is_started_again(folder):
    with serving(folder) as (url, _, _):
        go(url, "index=films&q=sweat")
        port = url.rsplit(":", 1)[1]
    one("#query").send_keys(" tears")
    wait("it is said", lambda: "The server does not answer." in one("#problem").text and ids() == [] and count() == "", 10)
    click("nav [data-view=indexes]")
    wait("there, too", lambda: "The server does not answer." in one("#problem").text and not all_of(".indexes"))
    page.back()
    wait("the search", lambda: one("#query").is_displayed())
    with serving(folder, listen=f"127.0.0.1:{port}"):
        wait("hits of the new query", lambda: ids()[:1] == ["1"] and not all_of("#problem .notice"))
        clean(url)


def one_that_takes_its_time(folder):
    with serving(folder) as (url, _, _):
        go(url, "index=films&q=sweat")
        script(
            """const real = window.fetch;
            window.fetch = (url, options) => new Promise((done) => setTimeout(() => done(real(url, options)), options.body?.includes("tears") ? 5000 : 0))"""
        )
        began = time.monotonic()
        one("#query").send_keys(" tears")
        wait("the old hits go", lambda: ids() == [] and count() == "Searching…", 4)
        wait("hits", lambda: ids()[:1] == ["1"])
        assert time.monotonic() - began > 4 and not all_of("#problem .notice")
        clean(url)


TESTS = [one_that_hangs, one_that_is_started_again, one_that_takes_its_time]
