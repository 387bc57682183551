"""Progress bars, if tqdm is installed."""

from __future__ import annotations

from typing import Any, Callable


class Bar:
    """A progress bar of documents or queries.

    As a context manager it returns the function that reports progress, or None.
    """

    def __init__(self, wanted: bool, unit: str = "docs"):
        self._bar: Any = None
        if wanted:
            try:
                from tqdm.auto import tqdm
            except ImportError:
                return
            self._bar = tqdm(unit=f" {unit}")

    def __enter__(self) -> Callable[[str, int], object] | None:
        return None if self._bar is None else self._show

    def _show(self, phase: str, done: int) -> None:
        self._bar.set_description(phase, refresh=False)
        self._bar.update(done - self._bar.n)

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.close()
