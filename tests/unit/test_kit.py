# SPDX-License-Identifier: GPL-2.0
"""`cpuidle-lab kit`: what is in an archive, what is not, and what reading one finds."""

import gzip
import io
import json
import shutil
import tarfile
from collections.abc import Sequence
from pathlib import Path

import pytest

from cpuidle_lab.base.errors import UserError
from cpuidle_lab.base.files import marked
from cpuidle_lab.cli import main
from cpuidle_lab.commands import kit as command
from cpuidle_lab.kit import archive, gather, reading
from tests.unit.test_domains_replay import recording

TAKEN = marked(archive.MARK)


def packed(folder: Path, target: Path, **told: object) -> Path:
    archive.pack(folder, {"kernel": "6.12.1", "driver": "acpi_idle", **told}, target, TAKEN)
    return target


@pytest.fixture
def filled(tmp_path: Path) -> Path:
    """Return the folder of a kit: a recording of two CPUs, and its figures."""
    folder = tmp_path / "kit"
    folder.mkdir()
    shutil.move(recording(tmp_path), folder / gather.RECORDING)
    code, out, err = gather.run(gather.FIGURES, folder)
    assert code == 0, err
    (folder / "figures.json").write_text(out)
    return folder


def test_an_archive_has_no_owner_and_no_time_and_unpacks_to_the_same(tmp_path: Path) -> None:
    folder = tmp_path / "kit"
    (folder / "recording" / "period").mkdir(parents=True)
    (folder / "doctor.json").write_text("{}")
    (folder / "recording" / "period" / "0.parquet").write_bytes(b"x")
    path = packed(folder, tmp_path / "k.tar.gz", missing={"ab": "no module"})
    with tarfile.open(path) as tar:
        assert {(info.uid, info.uname, info.mtime) for info in tar} == {(0, "", 0)}
    first = path.read_bytes()
    told = archive.unpack(path, tmp_path / "new")
    assert told["missing"] == {"ab": "no module"} and told["kernel"] == "6.12.1"
    assert archive.hashes(tmp_path / "new") == archive.hashes(folder)
    assert packed(folder, path, missing={"ab": "no module"}).read_bytes() == first


def test_names_of_host_and_user_are_found_as_words(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text('{"host": "web-1.example"}')
    (tmp_path / "b.txt").write_text("the web-12 and alice2")
    assert list(archive.naming(tmp_path, ["web-1", "alice"])) == [("a.json", "web-1")]


def run_as(codes: dict[str, int]) -> gather.Run:
    """Return what runs a command: it leaves its file, or fails with a sentence."""

    def run(words: Sequence[str], folder: Path) -> tuple[int, str, str]:
        if codes.get(words[0]):
            return codes[words[0]], "", f"cpuidle-lab: error: no {words[0]} here\n"
        if "-o" in words:
            (folder / words[words.index("-o") + 1]).write_text("made")
        return 0, "{}", ""

    return run


def test_a_part_that_fails_is_named_and_the_others_stay(tmp_path: Path) -> None:
    plan = gather.steps(10, ["menu", "wteo", "ladder"])
    missing = gather.gather(tmp_path, plan, run_as({"capture": 1, "doctor": 1}), lambda _: None)
    # A doctor that finds something ends with 1, which is no failure.
    assert missing == {"recording": "no capture here"}
    names = {str(name) for name in archive.files_of(tmp_path)}
    assert names == {"doctor.json", "before.txt", "ab.jsonl", "after.txt"}
    # A Python without packages makes no figures; the recording is without names.
    missing = gather.gather(tmp_path, plan, run_as({"compare": 1}), lambda _: None)
    assert missing == {"figures": "no compare here"} and (tmp_path / gather.RECORDING).is_file()
    assert all("--scrub" in step.words for step in plan if step.words[0] == "capture")
    assert not any(step.name == "ab" for step in gather.steps(10, ["menu"]))


def test_the_kernels_command_line_stays_at_home(tmp_path: Path) -> None:
    line = {"kind": "head", "command_line": 'root=UUID=12 a="b c" host=web-1', "smt": "on"}
    (tmp_path / "ab.jsonl").write_text(json.dumps(line) + "\n" + json.dumps({"kind": "run"}) + "\n")
    gather.gather(tmp_path, [], run_as({}), lambda _: None)
    first, second = (tmp_path / "ab.jsonl").read_text().splitlines()
    assert json.loads(first) == line | {"command_line": ""} and json.loads(second)


def test_a_kit_is_read_and_its_figures_are_made_again(
    filled: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = packed(filled, tmp_path / "one.tar.gz")
    (kit,) = reading.read_all([path], gather.run)
    assert not kit.wrong and kit.cpus == 2 and kit.intervals > 100, kit.notes
    assert {"wteo", "oracle"} <= set(kit.regrets)

    told = json.loads((filled / "figures.json").read_text())
    told["summary"][0]["mean_regret"] = 1234.5
    (filled / "figures.json").write_text(json.dumps(told))
    forged = packed(filled, tmp_path / "two.tar.gz")
    assert main(["kit", "--read", str(path), str(forged)]) == 1
    said = capsys.readouterr().out
    assert "1234.5 % in the archive" in said and "6.12.1" in said


def tar_of(path: Path, name: str, kind: bytes = tarfile.REGTYPE) -> Path:
    with tarfile.open(path, "w:gz") as tar:
        info = tarfile.TarInfo(name)
        info.type = kind
        info.linkname = "/etc/passwd"
        tar.addfile(info, io.BytesIO())
    return path


@pytest.mark.parametrize(
    ("name", "kind"),
    [("../../etc/x", tarfile.REGTYPE), ("/x", tarfile.REGTYPE), ("x", tarfile.SYMTYPE)],
)
def test_an_archive_with_other_members_is_refused(tmp_path: Path, name: str, kind: bytes) -> None:
    with pytest.raises(UserError, match="is no file of a kit"):
        archive.unpack(tar_of(tmp_path / "k.tar.gz", name, kind), tmp_path / "new")


def test_damaged_and_changed_archives_are_one_sentence_each(tmp_path: Path) -> None:
    folder = tmp_path / "kit"
    folder.mkdir()
    (folder / "before.txt").write_text("dump " * 2000)
    path = packed(folder, tmp_path / "k.tar.gz")
    whole = path.read_bytes()
    for data in (b"", b"no archive", whole[: len(whole) // 2]):
        path.write_bytes(data)
        with pytest.raises(UserError, match="is no archive of"):
            archive.unpack(path, tmp_path / f"new{len(data)}")
    changed = gzip.decompress(whole).replace(b"dump dump", b"dump dumb", 1)
    path.write_bytes(gzip.compress(changed))
    with pytest.raises(UserError, match=r"before\.txt is not what was packed"):
        archive.unpack(path, tmp_path / "last")
    (kit,) = reading.read_all([tmp_path / "absent.tar.gz"], gather.run)
    assert kit.wrong and kit.notes == ["no such file"]


def test_a_file_of_others_stays(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "mine.tar.gz"
    path.write_text("mine")
    for words in ([], ["--force"]):
        assert main(["kit", "-o", str(path), *words]) == 2
    assert path.read_text() == "mine"
    assert main(["kit"]) == 2 and main(["kit", "-o", str(path), "--read", str(path)]) == 2
    capsys.readouterr()


def test_reasons_that_leave_the_machine_name_no_user(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archive, "private_words", lambda: ["alice"])
    missing = {"ab": "/home/alice/x: no room", "recording": "no trace-cmd"}
    told = command._unnamed(missing, names=False)
    assert told == {"ab": "left out", "recording": "no trace-cmd"}
    assert command._unnamed(missing, names=True) == missing
