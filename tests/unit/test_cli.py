# SPDX-License-Identifier: GPL-2.0
"""The command line: options, streams, help, and Python alone."""

import errno
import os
import re
import resource
import shutil
import subprocess
import sys
import tempfile
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import pytest

from cpuidle_lab import cli
from cpuidle_lab.base import files
from cpuidle_lab.base.errors import USAGE, UserError
from cpuidle_lab.cli import main
from cpuidle_lab.commands import compare, replay
from cpuidle_lab.replay import candidates as spec
from tests.unit import synthetic

TOP = Path(__file__).resolve().parents[2]


def test_every_command_has_help_with_examples(capsys: pytest.CaptureFixture[str]) -> None:
    commands = list(cli.discover())
    assert len(commands) >= 5
    assert len({command.NAME for command in commands}) == len(commands)
    for command in commands:
        with pytest.raises(SystemExit) as end:
            main([command.NAME, "--help"])
        assert end.value.code == 0
        assert "example" in capsys.readouterr().out, command.NAME


@pytest.mark.parametrize(
    ("error", "code", "sentence"),
    [
        (UserError("it broke"), 1, "it broke"),
        (UserError("not so", USAGE), 2, "not so"),
        (OSError(errno.ENOSPC, "No space left on device", "out"), 1, "out: No space left"),
        (KeyboardInterrupt(), 130, "interrupted"),
    ],
)
def test_errors_are_one_sentence_and_a_code(
    error: BaseException,
    code: int,
    sentence: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def run(_args: object) -> int:
        raise error

    command = SimpleNamespace(
        NAME="x", HELP="x", EPILOG="", add_arguments=lambda _parser: None, run=run
    )
    monkeypatch.setattr(cli, "discover", lambda _wanted: iter([command]))
    monkeypatch.delenv("CPUIDLE_LAB_DEBUG", raising=False)
    assert main(["x"]) == code
    said = capsys.readouterr().err.strip()
    assert sentence in said
    assert "\n" not in said


# ---- Names that are not UTF-8, streams that are closed, ASCII ----

ODD = b"odd\xff\x1b[31m"


def run_odd(*words: str | bytes, shell: str = "", **variables: str) -> tuple[int, bytes, bytes]:
    """Run the command as a process of its own, by a shell that changes its streams."""
    python = [sys.executable, "-m", "cpuidle_lab", *words]
    done = subprocess.run(
        ["sh", "-c", f'"$@" {shell}', "sh", *python],
        capture_output=True,
        check=False,
        env={**os.environ, "PYTHONPATH": str(TOP / "tools"), **variables},
    )
    return done.returncode, done.stdout, done.stderr


ASCII = {"LC_ALL": "C", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0"}


@pytest.mark.parametrize("variables", [ASCII, {"PYTHONIOENCODING": "utf-8:strict"}])
def test_a_name_that_is_not_utf_8_is_escaped(tmp_path: Path, variables: dict[str, str]) -> None:
    missing = os.fsencode(tmp_path) + b"/" + ODD
    code, out, said = run_odd("report", missing, **variables)
    assert (code, out) == (1, b"")
    assert said.endswith(b"/odd\\xff\\x1b[31m: cannot be read: No such file or directory\n")
    code, out, said = run_odd("report", b"--" + ODD, **variables)
    assert code == USAGE and b"\x1b" not in said and b"Traceback" not in said


@pytest.mark.parametrize("shell", [">&-", "2>&-", "<&-", ">&- 2>&- <&-"])
def test_a_closed_stream_is_no_traceback(tmp_path: Path, shell: str) -> None:
    """The command fails where its output is lost, and makes its page all the same."""
    page = tmp_path / f"{os.fsdecode(ODD)}.html"
    path = synthetic.demo(tmp_path / os.fsdecode(ODD), 2_000_000)
    code, out, said = run_odd("report", os.fsencode(path), "-o", os.fsencode(page), shell=shell)
    assert b"\x1b" not in out and (not out or b"odd\\xff\\x1b[31m.html\n" in out)
    lost = b"cpuidle-lab: error: standard output is closed\n" * (shell == ">&-")
    assert (code, said) == (int(shell.startswith(">")), lost)
    assert page.read_text().startswith("<!DOCTYPE html>")


def test_columns_may_have_a_name_that_is_not_utf_8(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = synthetic.demo(tmp_path / "t.dat", 2_000_000)
    folder = tmp_path / os.fsdecode(ODD)
    assert main(["export", "--parquet", str(folder), str(path)]) == 0
    assert capsys.readouterr().out.endswith("/odd\\xff\\x1b[31m\n")
    assert main(["replay", str(folder), "--same-points", "--governors", "menu_ng"]) == 0


@pytest.mark.parametrize("unbuffered", ["", "1"])
@pytest.mark.parametrize("words", ["machines", "--version", "--help", "report --help"])
def test_a_full_standard_output_is_named(words: str, unbuffered: str) -> None:
    code, _, said = run_odd(*words.split(), shell=">/dev/full", PYTHONUNBUFFERED=unbuffered)
    assert (code, said.count(b"\n")) == (1, 1)
    assert b"error: standard output: No space left on device; free some space" in said


@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_a_full_standard_output_is_no_full_directory(tmp_path: Path, unbuffered: str) -> None:
    """A command prints while it has a directory for temporary files."""
    text = (
        "from cpuidle_lab.cli import open_streams\n"
        "from cpuidle_lab.base.files import scratch\n"
        "open_streams()\n"
        "try:\n"
        "    with scratch():\n"
        "        print('x' * 100_000, flush=True)\n"
        "except OSError as error:\n"
        "    raise SystemExit(f'{error.filename}: {error.strerror}')\n"
    )
    done = subprocess.run(
        ["sh", "-c", '"$@" >/dev/full', "sh", sys.executable, "-c", text],
        capture_output=True,
        check=False,
        env={**os.environ, "PYTHONPATH": str(TOP / "tools"), "PYTHONUNBUFFERED": unbuffered},
    )
    assert done.stderr == b"standard output: No space left on device\n"


@pytest.mark.parametrize(
    "words",
    ["report x -o -", "export --parquet - x", "export --perfetto - x", "diff a b --csv -",
     "calibrate --page -", "new x --directory -"],
)  # fmt: skip
def test_an_output_has_a_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], words: str
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(words.split()) == USAGE
    assert "and - is neither; name one" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("option", ["--machine", "--domains"])
@pytest.mark.parametrize("command", ["report x", "export x --parquet y"])
def test_an_empty_name_is_no_option_that_was_left_out(
    option: str, command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*command.split(), option, ""]) == USAGE
    assert f"error: {option} names nothing\n" in capsys.readouterr().err


def test_a_full_temporary_directory_is_named(tmp_path: Path) -> None:
    with (
        pytest.raises(OSError, match="No space left") as error,
        files.scratch(tmp_path) as folder,
    ):
        raise OSError(errno.ENOSPC, "No space left on device")
    assert (error.value.filename, folder.exists()) == (str(tmp_path), False)


def test_foreign_directory_is_not_replaced(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "precious").touch()
    assert main(["lab", "--output", str(tmp_path)]) == 2
    assert (tmp_path / "precious").exists()
    assert "holds precious, which is no result of the lab" in capsys.readouterr().err


def test_an_error_of_several_files_is_one_sentence() -> None:
    first = ("a", "b", "[Errno 28] No space left on device: 'a' -> 'b'")
    text = cli.describe_os_error(shutil.Error([first, first]))
    assert text == "b: No space left on device; free some space and try again"


def test_help_lists_every_command_under_a_heading(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--help"])
    lines = capsys.readouterr().out.splitlines()
    assert "others:" not in lines
    assert max(map(len, lines)) <= 100
    for command in cli.discover():
        assert [line for line in lines if line.split()[:1] == [command.NAME]] == [
            f"  {command.NAME:12}{command.HELP}"
        ]


# Options of several commands whose values differ: a file or a directory is the output, --only names
# parts of what the command does, doctor's kernel is an installed one, bpf's answers are for FILE,
# capture records for the clone that lab plays, experiments have programs of their own to run here.
VALUES = {
    "--output": {"FILE", "DIR"},
    "--clone": {"FILE", None},
    "--only": {"NAME", "WORKLOAD", "PART[,PART]"},
    "--kernel": {"SERIES", "VERSION"},
    "--here": {"COMMAND", None},
    "--governors": {"LIST", "NAME[@KERNEL][:TUNABLE=VALUE]...[,...]"},
}
# Other names for what these mean: --output, --json, --governors, --set, --duration, --events,
# --time-limit.
OTHER_NAMES = {"--html", "--out", "--as-json", "--overwrite", "--shadows", "--tunables"}
OTHER_NAMES |= {"--seconds", "--event", "--keep", "--folder", "--readme", "--limit", "--policy"}
OTHER_NAMES |= {"--recorders", "--row", "--turns"}
# Limits of figures are no limits of time.
OF_FIGURES = ("--limit", "FIGURE=RISE[,...]")


def test_the_same_option_has_the_same_name_and_value_everywhere() -> None:
    values: dict[str, set[object]] = {}
    for command in cli.discover():
        parser = cli.Parser()
        command.add_arguments(parser)
        for action in parser._actions:
            names = set(action.option_strings)
            of_figures = {name for name in names if (name, action.metavar) == OF_FIGURES}
            assert not names & OTHER_NAMES - of_figures, command.NAME
            assert names & {"-o", "--output"} in ({"-o", "--output"}, set()), command.NAME
            value = None if action.nargs == 0 else action.metavar
            for name in names:
                values.setdefault(name, set()).add(value)
    assert {"--json", "--force", "--csv", "--quick", "--machine"} <= set(values)
    assert {
        name: found
        for name, found in values.items()
        if len(found) > 1 and found != VALUES.get(name)
    } == {"-o": VALUES["--output"]}


# docs/design.md says why these are two commands. An option belongs to the ranking and its page, to
# the proof, or to both.
SHARED = {"--help", "--governors", "--json"}
PAGE = {"--output", "--csv", "--domains", "--force", "--worst", "--machine"}
RANKING = PAGE | {"--no-mainline", "--no-instructions"}
PROOF = {"--check", "--same-points", "--jobs"}


def test_compare_and_replay_share_the_options_that_both_need() -> None:
    shared: list[dict[str, tuple[object, ...]]] = []
    for command, own in ((compare, RANKING), (replay, PROOF)):
        parser = cli.Parser()
        command.add_arguments(parser)
        options = {name: action for action in parser._actions for name in action.option_strings}
        assert {name for name in options if name.startswith("--")} == SHARED | own
        shared.append(
            {
                name: (type(one), one.dest, one.nargs, one.type, one.metavar, one.default)
                for name, one in options.items()
                if name in SHARED
            }
        )
        (trace,) = (one for one in parser._actions if not one.option_strings)
        assert (trace.metavar, trace.type) == ("TRACE", Path)
    assert shared[0] == shared[1]


@pytest.mark.parametrize(
    "text", ["wteo", "menu@7.2,wteo:learning_rate=80:half_life_ms=500", "bayes"]
)
def test_compare_and_replay_mean_the_same_governors(text: str) -> None:
    """One reader of --governors serves both; compare adds the limits."""
    ranked, proved = spec.parse(text, mainline=False), spec.listed(text)
    assert proved
    assert [one for one in ranked if one.label in text.split(",")] == proved
    assert {one.label for one in ranked} - {one.label for one in proved} <= {"bayes", "oracle"}


@pytest.mark.parametrize("text", ["", "wteo,", "nothing", "wteo:learning_rate", "wteo:x=1"])
def test_compare_and_replay_refuse_the_same_governors(text: str) -> None:
    said = []
    for read in (partial(spec.parse, mainline=False), spec.listed):
        with pytest.raises(UserError) as refused:
            read(text)
        said.append(refused.value.message)
    assert said[0] == said[1]


def test_the_programs_of_the_tests_name_their_options_as_the_commands_do() -> None:
    options = re.compile(r"""(?:add_argument|add|option)\(\s*((?:"-[\w-]+",?\s*)+)""")
    seen = 0
    for path in sorted((TOP / "tests").glob("*/**/*.py")):
        for found in options.finditer(path.read_text(encoding="utf-8")):
            names = set(re.findall(r"-[\w-]+", found[1]))
            seen += 1
            assert not names & OTHER_NAMES, path
            assert names & {"-o", "--output"} in ({"-o", "--output"}, set()), path
    assert seen > 50


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the command's files without build/, as in a clone that was never used."""
    top = tmp_path_factory.mktemp("bare")
    shutil.copy(TOP / "cpuidle-lab", top)
    shutil.copytree(TOP / "governors", top / "governors")
    caches = shutil.ignore_patterns("__pycache__")
    shutil.copytree(TOP / "tools", top / "tools", ignore=caches)
    (top / "tools/setup.sh").write_text('#!/bin/sh\necho "setup.sh $*"; exit 7\n')
    return top


def called(
    top: Path, *arguments: str, folder: Path | None = None
) -> subprocess.CompletedProcess[str]:
    """Run the command with no Python packages at hand, in a folder."""
    tools = top / "bin"
    shutil.rmtree(tools, ignore_errors=True)
    tools.mkdir()
    python = Path(sys.executable).resolve()
    (tools / "python3").write_text(f'#!/bin/sh\nexec {python} -S "$@"\n')
    (tools / "python3").chmod(0o755)
    return subprocess.run(
        [top / "cpuidle-lab", *arguments],
        cwd=folder,
        env={"PATH": f"{tools}:/usr/bin:/bin", "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["--help"], 0, "doctor"),
        (["--version"], 0, "cpuidle-lab 0"),
        (["report", "--help"], 0, "examples"),
        (["doctor", "--kernel", "6.12.1"], 1, "cannot run the module"),
        (["capture", "--stock", "-o", "/nowhere/x"], 2, "no such directory"),
        (["bpf", "run", "x.bpf.o"], 1, "cpuidle-lab: error: "),
        (["report", "--jsn", "x"], 2, "did you mean '--json'?"),
        (["repoort", "x"], 2, "did you mean 'report'?"),
        (["report", "--jso", "x"], 2, "did you mean '--json'?"),
        (["export", "x", "--perfeto", "y"], 2, "--perfeto is unknown; did you mean '--perfetto'?"),
    ],
)
def test_python_alone_is_enough_for(bare: Path, arguments: list[str], code: int, said: str) -> None:
    done = called(bare, *arguments)
    assert (done.returncode, said in done.stdout + done.stderr) == (code, True), done
    assert "setup.sh" not in done.stdout + done.stderr
    assert not (bare / "build").exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="becomes another user")
def test_by_sudo_the_environment_is_made_as_the_trees_owner(bare: Path) -> None:
    # Other users reach no directory of pytest's.
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        shutil.copytree(bare, top := Path(folder) / "top")
        top.chmod(0o755)
        (top / "tools/setup.sh").write_text("#!/bin/sh\nid -u\nexit 7\n")
        subprocess.run(["chown", "-R", "12345:12345", top], check=True)
        env = {"PATH": "/usr/bin:/bin", "PYTHONDONTWRITEBYTECODE": "1"}
        for by, user in (({}, "0"), ({"SUDO_UID": "12345"}, "12345")):
            done = subprocess.run([top / "cpuidle-lab", "watch"], env=env | by,
                                  capture_output=True, text=True, check=False)  # fmt: skip
            assert (done.returncode, done.stderr.split()[-1]) == (7, user)


# Processor time: that of the clock depends on what else the machine does.
@pytest.mark.parametrize("argument", ["--help", "--version", "doctor"])
def test_python_alone_answers_within_a_second(bare: Path, argument: str) -> None:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = called(bare, argument)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert done.stdout, done
    assert after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime < 1


@pytest.mark.parametrize("arguments", [["report", "x"], ["watch"]])
def test_other_commands_make_the_environment(bare: Path, arguments: list[str]) -> None:
    done = called(bare, *arguments)
    assert (done.returncode, done.stderr) == (7, "setup.sh python\n"), done


def test_python_alone_writes_metrics(bare: Path, tmp_path: Path) -> None:
    done = called(bare, "watch", "--openmetrics", "idle.prom", "--count", "1", folder=tmp_path)
    assert (done.returncode, done.stderr) == (0, ""), done
    assert "cpuidle_lab_info" in (tmp_path / "idle.prom").read_text()


def test_folders_of_the_user_are_no_part_of_it(bare: Path, tmp_path: Path) -> None:
    for name in ("experiments", "cpuidle_lab", "json"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text("raise SystemExit('the folder of the user')\n")
    done = called(bare, "doctor", "--kernel", "6.12.1", folder=tmp_path)
    assert done.returncode == 1 and "cannot run the module" in done.stdout, done
    assert "study" not in called(bare, "--help", folder=tmp_path).stdout


def test_an_unknown_option_shows_the_usage_of_its_command(
    capsys: pytest.CaptureFixture[str],
) -> None:
    for word, meant in (("--jso", "--json"), ("--jsson", "--json"), ("--zzz", "")):
        with pytest.raises(SystemExit) as end:
            main(["export", "trace.dat", "--parquet", "x", word, "--nothing"])
        said = capsys.readouterr().err
        assert (end.value.code, said.startswith("usage: cpuidle-lab export ")) == (2, True)
        assert ("did you mean" in said) == bool(meant) and meant in said


@pytest.mark.parametrize("gone", cli.SUCCESSORS)
def test_what_has_gone_names_its_successor(gone: str, capsys: pytest.CaptureFixture[str]) -> None:
    command, *options = gone.split()
    assert main([command, "x", *(f"{option}=x" for option in options), "--help"]) == 2
    said = capsys.readouterr()
    assert said.out == "" and cli.SUCCESSORS[gone] in said.err
    assert said.err.count("\n") == 1
    # The successor is a command with these options.
    name, *words = cli.SUCCESSORS[gone].split()
    (parser,) = (one for one in cli.discover() if name == one.NAME)
    parsed = cli.Parser()
    parser.add_arguments(parsed)
    parsed.parse_args([word for word in words if word.startswith("--") or word.isupper()])


FOLDERS = ("tools", "tests", "packaging")
SCRIPTS = [TOP / "cpuidle-lab", *(path for name in FOLDERS for path in (TOP / name).rglob("*.sh"))]


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: str(path.relative_to(TOP)))
def test_shell_scripts_parse(script: Path) -> None:
    assert subprocess.run(["sh", "-n", script]).returncode == 0


def test_set_up_is_quiet_when_nothing_is_missing() -> None:
    answer = subprocess.run([TOP / "tools/setup.sh", "python"], capture_output=True, text=True)
    assert (answer.returncode, answer.stdout, answer.stderr) == (0, "", "")
