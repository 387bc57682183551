"""The browser that shows the page, and helpers shared by all tests."""

import contextlib
import json
import pathlib
import re
import subprocess
import sys
import threading
import time
import urllib.request

from selenium import webdriver
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

URL, PROGRAM, CHROMIUM, DRIVER, PICTURES = sys.argv[1:6]
PICTURES = pathlib.Path(PICTURES)
PICTURES.mkdir(parents=True, exist_ok=True)
WIDE, NARROW = (1200, 900), (360, 740)
KEY = "a-reading-key-of-some-length"


@contextlib.contextmanager
def serving(folder, *options, listen="127.0.0.1:0"):
    """Starts a server on a folder; returns its address, its process and its first message."""
    command = [PROGRAM, "serve", str(folder), "--listen", listen, *options]
    server = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    try:
        lines = [server.stderr.readline() for _ in range(2)]
        # Without a reader of its log, the server would block once the pipe is full.
        threading.Thread(target=server.stderr.read, daemon=True).start()
        yield re.search(r"http://\S+", lines[0])[0], server, lines
    finally:
        server.terminate()
        server.wait()


def ask(url, method="GET", body=None, key=None):
    headers = {"content-type": "application/json"} | ({"authorization": f"Bearer {key}"} if key else {})
    request = urllib.request.Request(url, data=body.encode() if body else None, method=method, headers=headers)
    with urllib.request.urlopen(request) as answer:
        return json.load(answer)


def browser():
    options = webdriver.ChromeOptions()
    options.binary_location = CHROMIUM
    for argument in ["--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu", "--disable-background-networking", "--no-first-run"]:
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    return webdriver.Chrome(options=options, service=webdriver.ChromeService(executable_path=DRIVER))


page = browser()
allowed_errors = []


def size(width, height):
    page.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False})


def scheme(name):
    page.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [{"name": "prefers-color-scheme", "value": name}]})


def one(selector):
    return page.find_element(By.CSS_SELECTOR, selector)


def all_of(selector):
    return page.find_elements(By.CSS_SELECTOR, selector)


def script(text, *arguments):
    return page.execute_script(text, *arguments)


def wait(what, condition, seconds=120):
    """Waits until a condition holds, retrying if the page replaces elements."""
    end = time.monotonic() + seconds
    while True:
        try:
            found = condition()
        except Exception as error:
            found, last = None, error
        else:
            last = found
        if found:
            return found
        if time.monotonic() > end:
            page.save_screenshot(str(PICTURES / "failed.png"))
            raise AssertionError(f"{what}: {last!r}; the page says {one('main').text[:500]!r}")
        time.sleep(0.02)


def picture(name):
    page.save_screenshot(str(PICTURES / f"{name}.png"))


def count():
    return one("#count").text


def ids():
    return [article.get_attribute("data-id") for article in all_of("#hits article")]


def click(selector):
    """Clicks an element, retrying if the page has just replaced it."""
    wait(f"{selector} to click on", lambda: one(selector).click() is None)


def settled():
    """Waits for the counts, which arrive after the hits."""
    wait("counts", lambda: not all_of("[aria-busy]"))


def focused():
    return script("const at = document.activeElement; return at.dataset.id ?? at.id")


def keys(*pressed):
    ActionChains(page).send_keys(*pressed).perform()


def fits(where):
    wide = script("return document.documentElement.scrollWidth - document.documentElement.clientWidth")
    assert wide <= 0, f"{where} scrolls sideways by {wide} pixels"


def brightness():
    colour = script("return getComputedStyle(document.documentElement).backgroundColor")
    return sum(map(float, re.findall(r"[\d.]+", colour)[:3]))


def clean(origin):
    """Checks that the console has no errors, and that all requests went to the server."""
    errors = [entry for entry in page.get_log("browser") if entry["level"] in ("SEVERE", "WARNING")]
    errors = [entry for entry in errors if not any(re.search(allowed, entry["message"]) for allowed in allowed_errors)]
    assert not errors, errors
    for entry in page.get_log("performance"):
        message = json.loads(entry["message"])["message"]
        if message["method"] == "Network.requestWillBeSent":
            url = message["params"]["request"]["url"]
            # Icons of inputs are built into the browser.
            assert url.startswith((f"{origin}/", "data:", "about:", "chrome:")), url
