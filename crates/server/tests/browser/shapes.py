"""The appearance of the page: edges, borders, and hits ahead of everything else."""

from driver import NARROW, URL, WIDE, all_of, fits, ids, one, page, picture, scheme, script, settled, size, wait

# Contrast of borders with the colours on both sides, by the formula of the Web Content
# Accessibility Guidelines.
CONTRAST = """
const rgb = (colour) => colour.match(/[\\d.]+/g).map(Number);
const luminance = (colour) => {
  const [r, g, b] = rgb(colour).map((c) => c / 255).map((c) => (c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4));
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
};
const contrast = (a, b) => {
  const [low, high] = [luminance(a), luminance(b)].sort((a, b) => a - b);
  return (high + 0.05) / (low + 0.05);
};
const ground = (at) => {
  for (; at; at = at.parentElement) {
    const { backgroundColor } = getComputedStyle(at);
    if ((rgb(backgroundColor)[3] ?? 1) > 0) return backgroundColor;
  }
};
const of = (at) => {
  const style = getComputedStyle(at);
  const side = ["Top", "Bottom"].find((side) => parseFloat(style[`border${side}Width`]) > 0);
  const colour = style[`border${side}Color`];
  return Math.min(contrast(colour, ground(at)), contrast(colour, ground(at.parentElement)));
};
return [...document.querySelectorAll(arguments[0])].filter((at) => at.checkVisibility()).map((at) => [at.outerHTML.slice(0, 80), of(at)]);
"""

VIEWS = {
    "search?index=lamps&q=lantern+wick": "#query, #index, .small, button.quiet, .typed input, .top, .hits > li + li",
    "indexes": ".indexes td, button.quiet",
    "load": ".card, .card svg, button.quiet",
}


def show(view):
    page.get("about:blank")
    page.get(f"{URL}/ui/#/{view}")
    wait(view, lambda: all_of("#hits article, .indexes td, .card"))
    settled()


def borders_can_be_seen():
    for name in ["light", "dark"]:
        scheme(name)
        for view, selector in VIEWS.items():
            show(view)
            borders = script(CONTRAST, selector)
            assert len(borders) > 2, (view, borders)
            faint = [(what, round(value, 2)) for what, value in borders if value < 3]
            assert not faint, (name, faint)
    scheme("light")


def the_header_ends_where_the_content_does():
    edges = "return [...document.querySelectorAll(arguments[0])].map((at) => at.getBoundingClientRect()).map(({ left, right }) => [left, right])"
    for width in [700, 1200, 1440, 1920]:
        size(width, 900)
        for view, content in [("search?index=lamps&q=lantern", "#search-form"), ("indexes", "#indexes .heading"), ("load", "#load .heading")]:
            show(view)
            (brand, theme, of) = script(edges, ".brand") + script(edges, "#theme") + script(edges, content)
            assert abs(brand[0] - of[0]) < 1 and abs(theme[1] - of[1]) < 1, (width, view, brand, theme, of)
    size(*WIDE)


def hits_come_first():
    size(*NARROW)
    show("search?index=lamps&q=lantern+wick")
    assert not one("#answered").is_displayed() and not one("#facets").is_displayed()
    top = script("return document.querySelector('#hits article').getBoundingClientRect().top")
    assert top < NARROW[1] / 2, top
    assert len(ids()) == 10
    picture("narrow-first")
    for opened in [".help summary", "#trace summary", "#curl"]:
        one(opened).click()
    settled()
    fits("all that can be opened")
    size(*WIDE)


TESTS = [borders_can_be_seen, the_header_ends_where_the_content_does, hits_come_first]
