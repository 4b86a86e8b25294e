# SPDX-License-Identifier: GPL-2.0
"""debugfs as a live kernel shows it is what docs/tunables.md says."""

from pathlib import Path

import pytest

from cpuidle_lab.lab import LabRun, run_lab
from tests.unit import tunables

pytestmark = pytest.mark.lab

SCRIPT = """
. /lab/functions
load cpuidle_emul machine=skx
load cpuidle_lab
cd $knobs
echo "== files"
find . -type f | sed 's|^\\./||' | sort
echo "== modes"
find . ! -type d -perm /077
echo "== values"
while read -r file action value; do
    said=
    [ $action = read ] || { echo "$value" 2>/dev/null >$file && said=taken; } || said=refused
    [ $action = poke ] || read -r now <$file
    case $action in
    read) echo "$file $now" ;;
    write) echo "$file $value $said $now" ;;
    esac
done </lab/actions
echo "== end"
"""


def section(output: str, name: str) -> list[str]:
    """Return the lines between "== name" and the next heading."""
    return output.split(f"== {name}\n")[1].split("== ")[0].splitlines()


def refused_values(tunable: tunables.Tunable) -> list[str]:
    """Return values that are out of range, or no values at all."""
    below = [str(tunable.least - 1)]
    return [*below, str(tunable.greatest + 1), "nonsense", "1.5", "", "9" * 30]


def test_files_values_and_ranges(tmp_path: Path) -> None:
    declared = tunables.declared()
    actions: list[str] = []
    expected: list[str] = []

    def act(path: str, action: str, value: str = "") -> None:
        actions.append(f"{path} {action} {value}")

    for tunable in declared:
        path = f"{tunable.governor}/{tunable.name}"
        start, least = tunable.shown(tunable.default), tunable.shown(tunable.least)
        greatest = tunable.shown(tunable.greatest)
        act(path, "read")
        expected.append(f"{path} {start}")
        for value in refused_values(tunable):
            act(path, "write", value)
            expected.append(f"{path} {value} refused {start}")
        for value in (least, greatest):
            act(path, "write", value)
            expected.append(f"{path} {value} taken {value}")
    for governor in {tunable.governor for tunable in declared}:
        act(f"{governor}/defaults", "poke", "1")
    for tunable in declared:
        path = f"{tunable.governor}/{tunable.name}"
        act(path, "read")
        expected.append(f"{path} {tunable.shown(tunable.default)}")

    files_of_guest = {"lab/actions": "\n".join([*actions, ""]).encode()}
    run = LabRun(script=SCRIPT, files=files_of_guest, real_time=True)
    output = run_lab(run, tmp_path / "results").check().output

    governors = ["teo_ng", "menu_ng", "wteo"]
    files = {f"{tunable.governor}/{tunable.name}" for tunable in declared} | tunables.OTHER_FILES
    files |= {f"{governor}/{name}" for governor in governors for name in tunables.FILES_OF_EACH}
    files |= {f"{governor}/state/cpu{cpu}" for governor in governors for cpu in range(run.cpus)}
    # The governor bpf has numbered ones, for whatever program is attached.
    found = {name for name in section(output, "files") if not name.startswith("bpf/")}
    assert found == files
    assert section(output, "modes") == [], "only root may use them"
    assert section(output, "values") == expected
