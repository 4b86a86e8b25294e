# SPDX-License-Identifier: GPL-2.0
"""The process of its own that replay runs governors in."""

import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from cpuidle_lab.base.errors import UserError
from cpuidle_lab.replay import fidelity


def test_a_governor_that_breaks_down_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="a state that was recorded in it is damaged"):
        fidelity.apart(tmp_path, os.abort)
    with pytest.raises(UserError, match="is no Parquet directory"):
        fidelity.apart(tmp_path, fidelity.fidelity_of, tmp_path, "wteo", 1)


@pytest.mark.parametrize("forks", [True, False])
def test_a_process_is_forked_unless_polars_has_workers(forks: bool) -> None:
    """The state of the garbage collector shows it: a new process collects."""
    script = f"""\
import gc, pathlib, polars as pl
from cpuidle_lab.replay import fidelity
pl.DataFrame({{"a": [1]}}).lazy().collect() if {not forks} else None
gc.disable()
print(fidelity.apart(pathlib.Path("x"), gc.isenabled))
"""
    paths = os.pathsep.join(filter(None, sys.path))
    done = subprocess.run(
        [sys.executable, "-c", script],
        env=os.environ | {"PYTHONPATH": paths}, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert done.stdout == f"{not forks}\n"


def test_a_thread_that_ends_meanwhile_is_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    read = Path.read_text

    def ended(path: Path) -> str:
        text = read(path)
        if path.parent.name == str(threading.get_native_id()):
            return text
        raise ProcessLookupError

    finished = threading.Event()
    thread = threading.Thread(target=finished.wait, daemon=True)
    thread.start()
    monkeypatch.setattr(Path, "read_text", ended)
    fidelity._can_fork()
    finished.set()
    thread.join()


@pytest.mark.parametrize("forks", [True, False])
def test_a_process_ends_with_the_one_that_started_it(forks: bool) -> None:
    script = f"""\
import pathlib, time
from cpuidle_lab.replay import fidelity
fidelity._can_fork = lambda: {forks}
with fidelity.Apart(time.sleep) as process:
    process.begin(0)
    process.result(pathlib.Path("x"))
    print(*process._pool._processes, flush=True)
    time.sleep(60)
"""
    paths = os.pathsep.join(filter(None, sys.path))
    with subprocess.Popen(
        [sys.executable, "-c", script],
        env=os.environ | {"PYTHONPATH": paths}, stdout=subprocess.PIPE, text=True,
    ) as main:  # fmt: skip
        assert main.stdout
        child = int(main.stdout.readline())
        main.kill()
        # It has the other end of this pipe.
        assert main.stdout.read() == ""
    with pytest.raises(ProcessLookupError):
        for _ in range(100):
            os.kill(child, 0)
            time.sleep(0.1)
