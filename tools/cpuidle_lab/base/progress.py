# SPDX-License-Identifier: GPL-2.0
"""Lines that show how far work is: those of all threads stand below each other."""

import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.live import Live
    from rich.progress import Progress, ProgressColumn

# Of some work: its title and how much there is to do; yields the function to call with a part done.
Meter = Callable[[str, int], AbstractContextManager[Callable[[int], None]]]


@contextmanager
def unseen(_title: str, _total: int) -> Iterator[Callable[[int], None]]:
    """Show nothing; a Meter."""
    yield lambda _: None


_lock = threading.Lock()
_shown: "list[Progress]" = []
_live: "Live | None" = None


@contextmanager
def live_line(*columns: "ProgressColumn") -> "Iterator[Progress]":
    """Show a line on standard error while what follows runs; nothing where there is no terminal.

    Two displays on one terminal would write over each other, so one display has the lines of all.

    Args:
        columns: of the line.

    Yields:
        What has its tasks.
    """
    # Here, so that commands show their help where only Python is.
    from rich.console import Console, Group
    from rich.live import Live
    from rich.progress import Progress

    global _live
    console = Console(stderr=True)
    line = Progress(*columns, console=console, disable=not console.is_terminal)
    with _lock:
        _shown.append(line)
        if _live is None and console.is_terminal:
            _live = Live(console=console, transient=True, get_renderable=lambda: Group(*_shown))
            _live.start()
    try:
        yield line
    finally:
        with _lock:
            _shown.remove(line)
            ended, _live = (_live, None) if not _shown else (None, _live)
        if ended is not None:
            ended.stop()
