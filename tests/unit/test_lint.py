# SPDX-License-Identifier: GPL-2.0
"""Tools that `make lint` runs beside test_style.py: none has anything to say about the tree."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from cpuidle_lab.base.cache import CACHE, cached, namespace, run_logged
from cpuidle_lab.lab import images, roots

TOP = Path(__file__).resolve().parents[2]
KERNEL_SCRIPT = Path(__file__).with_name("lint_kernel.sh")
PYTHON = ("tools", "experiments", "tests", "packaging", "conftest.py")

# Headers and compiler that sparse, W=1 and kernel-doc are run with.
SERIES = "6.12"

# A complaint about a file of the tree, not about a header of Debian's.
COMPLAINT = re.compile(r"\b(?:module|governors|emul)/\S+:\d+:.*\b(?:warning|error):.*")

# Waived warnings of shellcheck, by script. The guests' shell is busybox; their scripts
# pass numbers, and words that are meant to be split.
SHELL_WAIVED = {
    "tests/campaigns/evacuation/guest.sh": "SC2145",
    "tests/campaigns/soak/guest.sh": "SC2046,SC2145",
    "tests/campaigns/storm/guest.sh": "SC2010,SC2046,SC2145,SC3044",
    "tools/cpuidle_lab/lab/guest/init": "SC2187",
}

# Correct where they stand: "\nin" within a string of C or Python; a function of KernelShark.
WORDS = "nin,doubleclick,aboves,nnumber"


def tracked() -> list[str]:
    """Return the paths of the tree's text files, as git has them or is about to."""
    if not (TOP / ".git").exists():
        pytest.skip("not a git clone: which files belong to the tree is unknown")
    command = ["git", "ls-files", "-co", "--exclude-standard", "-z"]
    output = subprocess.run(command, cwd=TOP, capture_output=True, text=True, check=True).stdout
    return sorted(path for path in output.split("\0") if (TOP / path).is_file())


def check(*command: str) -> None:
    """Run a tool over the tree; what it says, if it fails, is the test's message.

    A tool that is missing is a failure: tools/setup.sh installs it.
    """
    assert shutil.which(command[0]), f"{command[0]} is missing: run tools/setup.sh"
    done = subprocess.run(command, cwd=TOP, capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.fail(done.stdout + done.stderr, pytrace=False)


def check_python(*arguments: str) -> None:
    """Run a Python tool over the tree's Python."""
    check(sys.executable, "-m", *arguments, *PYTHON)


def scripts() -> list[str]:
    """Return the tree's shell scripts: by their name, or by their first line."""

    def is_script(path: str) -> bool:
        if path.endswith(".sh"):
            return True
        with (TOP / path).open("rb") as stream:
            return re.match(rb"#!.*\b(?:ba)?sh\n", stream.readline()) is not None

    return [path for path in tracked() if is_script(path)]


def test_ruff_has_nothing_to_say() -> None:
    check_python("ruff", "check", "--quiet")


def test_ruff_would_format_nothing() -> None:
    check_python("ruff", "format", "--check", "--quiet")


def test_mypy_has_nothing_to_say() -> None:
    check_python("mypy")


def test_shellcheck_has_nothing_to_say() -> None:
    found = scripts()
    assert {"tools/setup.sh", ".ci/run", *SHELL_WAIVED} <= set(found)
    common = ["shellcheck", "--severity=warning", "--format=gcc", "--external-sources"]
    plain = [path for path in found if path not in SHELL_WAIVED]
    check(*common, *plain)
    for path, kinds in SHELL_WAIVED.items():
        check(*common, f"--exclude={kinds}", path)


def test_codespell_has_nothing_to_say() -> None:
    texts = [path for path in tracked() if not path.endswith((".png", ".svg", ".dat"))]
    check("codespell", f"--ignore-words-list={WORDS}", *texts)


def test_sparse_the_compiler_and_kernel_doc_have_nothing_to_say() -> None:
    assert shutil.which("sparse"), "sparse is missing: run tools/setup.sh"
    version = images.kernel(SERIES).version
    tarball = images.build_root(images.flavour_of(SERIES), version)
    sources = images.source_files({})

    def look(target: Path) -> None:
        images.write_sources(sources, target / "source")
        (target / "mount").mkdir()
        command: list[str | Path] = [*namespace(), "sh", KERNEL_SCRIPT, tarball]
        command += [target / "source", version, target]
        try:
            run_logged(command, CACHE / "lint.log", f"looking at the modules with {version}")
        finally:
            (target / "log").replace(CACHE / "lint.log")
        shutil.copy(CACHE / "lint.log", target / "log")
        shutil.rmtree(target / "source")
        (target / "mount").rmdir()

    recipe: list[str | bytes] = [version, tarball.parent.name]
    recipe += [script.read_bytes() for script in (KERNEL_SCRIPT, roots.ROOT_SCRIPT)]
    for name, data in sorted(sources.items()):
        recipe += [name, data]
    title = f"Looking at the modules with sparse, W=1 and kernel-doc of {version}"
    log = (cached("lint", recipe, title, look) / "log").read_text(errors="replace")
    # Each tool was there: kbuild names what it checks and compiles, make fails without sparse.
    assert "CHECK" in log and "LD [M]" in log
    if complaints := COMPLAINT.findall(log):
        pytest.fail("\n".join(complaints), pytrace=False)


# -- files that other programs read ----------------------------------------------------------


def test_the_version_is_the_same_everywhere() -> None:
    version = (TOP / "VERSION").read_text().strip()
    releases = re.findall(r"^## (\d\S*) \(", (TOP / "NEWS").read_text(), re.MULTILINE)
    assert releases[0] == version
    assert str(yaml.safe_load((TOP / "CITATION.cff").read_text())["version"]) == version


def test_kconfig_and_kbuild_know_the_same_options() -> None:
    kconfig = (TOP / "Kconfig").read_text()
    options = set(re.findall(r"^config (\w+)", kconfig, re.MULTILINE))
    assert kconfig.count("\thelp\n") == len(options)
    used = set(re.findall(r"\bobj-\$\(CONFIG_(\w+)\)", (TOP / "Kbuild").read_text()))
    assert options == used
    needed = re.search(r'^BUILD_EXCLUSIVE_CONFIG="(.*)"', (TOP / "dkms.conf").read_text(), re.M)
    assert needed
    (depends,) = re.findall(r"^\tdepends on (CPU_IDLE && KALL.*)", kconfig, re.MULTILINE)
    assert {f"CONFIG_{name}" for name in depends.split(" && ")} == set(needed[1].split())
    wanted = re.findall(r"CONFIG_(\w+)=y", (TOP / ".kunitconfig").read_text())
    assert set(wanted) - options == {"CPU_IDLE", "KUNIT"}


def test_maintainers_name_files_that_exist() -> None:
    text = (TOP / "MAINTAINERS").read_text()
    patterns = re.findall(r"^[FP]:\t(\S+)$", text, re.MULTILINE)
    assert len(patterns) > 10
    assert [pattern for pattern in patterns if not list(TOP.glob(pattern.rstrip("/")))] == []
    control = (TOP / "debian/control").read_text()
    (maintainer,) = re.findall(r"^Maintainer: (.*)$", control, re.MULTILINE)
    # The project has no mail address; the packages must name one.
    assert set(re.findall(r"^M:\t(.*)$", text, re.MULTILINE)) == {maintainer.split(" <")[0]}


def test_pre_commit_calls_a_target_of_the_makefile() -> None:
    (repository,) = yaml.safe_load((TOP / ".pre-commit-config.yaml").read_text())["repos"]
    (hook,) = repository["hooks"]
    assert (repository["repo"], hook["language"]) == ("local", "system")
    program, target = hook["entry"].split()
    assert program == "make"
    assert re.search(rf"^{target}:", (TOP / "Makefile").read_text(), re.MULTILINE)
