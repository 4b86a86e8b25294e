# SPDX-License-Identifier: GPL-2.0
"""`review --here`: refusals, the modules' build, and runs on a recorded machine."""

import errno
import json
import os
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from cpuidle_lab.base.errors import UserError
from cpuidle_lab.cli import main
from cpuidle_lab.host.energy import POWERCAP
from cpuidle_lab.host.machine import CPUIDLE, LAB, Host
from cpuidle_lab.replay.candidates import candidate
from cpuidle_lab.review import here, mail, modules
from cpuidle_lab.review.booted import LabChange
from cpuidle_lab.review.result import EXIT_WORSE
from tests.unit import recorded
from tests.unit.command import error
from tests.unit.reviewing import judged, needs_sources

PAIR = ("teo_ng", "wteo")


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Unfold a machine with headers, an energy counter, and our module."""
    root = recorded.enter("debian13", tmp_path, monkeypatch)
    headers = root / f"lib/modules/{Host().kernel()}/build"
    headers.mkdir(parents=True, exist_ok=True)
    (headers / "Makefile").touch()
    zone = root / f"{POWERCAP}/intel-rapl:0"[1:]
    zone.mkdir(parents=True, exist_ok=True)
    for name, value in (("name", "package-0"), ("energy_uj", 5), ("max_energy_range_uj", 10**12)):
        (zone / name).write_text(f"{value}\n")
    monkeypatch.setattr(here, "_SETTLE_S", 0.0)
    # The recorded module is older, and has other tunables.
    for governor in PAIR:
        for one in candidate(governor).governor.tunables:
            (root / f"{LAB}/{governor}/{one.name}"[1:]).write_text("1\n")
    return root


# A mJ more for each run before; wteo spends 20 J, the other 40.
SPEND = f"""
cd "$CPUIDLE_LAB_ROOT"
echo run >>runs
joules=40
[ "$(cat .{CPUIDLE}/current_governor)" = wteo ] && joules=20
counter=.{POWERCAP}/intel-rapl:0/energy_uj
echo $(($(cat $counter) + joules * 1000000 + $(wc -l <runs) * 1000)) >$counter
"""


def test_runs_of_both_are_compared_round_by_round(root: Path, tmp_path: Path) -> None:
    before = (root / f"{CPUIDLE}/current_governor"[1:]).read_text()
    energy, time = here.play(PAIR, PAIR, SPEND, tmp_path, lambda _: None)
    assert (energy.figure, time.figure) == ("package energy", "time")
    assert energy.differs and not energy.worse and energy.change == pytest.approx(-0.5, abs=0.01)
    assert [round(value) for value in energy.after] == [20] * 5
    assert (root / f"{CPUIDLE}/current_governor"[1:]).read_text() == before
    assert (tmp_path / here.LOG).is_file()


def test_the_mail_and_json_have_the_machine() -> None:
    one = LabChange("make", "package energy", (40, 40.1), (50, 50.2))
    found = judged(here=[one, LabChange("make", "time", (3, 4), (3, 4))])
    assert (found.verdict, found.exit_code) == ("worse", EXIT_WORSE)
    assert "on this machine 1 figures are worse and 0 better" in found.sentence
    text = mail.text_of([found], "cpuidle-lab review")
    assert "\nOn this machine, both as modules\n" in text and "worse package energy make" in text
    assert [told["unit"] for told in found.as_json()["here"]] == ["J", "s"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("wteo@HEAD", "wteo"), "wteo@HEAD: no module has it"),
        (("wteo", "wteo:latency_bias=7"), "on this machine a governor has one set of tunables"),
    ],
)
def test_what_no_module_has_is_refused_at_once(
    root: Path, words: tuple[str, str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["review", *words, "--here", "true", "--budget", "1s"]) == 1
    assert said in error(capsys)


def test_a_machine_that_takes_no_module_is_refused_at_once(
    root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def said() -> str:
        assert main(["review", *PAIR, "--here", "true", "--budget", "1s"]) == 1
        return error(capsys)

    lockdown = root / "sys/kernel/security/lockdown"
    lockdown.parent.mkdir(parents=True, exist_ok=True)
    lockdown.write_text("none [integrity] confidentiality\n")
    assert "the kernel is locked down (integrity)" in said()
    lockdown.write_text("[none] integrity confidentiality\n")
    (root / f"lib/modules/{Host().kernel()}/build/Makefile").unlink()
    assert "need its headers: " in said()
    (root / f"{CPUIDLE}/current_driver"[1:]).write_text("none\n")
    assert "the kernel asks no idle governor here" in said()


# ---- Modules ----


def program(folder: Path, name: str, script: str) -> None:
    """Write a program that stands for another."""
    path = folder / name
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)


@needs_sources
def test_a_module_has_a_way_out_and_is_built_for_the_kernel(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    program(tmp_path, "make", f'echo "$@" >{tmp_path}/words')
    folder, kernel = tmp_path / "built", tmp_path / "kernel"
    folder.mkdir()
    (kernel / "include/config").mkdir(parents=True)
    (kernel / "include/config/auto.conf").write_text("#\nCONFIG_CC_IS_CLANG=y\n")
    (made,) = modules.build(["teo@7.3"], kernel, folder)
    assert made == folder / "cpuidle_teo_7_3.ko"
    assert (tmp_path / "words").read_text() == f"-C {kernel} M={folder} modules LLVM=1\n"
    text = (folder / "cpuidle_teo_7_3/module.c").read_text()
    assert text.index('"mainline.h"') < text.index('"leave.h"') < text.index('"teo.c"')
    assert (folder / "leave.h").is_file() and (folder / "module/symbols.c").is_file()
    kbuild = (folder / "Kbuild").read_text()
    assert "obj-m += cpuidle_teo_7_3.o" in kbuild and "cpuidle_lab" not in kbuild

    program(tmp_path, "make", "echo 'teo.c:7:1: error: no such thing' >&2; exit 2")
    with pytest.raises(UserError, match=r"do not compile: teo\.c:7:1: error: no such thing"):
        modules.build(["teo@7.3"], kernel, folder)


# The kernel as far as leave.h sees it: a list of governors, of which ours is none or the last.
STAND_IN = r"""
#include <stdbool.h>
#include <stdio.h>
#include <errno.h>
#define CIL_NAME "teo@7.3"
#define THIS_MODULE 0
#define __exit __attribute__((unused))
#define pr_err printf
#define module_exit(function)
#define static_call(function) function
struct list_head { int unused; };
struct cpuidle_governor { unsigned int rating; bool ours; struct cpuidle_governor *next; };
static struct cpuidle_governor theirs = { 20 }, mine = { 19, true }, *first, *curr;
static struct { struct cpuidle_governor *governors, **curr, **prev; } cil_kernel;
#define list_for_each_entry(g, head, member) for (g = first; g; g = g->next)
#define list_for_each_entry_safe(g, n, head, member) for (g = first; g && (n = g->next, 1); g = n)
#define within_module(address, module) (((struct cpuidle_governor *)(address))->ours)
#define list_del(entry)
static void cpuidle_pause_and_lock(void) { printf("locked "); }
static void cpuidle_resume_and_unlock(void) { printf("unlocked "); }
static void synchronize_rcu(void) { }
static void cil_switch(struct cpuidle_governor *governor) { curr = governor; }
static int cil_symbols_resolve(void) { cil_kernel.curr = &curr; return 0; }
static int cil_register_mainline(struct cpuidle_governor *governor) { printf("taken"); return 0; }
#include "leave.h"
int main(int argc, char **argv)
{
	first = argc > 1 ? &theirs : NULL;
	return -cpuidle_register_governor(&mine);
}
"""


def test_a_module_needs_a_governor_to_return_to(tmp_path: Path) -> None:
    for name in ("cpuidle", "rcupdate"):
        (tmp_path / "linux").mkdir(exist_ok=True)
        (tmp_path / f"linux/{name}.h").touch()
    (tmp_path / "a.c").write_text(STAND_IN)
    words = ["gcc", "-w", f"-I{tmp_path}", f"-I{modules._LEAVE.parent}", str(tmp_path / "a.c")]
    subprocess.run([*words, "-o", str(tmp_path / "a")], check=True)
    done = subprocess.run([tmp_path / "a", "theirs"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "locked unlocked taken")
    done = subprocess.run([tmp_path / "a"], capture_output=True, text=True, check=False)
    assert done.returncode == errno.ENODEV and "taken" not in done.stdout
    assert "teo@7.3: the kernel has no governor to return to" in done.stdout


class Kernel:
    """Notes what is loaded and removed, and can refuse."""

    def __init__(self, root: Path, refuse: str = "", switch: bool = False) -> None:
        self.words: list[str] = []
        self._refuse = refuse
        self._switch = switch
        self._governor = root / f"{CPUIDLE}/current_governor"[1:]

    def run(self, words: Sequence[str], **_: Any) -> subprocess.CompletedProcess[str]:
        """Stand for subprocess.run."""
        self.words.append(" ".join(words))
        if self._refuse and self._refuse in words[1]:
            return subprocess.CompletedProcess(words, 1, "", "insmod: ERROR: Key was rejected\n")
        if self._switch:
            self._governor.write_text("teo_ng\n")
        return subprocess.CompletedProcess(words, 0, "", "")


def test_modules_are_removed_whatever_happens(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = Host().governor()
    kernel = Kernel(root, switch=True)
    monkeypatch.setattr(subprocess, "run", kernel.run)
    with pytest.raises(KeyboardInterrupt), modules.loaded(Host(), [Path("a.ko"), Path("b.ko")]):
        assert Host().governor() == before
        raise KeyboardInterrupt
    assert kernel.words == ["insmod a.ko", "insmod b.ko", "rmmod b", "rmmod a"]

    kernel = Kernel(root, refuse="b.ko")
    monkeypatch.setattr(subprocess, "run", kernel.run)
    with (
        pytest.raises(UserError, match=r"does not take b\.ko: insmod: ERROR: Key was rejected"),
        modules.loaded(Host(), [Path("a.ko"), Path("b.ko")]),
    ):
        raise AssertionError
    assert kernel.words == ["insmod a.ko", "insmod b.ko", "rmmod a"]


def test_what_fails_on_the_machine_leaves_the_review(
    root: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from cpuidle_lab.review import job

    monkeypatch.setattr(job.Review, "run", lambda _: None)
    words = ["review", *PAIR, "--json", "--here"]
    code = main([*words, "exit 7"])
    told = json.loads(capsys.readouterr().out)
    assert "the rest of --here" in told["unreached"][0] and "ended with 7" in told["unreached"][0]
    assert code == 1
