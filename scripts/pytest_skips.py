"""A pytest plugin that appends skipped tests to the file in which `cargo xtask` collects skips."""

import os


def pytest_runtest_logreport(report):
    _note(report)


def pytest_collectreport(report):
    _note(report)


def _note(report):
    file = os.environ.get("WARPSEEK_SKIPS")
    # An expected failure is not a skipped test.
    if not file or not report.skipped or hasattr(report, "wasxfail"):
        return
    why = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
    with open(file, "a", encoding="utf-8") as lines:
        lines.write(" ".join(f"skipped: {report.nodeid}: {why.removeprefix('Skipped: ')}".split()) + "\n")
