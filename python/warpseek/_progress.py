"""Progress bars, if tqdm is there."""

from __future__ import annotations

from typing import Any, Callable


class Bar:
    """Shows how many documents were read, or queries answered: a context that gives what is to be called, or None."""

    def __init__(self, wanted: bool, of: str = "docs"):
        self._bar: Any = None
        if wanted:
            try:
                from tqdm.auto import tqdm
            except ImportError:
                return
            self._bar = tqdm(unit=f" {of}")

    def __enter__(self) -> Callable[[str, int], object] | None:
        return None if self._bar is None else self._show

    def _show(self, phase: str, done: int) -> None:
        self._bar.set_description(phase, refresh=False)
        self._bar.update(done - self._bar.n)

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.close()
