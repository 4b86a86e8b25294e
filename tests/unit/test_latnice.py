# SPDX-License-Identifier: GPL-2.0
"""latnice understands its command line, and each failure is one sentence.

The kernel's side is a few lines of C here, which the program is linked with: they write down each
call, and fail as told. With the real device it is tested in tests/lab/test_latnice.py.
"""

import errno
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

TOP = Path(__file__).parents[2]
SOURCE = TOP / "tools" / "latnice" / "latnice.c"
MANUAL = TOP / "docs" / "latnice.1"
VERSION = (TOP / "VERSION").read_text().strip()

pytestmark = pytest.mark.skipif(not shutil.which("cc"), reason="there is no C compiler")

KERNEL = r"""
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "cpuidle_latency.h"

static const char *target(int fd)
{
    static char link[4096], path[64], pid[64];
    FILE *info;

    if (fd == CPUIDLE_LATENCY_SELF)
        return "self";
    snprintf(path, sizeof(path), "/proc/self/fdinfo/%d", fd);
    info = fopen(path, "r");
    while (info && fgets(link, sizeof(link), info))
        if (sscanf(link, "Pid: %63s", pid) == 1)
            return pid;
    snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    link[readlink(path, link, sizeof(link) - 1)] = 0;
    return link;
}

int ioctl(int fd, unsigned long request, ...)
{
    struct cpuidle_latency *hint;
    FILE *log = fopen(getenv("CALLS"), "a");
    va_list arguments;

    va_start(arguments, request);
    hint = va_arg(arguments, struct cpuidle_latency *);
    va_end(arguments);
    fprintf(log, "%s %s kind=%u value=%d limit=%llu flags=%u\n",
        request == CPUIDLE_LATENCY_SET_TASK ? "set-task" :
        request == CPUIDLE_LATENCY_GET_TASK ? "get-task" :
        request == CPUIDLE_LATENCY_SET_GROUP ? "set-group" :
        request == CPUIDLE_LATENCY_GET_GROUP ? "get-group" : "?",
        target(hint->fd), hint->kind, hint->value,
        (unsigned long long)hint->limit_ns, hint->flags);
    fclose(log);
    errno = atoi(getenv("ERROR"));
    if (request == CPUIDLE_LATENCY_GET_TASK || request == CPUIDLE_LATENCY_GET_GROUP) {
        hint->kind = atoi(getenv("KIND"));
        hint->value = hint->kind == CPUIDLE_LATENCY_VALUE ? -7 : 0;
        hint->flags = atoi(getenv("FLAGS"));
        hint->limit_ns = hint->kind == CPUIDLE_LATENCY_LIMIT ?
                 strtoull(getenv("LIMIT"), NULL, 10) : 0;
    }
    return errno ? -1 : 0;
}
"""


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Compile latnice as it is, and with a kernel of ours behind a device that can be opened."""
    folder = tmp_path_factory.mktemp("latnice")
    kernel = folder / "kernel.c"
    kernel.write_text(KERNEL)
    command = ["cc", "-std=gnu11", "-Wall", "-Wextra", f"-I{TOP / 'module' / 'uapi'}"]
    command += [f'-DVERSION="{VERSION}"', str(SOURCE), "-o"]
    fake = ['-DLATNICE_DEVICE="/dev/null"']
    subprocess.run([*command, folder / "fake", str(kernel), *fake], check=True)
    missing = [f'-DLATNICE_DEVICE="{folder}/none"']
    subprocess.run([*command, folder / "missing", *missing], check=True)
    refused = [f'-DLATNICE_DEVICE="{folder}/fake/none"']  # its directory is a file
    subprocess.run([*command, folder / "refused", *refused], check=True)
    return {name: folder / name for name in ("fake", "missing", "refused")}


class Latnice:
    """The program, with the kernel's answers and the calls that it got."""

    def __init__(self, programs: dict[str, Path], calls: Path) -> None:
        self.programs, self.log = programs, calls

    def __call__(
        self,
        *words: object,
        error: int = 0,
        kind: int = 0,
        limit: int = 0,
        flags: int = 0,
        program: str = "fake",
    ) -> subprocess.CompletedProcess[str]:
        """Run it."""
        answers = {"ERROR": str(error), "KIND": str(kind), "LIMIT": str(limit)}
        answers["FLAGS"] = str(flags)
        return subprocess.run(
            [self.programs[program], *map(str, words)],
            env=os.environ | answers | {"CALLS": str(self.log)},
            capture_output=True,
            text=True,
            check=False,
        )

    @property
    def calls(self) -> list[str]:
        """The calls that the kernel got."""
        return self.log.read_text().splitlines() if self.log.exists() else []


@pytest.fixture
def latnice(programs: dict[str, Path], tmp_path: Path) -> Latnice:
    return Latnice(programs, tmp_path / "calls")


def one_sentence(done: subprocess.CompletedProcess[str], code: int, words: str) -> None:
    assert done.returncode == code, done.stderr
    assert done.stdout == ""
    assert done.stderr.startswith("latnice: ")
    assert done.stderr.count("\n") == 1
    assert words in done.stderr


@pytest.mark.parametrize(
    ("words", "kind", "value", "limit_ns"),
    [
        (["-n", "-20"], 1, -20, 0),
        (["--value=19"], 1, 19, 0),
        (["-n0"], 1, 0, 0),
        (["-l", "50us"], 2, 0, 50_000),
        (["-l", "50"], 2, 0, 50_000),
        (["--limit", "2ms"], 2, 0, 2_000_000),
        (["-l", "800ns"], 2, 0, 800),
        (["-l", "1s"], 2, 0, 10**9),
        (["-l", "0"], 2, 0, 0),
        (["-r"], 0, 0, 0),
    ],
)
def test_a_command_runs_with_the_hint(
    words: list[str], kind: int, value: int, limit_ns: int, latnice: Latnice
) -> None:
    done = latnice(*words, "sh", "-c", 'echo "$0 $*"; exit 7', "-n", "5")
    assert (done.returncode, done.stdout, done.stderr) == (7, "-n 5\n", "")
    assert latnice.calls == [f"set-task self kind={kind} value={value} limit={limit_ns} flags=0"]


@pytest.mark.parametrize(
    ("words", "flags"),
    [("-k -n 5", 1), ("-n 5 --keep", 1), ("-f -n 5", 2), ("--reset-on-fork -k -n 5", 3)],
)
def test_a_hint_has_flags(words: str, flags: int, latnice: Latnice) -> None:
    pid = os.getpid()
    assert latnice(*words.split(), "-p", pid).returncode == 0
    assert latnice.calls == [f"set-task {pid} kind=1 value=5 limit=0 flags={flags}"]


def test_flags_are_shown(latnice: Latnice) -> None:
    assert latnice("-s", kind=1, flags=1).stdout == "value -7, kept\n"
    assert latnice("-s", kind=1, flags=3).stdout == "value -7, kept, not inherited\n"


@pytest.mark.parametrize("words", ["-n 5 -p {0} {1}", "-p {0} -n 5 {1}", "-p {0} {1} -n 5",
                                   "-p {0} -p {1} --value 5"])  # fmt: skip
def test_processes_are_named_in_any_order(words: str, latnice: Latnice) -> None:
    pids = os.getpid(), os.getppid()
    done = latnice(*words.format(*pids).split())
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert latnice.calls == [f"set-task {pid} kind=1 value=5 limit=0 flags=0" for pid in pids]


def test_a_group_is_named_by_its_directory(latnice: Latnice, tmp_path: Path) -> None:
    assert latnice("-g", tmp_path, "-n", "-5").returncode == 0
    assert latnice("-s", "-g", tmp_path, kind=1).stdout == f"group {tmp_path}: value -7\n"
    assert latnice.calls == [
        f"set-group {tmp_path} kind=1 value=-5 limit=0 flags=0",
        f"get-group {tmp_path} kind=0 value=0 limit=0 flags=0",
    ]


@pytest.mark.parametrize(
    ("kind", "limit_ns", "shown"),
    [(0, 0, "no hint"), (1, 0, "value -7"), (2, 50_000, "limit 50 us"), (2, 1500, "limit 1500 ns")],
)
def test_hints_are_shown(kind: int, limit_ns: int, shown: str, latnice: Latnice) -> None:
    pid = str(os.getpid())
    cases = {
        ("--show", "-p", pid): f"pid {pid}: ",
        ("-p", pid): f"pid {pid}: ",
        (): "",
        ("-s",): "",
    }
    for words, who in cases.items():
        assert latnice(*words, kind=kind, limit=limit_ns).stdout == f"{who}{shown}\n"


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ("-n 20 true", "'20' is not a value from -20 to 19"),
        ("-n -21 true", "'-21' is not a value"),
        ("-n 5x true", "'5x' is not a value"),
        ("-n +5 true", "'+5' is not a value"),
        ("-n 99999999999999999999 true", "is not a value"),
        ("-l 5h true", "'5h' is not a time such as 50us"),
        ("-l -5us true", "'-5us' is not a time"),
        ("-l us true", "'us' is not a time"),
        ("-l 9223372036854775807s true", "is not a time"),
        ("-n 5 -l 6 true", "give one of -n, -l, -r and -s"),
        ("-n 5 -s", "give one of -n, -l, -r and -s"),
        ("-n 5 -p 1 -g /", "give one of -p, -t and -g"),
        ("-n 5", "what is the hint for?"),
        ("-k -r true", "-k and -f go with -n or -l, for tasks"),
        ("-f -n 5 -g /", "-k and -f go with -n or -l, for tasks"),
        ("-k -s", "-k and -f go with -n or -l, for tasks"),
        ("true", "a command needs -n, -l or -r"),
        ("-s true", "a command needs -n, -l or -r"),
    ],
)
def test_nonsense_is_refused_before_anything_is_asked(
    words: str, sentence: str, latnice: Latnice
) -> None:
    one_sentence(latnice(*words.split()), 125, sentence)
    assert latnice.calls == []


@pytest.mark.parametrize("words", [["-x"], ["-n"], ["--wrong"]])
def test_an_unknown_option_points_to_the_help(words: list[str], latnice: Latnice) -> None:
    done = latnice(*words)
    assert done.returncode == 125
    assert done.stderr.endswith("Try 'latnice --help'.\n")


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ("-n 5 -p 0", "'0' is not the number of a process"),
        ("-n 5 -p -3", "'-3' is not the number of a process"),
        ("-n 5 -p 99999999999", "is not the number of a process"),
        ("-n 5 -p init", "'init' is not the number of a process"),
        ("-n 5 -p 4194304", "4194304: no such process"),
        ("-n 5 -g /nowhere", "/nowhere: No such file or directory"),
        ("-n 5 -g /dev/null", "/dev/null: Not a directory"),
    ],
)
def test_a_target_that_does_not_exist(words: str, sentence: str, latnice: Latnice) -> None:
    one_sentence(latnice(*words.split()), 1, sentence)
    assert latnice.calls == []


def test_the_others_are_done_where_one_fails(latnice: Latnice) -> None:
    pid = os.getpid()
    one_sentence(latnice("-n", 5, "-p", 4194304, pid), 1, "4194304: no such process")
    assert latnice.calls == [f"set-task {pid} kind=1 value=5 limit=0 flags=0"]


@pytest.mark.parametrize(
    ("error", "sentence"),
    [
        ("EPERM", "is of another user, for which CAP_SYS_NICE is needed"),
        ("EACCES", "to ask for more than before, or to keep it, needs CAP_SYS_NICE"),
        ("ESRCH", "no such process"),
        ("EDQUOT", "this user has as many hints as are allowed"),
        ("ENOSPC", "is full"),
        ("ENOTTY", "do latnice and the module fit?"),
        ("EINVAL", "Invalid argument"),
    ],
)
def test_what_the_kernel_refuses(error: str, sentence: str, latnice: Latnice) -> None:
    number = getattr(errno, error)
    pid = os.getpid()
    one_sentence(latnice("-n", -5, "-p", pid, error=number), 1, f"{pid}: ")
    one_sentence(latnice("-n", -5, "-p", pid, error=number), 1, sentence)
    # The command does not run without the hint that was asked for.
    one_sentence(latnice("-n", -5, "echo", "run", error=number), 125, sentence)


def test_what_the_kernel_refuses_a_group(latnice: Latnice) -> None:
    done = latnice("-n", 5, "-g", "/", error=errno.EBADF)
    one_sentence(done, 1, "/: is not a control group (v2)")
    done = latnice("-n", 5, "-g", "/", error=errno.EPERM)
    one_sentence(done, 1, "/: the group may not be written to")


def test_a_command_that_cannot_be_run(latnice: Latnice) -> None:
    one_sentence(latnice("-n", 5, "no-such-program"), 127, "no-such-program: No such file")
    one_sentence(latnice("-n", 5, "/"), 126, "/: Permission denied")


def test_without_a_device(latnice: Latnice) -> None:
    loaded = Path("/sys/module/cpuidle_lab").exists()
    words = "there is no device" if loaded else "cpuidle_lab is not loaded (modprobe cpuidle_lab)"
    one_sentence(latnice("-n", 5, "true", program="missing"), 125, words)
    one_sentence(latnice("-s", program="refused"), 125, "cannot open")


def test_help_and_version(latnice: Latnice) -> None:
    assert latnice("--version").stdout == f"latnice {VERSION}\n"
    text = latnice("--help").stdout
    assert "examples:" in text
    assert "exit codes:" in text
    assert max(map(len, text.splitlines())) <= 80
    assert latnice.calls == []


def test_it_is_installed_with_its_manual(tmp_path: Path) -> None:
    command = ["make", "-s", "-C", str(SOURCE.parent), "install", f"DESTDIR={tmp_path}/root"]
    subprocess.run([*command, f"BUILD={tmp_path}/build"], check=True, stdout=subprocess.DEVNULL)
    installed = tmp_path / "root/usr/bin/latnice"
    done = subprocess.run([installed, "--version"], capture_output=True, text=True, check=True)
    assert done.stdout == f"latnice {VERSION}\n"
    assert (tmp_path / "root/usr/share/man/man1/latnice.1").read_text() == MANUAL.read_text()


def test_the_manual_has_every_option(latnice: Latnice) -> None:
    options = re.findall(r"^  (-\w), --([\w-]+)", latnice("--help").stdout, re.MULTILINE)
    assert len(options) == 11
    manual = MANUAL.read_text().replace("\\-", "-")
    assert [name for name in options if f"{name[0]}" not in manual or name[1] not in manual] == []


@pytest.mark.skipif(not shutil.which("groff"), reason="groff is not installed")
def test_the_manual_is_well_formed() -> None:
    done = subprocess.run(
        ["groff", "-man", "-ww", "-z", MANUAL], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
