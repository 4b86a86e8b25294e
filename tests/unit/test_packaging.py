# SPDX-License-Identifier: GPL-2.0
"""The systemd unit and its helper, on recorded machines; what `make install` installs."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from cpuidle_lab import cli
from cpuidle_lab.base.version import __version__
from cpuidle_lab.commands import new
from cpuidle_lab.host.machine import CPUIDLE, MODULE, MOVED
from tests.unit import recorded

PACKAGING = Path(__file__).parents[2] / "packaging"
HELPER = PACKAGING / "cpuidle-lab-restore"
GOVERNOR = f"{CPUIDLE}/current_governor".lstrip("/")
PARAMETERS = f"{MODULE}/parameters".lstrip("/")
CONFIG = "governor=wteo\nwteo.latency_bias=0 # energy\n\n menu_ng.history_size = 32\r\n"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Unfold a machine with a configuration."""
    root = recorded.unfold("debian13", tmp_path / "machine")
    (root / "etc").mkdir(exist_ok=True)
    (root / "etc/cpuidle-lab.conf").write_text(CONFIG)
    return root


def restore(root: Path, *arguments: str, path: str = "") -> subprocess.CompletedProcess[str]:
    """Run the helper on a recorded machine."""
    return subprocess.run(
        ["sh", HELPER, *arguments],
        env=os.environ | {"CPUIDLE_LAB_ROOT": str(root), "PATH": f"{path}:{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        check=False,
    )


def governor(root: Path) -> str:
    return (root / GOVERNOR).read_text().strip()


def parameter(root: Path, name: str) -> str:
    return (root / PARAMETERS / name).read_text().strip()


def test_start_sets_what_the_configuration_says(root: Path) -> None:
    done = restore(root, "start")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert governor(root) == "wteo"
    assert parameter(root, "wteo") == "latency_bias=0"
    assert parameter(root, "menu_ng") == "history_size=32"


def test_a_last_line_without_an_end_counts(root: Path) -> None:
    (root / "etc/cpuidle-lab.conf").write_text("governor=wteo")
    restore(root, "start")
    assert governor(root) == "wteo"


def test_stop_goes_back_to_the_governor_before(root: Path) -> None:
    (root / GOVERNOR).write_text("ladder\n")
    restore(root, "start")
    done = restore(root, "stop")
    assert (done.returncode, done.stderr) == (0, "")
    assert governor(root) == "ladder"
    assert not (root / "run/cpuidle-lab/governors").exists()


def test_started_twice_it_still_knows_the_way_back(root: Path) -> None:
    restore(root, "start")
    (root / "etc/cpuidle-lab.conf").write_text("governor=teo_ng\n")
    restore(root, "start")
    assert governor(root) == "teo_ng"
    restore(root, "stop")
    assert governor(root) == "menu"


def test_a_governor_chosen_by_hand_is_left_alone(root: Path) -> None:
    restore(root, "start")
    (root / GOVERNOR).write_text("gate\n")
    restore(root, "stop")
    assert governor(root) == "gate"


def test_stop_without_start_does_nothing(root: Path) -> None:
    done = restore(root, "stop")
    assert (done.returncode, done.stderr) == (0, "")
    assert governor(root) == "menu"


def test_without_a_governor_line_only_tunables_are_set(root: Path) -> None:
    (root / "etc/cpuidle-lab.conf").write_text("wteo.latency_bias=7\n")
    assert restore(root, "start").returncode == 0
    assert governor(root) == "menu"
    assert parameter(root, "wteo") == "latency_bias=7"


def fake_modprobe(directory: Path, script: str) -> str:
    """Put a modprobe that runs `script` into a directory for PATH."""
    directory.mkdir()
    program = directory / "modprobe"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    return str(directory)


def test_the_module_is_loaded_if_it_is_not(root: Path, tmp_path: Path) -> None:
    (root / MODULE.lstrip("/")).rename(tmp_path / "unloaded")
    path = fake_modprobe(
        tmp_path / "bin", f'[ "$*" = cpuidle_lab ] && mv {tmp_path}/unloaded {root}{MODULE}'
    )
    assert restore(root, "start", path=path).returncode == 0
    assert governor(root) == "wteo"


def test_a_module_that_cannot_be_loaded(root: Path, tmp_path: Path) -> None:
    shutil.rmtree(root / MODULE.lstrip("/"))
    path = fake_modprobe(tmp_path / "bin", "exit 1")
    done = restore(root, "start", path=path)
    assert done.returncode == 1
    assert done.stderr == "cpuidle-lab-restore: cannot load cpuidle_lab: see dmesg\n"
    assert governor(root) == "menu"


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("governor", ":2: neither"),
        ("governor=", ":2: neither"),
        ("governor=../../etc/passwd", ":2: neither"),
        ("wteo=1", ":2: neither"),
        ("wteo.latency_bias", ":2: neither"),
        ("wteo.latency_bias=", ":2: neither"),
        ("wteo.latency_bias=a=b", ":2: neither"),
        ("wteo.a.b=1", ":2: neither"),
        (".latency_bias=1", ":2: neither"),
        ("../x.y=1", ":2: neither"),
        ("$(reboot).x=1", ":2: neither"),
        ("nosuch.x=1", ":2: cpuidle_lab has no governor nosuch"),
        ("governor=nosuch", "no governor nosuch, only: ladder menu"),
        ("governor=wteo_rfc", f"cpuidle-lab-restore: {MOVED['wteo_rfc']}\n"),
        ("wteo_rfc.seed=2", f":2: {MOVED['wteo_rfc']}\n"),
    ],
)
def test_a_wrong_line_is_named_and_the_governor_stays(line: str, words: str, root: Path) -> None:
    (root / "etc/cpuidle-lab.conf").write_text(f"governor=wteo\n{line}\n")
    done = restore(root, "start")
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1
    assert words in done.stderr
    assert governor(root) == "menu"
    assert not (root / "run/cpuidle-lab/governors").exists()


def test_a_wrong_line_keeps_the_lines_before_it_from_being_applied(root: Path) -> None:
    before = parameter(root, "wteo")
    (root / "etc/cpuidle-lab.conf").write_text("wteo.latency_bias=7\nrubbish\n")
    assert restore(root, "start").returncode == 1
    assert parameter(root, "wteo") == before


def test_a_value_that_the_kernel_refuses(root: Path) -> None:
    (root / PARAMETERS / "wteo").unlink()
    (root / PARAMETERS / "wteo").mkdir()
    done = restore(root, "start")
    assert done.returncode == 1
    assert done.stderr.endswith(":2: the kernel does not accept wteo.latency_bias=0\n")
    assert governor(root) == "menu"


def test_a_missing_configuration(root: Path) -> None:
    (root / "etc/cpuidle-lab.conf").unlink()
    done = restore(root, "start")
    assert done.returncode == 1
    assert "cpuidle-lab.conf is missing" in done.stderr


def fake_removal(root: Path, directory: Path) -> str:
    """Put a modprobe that takes modules out of the recorded machine into a directory for PATH."""
    return fake_modprobe(directory, f'[ "$1" = -r ] && rm -r {root}/sys/module/"$2"')


def loaded(root: Path) -> set[str]:
    return {path.name for path in (root / "sys/module").glob("cpuidle_*")}


def test_unload_goes_back_to_the_governor_before_the_service(root: Path, tmp_path: Path) -> None:
    (root / GOVERNOR).write_text("ladder\n")
    (root / "sys/module/cpuidle_emul").mkdir()
    restore(root, "start")
    done = restore(root, "unload", path=fake_removal(root, tmp_path / "bin"))
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert governor(root) == "ladder"
    assert loaded(root) == set()
    assert not (root / "run/cpuidle-lab/governors").exists()


@pytest.mark.parametrize(
    ("offered", "current", "after"),
    [
        ("ladder menu teo_ng wteo", "wteo", "menu"),
        ("ladder wteo", "wteo", "ladder"),
        ("ladder menu wteo", "ladder", "ladder"),
    ],
)
def test_unload_takes_the_kernels_governor_where_one_of_ours_was_set_by_hand(
    offered: str, current: str, after: str, root: Path, tmp_path: Path
) -> None:
    (root / GOVERNOR).write_text(f"{current}\n")
    (root / f"{CPUIDLE}/available_governors".lstrip("/")).write_text(f"{offered}\n")
    path = fake_removal(root, tmp_path / "bin")
    assert restore(root, "unload", path=path).returncode == 0
    assert governor(root) == after
    assert loaded(root) == set()


def test_unload_with_nothing_loaded_does_nothing(root: Path, tmp_path: Path) -> None:
    shutil.rmtree(root / MODULE.lstrip("/"))
    path = fake_modprobe(tmp_path / "bin", "exit 1")
    done = restore(root, "unload", path=path)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert governor(root) == "menu"


def test_a_module_that_does_not_go_is_said(root: Path, tmp_path: Path) -> None:
    done = restore(root, "unload", path=fake_modprobe(tmp_path / "bin", "exit 1"))
    assert done.returncode == 1
    assert done.stderr == "cpuidle-lab-restore: cannot unload cpuidle_lab: see dmesg\n"


def test_the_package_states_the_version_of_the_tree() -> None:
    top = PACKAGING.parent
    version = (top / "VERSION").read_text().strip()
    assert (top / "debian/changelog").read_text().startswith(f"cpuidle-lab ({version}) ")
    assert f'PACKAGE_VERSION="{version}"' in (top / "dkms.conf").read_text()
    spec = (PACKAGING / "fedora/cpuidle-lab.spec").read_text()
    assert re.findall(r"^Version:\s*(.*)$|> - (.*)-1$", spec, re.MULTILINE) == [
        (version, ""), ("", version)
    ]  # fmt: skip
    assert f"\npkgver={version}\n" in (PACKAGING / "arch/PKGBUILD").read_text()


@pytest.mark.parametrize("arguments", [[], ["restart"], ["--help"]])
def test_wrong_usage(arguments: list[str], root: Path) -> None:
    done = restore(root, *arguments)
    assert done.returncode == 2
    assert done.stderr == "usage: cpuidle-lab-restore start|stop|unload\n"


def test_the_example_configuration_works(root: Path) -> None:
    shutil.copy(PACKAGING / "cpuidle-lab.conf", root / "etc")
    done = restore(root, "start")
    assert (done.returncode, done.stderr) == (0, "")
    assert governor(root) == "wteo"


def test_every_option_of_the_modprobe_example_is_a_parameter(root: Path) -> None:
    text = (PACKAGING / "cpuidle-lab-modprobe.conf").read_text()
    options = re.findall(r"^#?options cpuidle_lab (\w+)=", text, re.MULTILINE)
    assert options
    assert all((root / PARAMETERS / name).exists() for name in options)


@pytest.mark.skipif(not shutil.which("dash"), reason="dash is not installed")
def test_the_helper_needs_only_posix() -> None:
    subprocess.run(["dash", "-n", HELPER], check=True)
    assert HELPER.stat().st_mode & 0o111


@pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="systemd-analyze is not installed")
@pytest.mark.parametrize(
    "name", ["cpuidle-lab.service", "cpuidle-lab-sample.service", "cpuidle-lab-sample.timer"]
)
def test_the_units_are_valid(name: str, tmp_path: Path) -> None:
    # Checked where the programs are installed as the units say.
    for place in ("usr/lib/cpuidle-lab/cpuidle-lab-restore", "usr/bin/cpuidle-lab"):
        (tmp_path / place).parent.mkdir(parents=True)
        shutil.copy(HELPER, tmp_path / place)
    for unit in PACKAGING.glob("*.service"):
        text = re.sub(r"/usr/(bin|lib)/", rf"{tmp_path}/usr/\1/", unit.read_text())
        (tmp_path / unit.name).write_text(text)
    shutil.copy(PACKAGING / "cpuidle-lab-sample.timer", tmp_path)
    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", "--recursive-errors=no", tmp_path / name],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_the_command_of_the_sampling_service_is_right(installed: Path) -> None:
    units = installed / "usr/lib/systemd/system"
    text = (units / "cpuidle-lab-sample.service").read_text()
    (command,) = re.findall(r"^ExecStart=(\S+) (.*)$", text, re.MULTILINE)
    assert (installed / command[0].lstrip("/")).exists()
    args = cli.parse(command[1].split())
    assert (args.stock, args.scrub, args.sample) == (True, True, (10, 3600))
    assert args.output == Path(
        "/var/lib", *re.findall(r"^StateDirectory=(.*)$", text, re.MULTILINE)
    )
    assert "OnCalendar=hourly" in (units / "cpuidle-lab-sample.timer").read_text()


@pytest.mark.parametrize(
    ("architecture", "modules", "needs_powercap"),
    [
        ("x86_64", "cpuidle_lab cpuidle_emul", True),
        ("", "cpuidle_lab cpuidle_emul", True),  # dkms add, before it has a kernel
        ("aarch64", "cpuidle_lab", False),
        ("ppc64le", "cpuidle_lab", False),
    ],
)
def test_dkms_builds_what_there_is_for_an_architecture(
    architecture: str, modules: str, needs_powercap: bool
) -> None:
    done = subprocess.run(
        ["bash", "-euc", '. ./dkms.conf; echo "${BUILT_MODULE_NAME[@]}"; '
         'echo "${#DEST_MODULE_LOCATION[@]}"; echo "$BUILD_EXCLUSIVE_CONFIG"'],
        env=os.environ | {"arch": architecture, "kernelver": "", "kernel_source_dir": "/none"},
        cwd=PACKAGING.parent,
        capture_output=True,
        text=True,
        check=True,
    )  # fmt: skip
    names, places, options = done.stdout.splitlines()
    assert names == modules
    assert int(places) == len(modules.split())
    assert ("CONFIG_POWERCAP" in options) == needs_powercap
    assert done.stderr == ""


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the root in which `make install` has installed all."""
    root = tmp_path_factory.mktemp("installed")
    made = tmp_path_factory.mktemp("made")
    command = ["make", "-s", "install", f"DESTDIR={root}", "PREFIX=/usr", f"BUILD={made}"]
    subprocess.run(command, cwd=PACKAGING.parent, check=True)
    return root


# By the place in docs/packaging.md; files of whole trees by one of them.
PLACES: dict[str, set[str]] = {
    "etc": {"cpuidle-lab.conf"},
    "usr/bin": {"cpuidle-lab", "latnice"},
    "usr/include": {"cpuidle_latency.h"},
    "usr/lib/cpuidle-lab": {"calibrate-wake", "cpuidle-lab-restore"},
    "usr/lib/systemd/system": {
        "cpuidle-lab.service", "cpuidle-lab-sample.service", "cpuidle-lab-sample.timer"
    },
    "usr/share/cpuidle-lab": set(new.SOURCES),
    "usr/share/man/man1": {"cpuidle-lab.1", "latnice.1"},
    "usr/src": {f"cpuidle-lab-{__version__}"},
}  # fmt: skip


def test_make_install_has_one_layout(installed: Path) -> None:
    for place, names in PLACES.items():
        assert {path.name for path in (installed / place).iterdir()} == names, place
    documents = {path.name for path in (installed / "usr/share/doc/cpuidle-lab").iterdir()}
    assert documents >= {"README.md", "CONTRIBUTING.md", "hardware.md", "packaging.md", "measured"}
    left = [path for path in installed.rglob("*") if path.suffix in (".pyc", ".o", ".ko")]
    assert not left and not any("experiments" in path.parts for path in
                                (installed / "usr/share/cpuidle-lab").rglob("*"))  # fmt: skip
    table = (PACKAGING.parent / "docs/packaging.md").read_text()
    assert [place for place in PLACES if f"| `{place.replace('usr/', 'PREFIX/')}" not in table] == [
        "etc", "usr/src"
    ]  # fmt: skip
    assert "| `/etc/cpuidle-lab.conf`" in table and "| `/usr/src/cpuidle-lab-VERSION`" in table


def test_dkms_gets_all_that_its_build_names(installed: Path) -> None:
    folder = installed / "usr/src" / f"cpuidle-lab-{__version__}"
    assert {path.name for path in folder.iterdir()} == {
        "COPYING", "Kbuild", "VERSION", "dkms.conf", "emul", "governors", "module"
    }  # fmt: skip


def test_a_configuration_that_is_there_stays(installed: Path) -> None:
    config = installed / "etc/cpuidle-lab.conf"
    config.write_bytes(CONFIG.encode())
    command = ["make", "-s", "install-module", f"DESTDIR={installed}", "PREFIX=/usr"]
    subprocess.run(command, cwd=PACKAGING.parent, check=True)
    assert config.read_bytes() == CONFIG.encode()


def test_what_is_installed_does_without_the_experiments() -> None:
    top = PACKAGING.parent
    importing = [
        path.relative_to(top)
        for path in (top / "tools" / "cpuidle_lab").rglob("*.py")
        if re.search(r"^\s*(from|import) (experiments|tests)\b", path.read_text(), re.MULTILINE)
    ]
    assert importing == []


def packaged(
    root: Path, caches: Path, *arguments: str, expect: int = 0
) -> subprocess.CompletedProcess[str]:
    """Run the command that is installed in a root."""
    done = subprocess.run(
        [sys.executable, root / "usr/bin/cpuidle-lab", *arguments],
        env=os.environ | {"XDG_CACHE_HOME": str(caches)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == expect, done.stderr
    return done


@pytest.fixture
def prefix(installed: Path, tmp_path: Path) -> Path:
    """Return a root whose command says which environment it makes, and where it runs."""
    root = tmp_path / "prefix"
    shutil.copytree(installed, root)
    (root / "usr/share/cpuidle-lab/tools/setup.sh").write_text(
        '#!/bin/sh\nset -e\nbin="$CPUIDLE_LAB_BUILD/venv/bin"\n'
        '[ -e "$bin" ] || echo "making $bin" >&2\nmkdir -p "$bin"\n'
        """printf '#!/bin/sh\necho "$PYTHONPATH $*"\n' >"$bin/python"; chmod +x "$bin/python"\n"""
    )
    return root


def test_other_commands_run_in_an_environment_that_is_made_once(
    prefix: Path, tmp_path: Path
) -> None:
    caches = tmp_path / "caches"
    environment = caches / "cpuidle-lab" / __version__ / "venv"
    first = packaged(prefix, caches, "report", "a b.dat")
    tools = prefix / "usr/share/cpuidle-lab/tools"
    paths, *words = first.stdout.split(" ", 1)
    assert (paths.split(":")[0], words) == (str(tools), ["-P -m cpuidle_lab report a b.dat\n"])
    assert first.stderr == f"making {environment}/bin\n"
    assert packaged(prefix, caches, "report", "x").stderr == ""


def test_an_environment_that_cannot_be_made_is_one_sentence(
    installed: Path, tmp_path: Path
) -> None:
    (tmp_path / "file").touch()
    done = packaged(installed, tmp_path / "file", "report", "x", expect=1)
    assert done.stderr.startswith("cpuidle-lab: error: ")
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["--help"], 0, "doctor"),
        (["report", "--help"], 0, "usage: cpuidle-lab report"),
        (["repoort"], 2, "did you mean 'report'?"),
        (["report", "--jsn", "x"], 2, "did you mean '--json'?"),
        (["doctor", "--kernel", "x"], 2, "cpuidle-lab: error: "),
        (["bpf", "run", "x.bpf.o"], 1, "cpuidle-lab: error: "),
        (["experiment", "wteo"], 2, "error: experiment is a command of the project's source tree"),
    ],
)
def test_no_environment_is_made_for(
    arguments: list[str], code: int, said: str, prefix: Path, tmp_path: Path
) -> None:
    caches = tmp_path / "caches"
    done = packaged(prefix, caches, *arguments, expect=code)
    assert said in done.stdout + done.stderr
    assert not caches.exists()
    assert not [*prefix.rglob("__pycache__")]


def test_new_makes_a_tree_of_what_is_installed(installed: Path, tmp_path: Path) -> None:
    mine = tmp_path / "mine"
    packaged(installed, tmp_path / "caches", "new", "lazy", "--directory", str(mine))
    assert (mine / "governors/lazy/lazy.c").is_file()
    assert not (tmp_path / "caches").exists()
