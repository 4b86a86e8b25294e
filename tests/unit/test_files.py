# SPDX-License-Identifier: GPL-2.0
"""Outputs of commands: nothing of a user's is lost for them, and nothing is left behind."""

import errno
import os
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from cpuidle_lab import cli
from cpuidle_lab.base import files
from cpuidle_lab.base.errors import FAILURE, USAGE, UserError
from cpuidle_lab.lab import results
from cpuidle_lab.recording.columns import foreign as no_columns
from tests.unit import tracedat

PACKAGE = Path(__file__).parents[2] / "tools"
MARK = "# ours\n"
ours = files.marked(MARK)


def refused(path: Path, foreign: files.Foreign = ours, code: int = USAGE) -> str:
    """Demand that an output is refused, and that nothing changes; return the sentence."""
    before = contents(path.parent)
    with pytest.raises(UserError) as caught:
        files.write_whole(path, MARK, foreign)
    assert caught.value.exit_code == code
    assert contents(path.parent) == before
    return caught.value.message


def contents(folder: Path) -> dict[str, bytes | None]:
    """Return all files below a directory, hidden ones included; None: no regular file."""
    return {
        str(path.relative_to(folder)): path.read_bytes() if path.is_file() else None
        for path in folder.rglob("*")
    }


@pytest.mark.skipif(os.geteuid() != 0, reason="gives files to another user")
def test_an_output_of_sudo_is_the_callers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SUDO_UID", "12345")
    monkeypatch.setenv("SUDO_GID", "54321")
    files.write_whole(tmp_path / "a", "text", files.marked("text"))
    found = (tmp_path / "a").stat()
    assert (found.st_uid, found.st_gid) == (12345, 54321)


def test_a_file_is_replaced_only_if_it_has_the_mark(tmp_path: Path) -> None:
    target = tmp_path / "out"
    files.write_whole(target, MARK, ours)
    target.chmod(0o640)
    files.write_whole(target, f"{MARK}more", ours)
    assert target.read_text() == f"{MARK}more" and target.stat().st_mode & 0o777 == 0o640
    target.write_text("years of work")
    assert "was not written by this command" in refused(target)
    target.write_text("")
    files.write_whole(target, MARK, ours)
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


@pytest.mark.parametrize("kind", ["fifo", "device", "directory", "dangling", "loop", "no parent"])
def test_what_is_no_file_is_refused(kind: str, tmp_path: Path) -> None:
    target = tmp_path / "out"
    if kind == "fifo":
        os.mkfifo(target)
    elif kind == "device":
        target.symlink_to("/dev/null")
    elif kind == "directory":
        target.mkdir()
    elif kind == "no parent":
        target = tmp_path / "no" / "out"
        with pytest.raises(UserError, match="no such directory"):
            files.write_whole(target, MARK, ours)
        return
    else:
        target.symlink_to("out" if kind == "loop" else "nothing")
    assert "regular file" in refused(target) or kind not in ("fifo", "device")
    assert Path("/dev/null").is_char_device()


def test_a_link_to_an_own_file_stays_a_link(tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    (tmp_path / "there/out").write_text(MARK)
    (tmp_path / "link").symlink_to("there/out")
    files.write_whole(tmp_path / "link", f"{MARK}more", ours)
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "there/out").read_text() == f"{MARK}more"


@pytest.mark.parametrize("name", ["in", "./in", "d/../in", "soft", "hard"])
def test_an_input_is_refused_by_each_of_its_names(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("d").mkdir()
    Path("in").write_text(MARK)  # as if it were an output of before
    Path("soft").symlink_to("in")
    Path("hard").hardlink_to("in")
    with files.inputs([Path("in")]):
        assert "is an input" in refused(tmp_path / name)
    files.write_whole(Path("in"), MARK, ours)


def test_nothing_is_written_into_an_input_or_over_what_holds_one(tmp_path: Path) -> None:
    columns, output = tmp_path / "columns", tmp_path / "out"
    columns.mkdir()
    with files.inputs([columns]):
        assert "lies in the input" in refused(columns / "page.html")
        with pytest.raises(UserError, match="lies in the input"), files.claimed(columns / "d"):
            pass
    (output / "d").mkdir(parents=True)
    (output / "d" / "script").write_text("mine")
    with files.inputs([output / "d" / "script"]):
        assert "holds the input" in refused(output, lambda _: "")


def test_a_refused_file_keeps_the_others_from_being_written(tmp_path: Path) -> None:
    (tmp_path / "b").write_text("mine")
    before = contents(tmp_path)
    with pytest.raises(UserError):
        files.write_all(tmp_path, {"a": (MARK, ours), "b": (MARK, ours)})
    assert contents(tmp_path) == before


@pytest.mark.parametrize("kind", ["file", "dangling"])
def test_a_folder_of_outputs_is_no_file(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "x"
    if kind == "file":
        path.write_text("mine")
    else:
        path.symlink_to("nothing")
    with pytest.raises(UserError, match="is not a directory; choose") as found:
        files.write_all(path, {"a": (MARK, ours)})
    assert found.value.exit_code == USAGE


def test_columns_with_something_else_are_not_replaced(tmp_path: Path) -> None:
    folder = tmp_path / "columns"
    (folder / "interval").mkdir(parents=True)
    (folder / "meta.json").write_text('{"format": 3, "parts": {}}')
    (folder / "interval" / "00000.parquet").touch()
    assert no_columns(folder) == ""
    (folder / "interval" / "notes").touch()
    assert "holds interval/notes" in no_columns(folder)
    (folder / "interval" / "notes").unlink()
    (folder / "meta.json").write_text('{"mine": 1}')
    assert "has no meta.json of a recording" in no_columns(folder)


def test_results_with_something_else_are_not_replaced(tmp_path: Path) -> None:
    (tmp_path / "d").mkdir()
    (tmp_path / "d" / "out").touch()
    (tmp_path / "a\nb").touch()
    results.note(tmp_path)
    assert results.foreign(tmp_path) == ""
    (tmp_path / "report.html").write_text(f"<html>{files.PAGE}report")
    assert results.foreign(tmp_path) == ""
    (tmp_path / "console").touch()
    assert "holds console" in results.foreign(tmp_path)
    results.note(tmp_path, tmp_path / "console")
    assert results.foreign(tmp_path) == ""
    (tmp_path / "d" / "notes").touch()
    assert "holds d/notes" in results.foreign(tmp_path)


# ---- Failures, and two at once. ----


def test_a_full_disk_names_the_file_and_changes_nothing(tmp_path: Path) -> None:
    target = tmp_path / "out"
    target.write_text(MARK)
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    ignored = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (1000, before[1]))
        with pytest.raises(OSError, match="too large") as caught:
            files.write_whole(target, MARK * 1000, ours)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, ignored)
    assert caught.value.filename == str(target) and caught.value.errno == errno.EFBIG
    assert contents(tmp_path) == {"out": MARK.encode()}


@pytest.mark.skipif(os.geteuid() != 0, reason="becomes another user")
def test_without_permission_it_is_one_sentence() -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o755)
        os.seteuid(65534)
        try:
            assert "not writable" in refused(folder / "out")
        finally:
            os.seteuid(0)
        left = folder / f"{files.SCRATCH}x"
        left.mkdir()
        os.chown(left, 65534, 65534)
        files.sweep(left)
        assert left.is_dir(), "another user's stays"


def test_a_reader_of_all_files_of_a_suffix_sees_whole_ones_alone(tmp_path: Path) -> None:
    target = tmp_path / "cpuidle.prom"
    target.write_text(MARK)
    with files.whole(target, ours) as new:
        new.write_text(MARK)
        read = {path.name for path in tmp_path.iterdir() if path.name.endswith(target.suffix)}
        assert read == {target.name}, "node_exporter reads hidden files, too"


def test_an_exception_leaves_a_directory_as_it_was(tmp_path: Path) -> None:
    target = tmp_path / "out"
    target.mkdir()
    (target / "old").touch()
    with pytest.raises(ZeroDivisionError), files.whole(target, lambda _: "") as new:
        new.mkdir()
        raise ZeroDivisionError
    assert set(contents(tmp_path)) == {"out", "out/old"}


def test_an_error_names_the_output(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError) as caught, files.whole(tmp_path / "out", ours) as new:
        (new / "part").touch()
    assert caught.value.filename == str(tmp_path / "out")


def test_an_error_of_a_copied_tree_names_the_output(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_: object, target: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device", str(target))

    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a").touch()
    with pytest.raises(OSError, match="No space") as caught, files.whole(tmp_path / "x", ours) as x:
        shutil.copytree(tmp_path / "in", x, copy_function=full)
    assert (caught.value.filename, caught.value.errno) == (str(tmp_path / "x"), errno.ENOSPC)


@pytest.mark.parametrize("way", [files.whole, lambda path, _: files.claimed(path)])
def test_the_second_of_two_is_refused(
    way: Callable[..., AbstractContextManager[Path | None]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(files, "_SWEEP_S", 0.0)
    with way(tmp_path / "out", ours) as new:
        if new:
            new.mkdir()
        with pytest.raises(UserError, match="another process writes it") as caught:
            way(tmp_path / "out", ours).__enter__()
    assert caught.value.exit_code == FAILURE


def test_many_at_once_write_one_whole_file(tmp_path: Path) -> None:
    texts = [MARK + str(n) * 100_000 for n in range(8)]
    threads = [
        threading.Thread(target=files.write_whole, args=(tmp_path / "out", text, ours))
        for text in texts
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (tmp_path / "out").read_text() in texts
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


KILLED = """
import sys
from pathlib import Path
from cpuidle_lab.base import files
target = Path(sys.argv[1])
with files.scratch(target.parent) as other, files.whole(target, lambda _: "") as new:
    new.mkdir()
    if sys.argv[2:]:
        target.rename(new.with_name(files.OLD))
    print(flush=True)
    sys.stdin.read()
"""


@pytest.mark.parametrize("swapping", [False, True])
def test_what_a_killed_process_left_goes_and_what_it_was_to_replace_stays(
    swapping: bool, tmp_path: Path
) -> None:
    target = tmp_path / "out"
    target.mkdir()
    (target / "old").touch()
    command = [sys.executable, "-c", KILLED, target, *(["swap"] if swapping else [])]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen(command, env={"PYTHONPATH": str(PACKAGE)}, **pipes) as process:  # type: ignore[call-overload]
        process.stdout.readline()
        with files.scratch(tmp_path):
            assert len(list(tmp_path.glob(f"{files.SCRATCH}*"))) == 3, "a living one's stay"
        process.kill()
    with files.scratch(tmp_path):
        pass
    assert set(contents(tmp_path)) == {"out", "out/old"}


# ---- The command line. ----


@pytest.fixture
def recording(tmp_path: Path) -> Path:
    """Write a recording."""
    path = tmp_path / "trace.dat"
    tracedat.Trace().write(path)
    return path


@pytest.mark.parametrize(
    "command",
    ["report", "report --force", "compare", "compare --force", "domains --domains xeon"],
)
def test_no_page_takes_the_place_of_its_recording(
    command: str, recording: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = contents(recording.parent)
    assert cli.main([*command.split(), str(recording), "-o", str(recording)]) == USAGE
    assert "is an input" in capsys.readouterr().err
    assert contents(recording.parent) == before


@pytest.mark.parametrize("error", [errno.EACCES, errno.EPERM, errno.EROFS])
def test_a_directory_that_cannot_be_made_is_wrong_usage(
    error: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def mkdir(path: Path, *args: object, **options: object) -> None:
        if path == target:
            raise OSError(error, os.strerror(error), str(path))
        plain(path, *args, **options)  # type: ignore[arg-type]

    target, plain = tmp_path / "out", Path.mkdir
    monkeypatch.setattr(Path, "mkdir", mkdir)
    said = f"{target}: not writable; choose another place"
    assert cli.main(["synth", "poisson-100us", "--count", "10", "-o", str(target)]) == USAGE
    assert f"error: {said}\n" in capsys.readouterr().err
    with pytest.raises(UserError) as caught:
        files.write_all(target, {"a": (MARK, ours)})
    assert (caught.value.message, caught.value.exit_code) == (said, USAGE)


@pytest.mark.parametrize("option", ["--machine", "--domains"])
def test_a_machine_file_is_an_input(option: str) -> None:
    args = cli.parse(["report", "t.dat", option, __file__, "-o", "out.html"])
    assert set(cli.named_inputs(args)) == {Path("t.dat"), Path(__file__)}


def test_a_dump_of_domains_is_an_input() -> None:
    args = cli.parse(["report", "t.dat", "--domains", f"lpi:{__file__}", "-o", "out.html"])
    assert set(cli.named_inputs(args)) == {Path("t.dat"), Path(__file__)}


def test_sigterm_is_said(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def run(_: object) -> int:
        signal.raise_signal(signal.SIGTERM)
        time.sleep(5)
        return 0

    monkeypatch.setattr("cpuidle_lab.commands.machines.run", run)
    assert cli.main(["machines"]) == 143
    assert capsys.readouterr().err == "\ncpuidle-lab: interrupted by SIGTERM\n"
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
