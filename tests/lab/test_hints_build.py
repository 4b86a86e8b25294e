# SPDX-License-Identifier: GPL-2.0
"""A kernel that the modules do not fit gives one sentence when they are built.

An event may be of another type, or an option may be missing.
"""

import re
import subprocess
from pathlib import Path

import pytest

from cpuidle_lab.base.cache import namespace
from cpuidle_lab.lab import images, roots
from tests.unit.test_kernel_options import NEEDED

pytestmark = pytest.mark.lab

TOP = Path(__file__).resolve().parents[2]
SERIES = "6.12"
SOURCE = "module/hints/probes.c"
OBJECT = "module/hints/probes.o"
INCLUDES_END = '#include "trace.h"\n'
EVENTS = {
    "sched_process_exit",
    "cgroup_rmdir",
    "sched_wakeup_new",
    "sched_migrate_task",
    "sched_switch",
}

# build TARBALL SOURCES KERNEL MOUNT ROOT.SH OPTION ARGUMENT...: runs make in a Debian of its own,
# for a kernel without the option, where one is named.
BUILD = """
. "$5"
root=$4
mount_root "$1" "$root"
cp -R "$2" "$root/tmp/tree"
headers=/usr/src/linux-headers-$3
missing=$6
shift 6
if [ "$missing" ]; then
    sed -i "/^CONFIG_$missing=/d" "$root$headers/include/config/auto.conf" "$root$headers/.config"
    sed -i "/^#define CONFIG_$missing /d" "$root$headers/include/generated/autoconf.h"
    rm -f "$root$headers/include/config/$missing"
fi
export PATH=/usr/sbin:/usr/bin:/sbin:/bin
chroot "$root" make -C "$headers" M=/tmp/tree "$@"
"""

# The emulated machine alone: it is built last.
EMULATOR = ("CONFIG_CPUIDLE_LAB=",)


def make(
    folder: Path, changes: dict[str, str], missing: str, *arguments: str
) -> subprocess.CompletedProcess[str]:
    """Build with some sources replaced, for a kernel that lacks an option (empty: none)."""
    images.write_sources(images.source_files(changes), folder / "source")
    (folder / "mount").mkdir()
    version = images.kernel(SERIES).version
    tarball = images.build_root(images.flavour_of(SERIES), version)
    command = [*namespace(), "sh", "-ec", BUILD, "build"]
    command += map(str, (tarball, folder / "source", version, folder / "mount"))
    command += [str(roots.ROOT_SCRIPT), missing, *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def build(folder: Path, others: set[str]) -> subprocess.CompletedProcess[str]:
    """Compile the source with the prototypes of some events replaced by another one.

    The kernel's header of an event defines a function that takes a probe, which gives its type.
    """
    text = (TOP / SOURCE).read_text()
    assert text.count(INCLUDES_END) == 1
    doctored = "".join(
        f"static inline void other_{event}(void (*cb)(void *data, int more)) {{ }}\n"
        f"#define check_trace_callback_type_{event} other_{event}\n"
        for event in sorted(others)
    )
    changed = text.replace(INCLUDES_END, INCLUDES_END + doctored)
    return make(folder, {SOURCE: changed}, "", OBJECT)


@pytest.mark.parametrize("others", [EVENTS, {"sched_switch"}, set()], ids=["all", "one", "none"])
def test_an_event_of_another_type_is_named(others: set[str], tmp_path: Path) -> None:
    done = build(tmp_path, others)
    said = done.stdout + done.stderr
    found = re.findall(r"cpuidle-lab does not know this kernel\W+s event (\w+)", said)
    assert set(found) == others, said
    assert (done.returncode != 0) == bool(others), said


OPTIONS = [
    pytest.param(
        header,
        option,
        id=f"{Path(header).parts[0]}-{option}",
        # One of them goes the way of all in the short tier.
        marks=() if option == "CGROUPS" else pytest.mark.full,
    )
    for header, options in NEEDED.items()
    for option in options
]


@pytest.mark.parametrize(("header", "option"), OPTIONS)
def test_a_missing_option_gives_one_sentence(header: str, option: str, tmp_path: Path) -> None:
    """In a build with the kernel's headers: nothing else fails before it, or beside it."""
    only = EMULATOR if header.startswith("emul/") else ()
    done = make(tmp_path, {}, option, *only)
    said = done.stdout + done.stderr
    assert done.returncode != 0, said
    (error,) = re.findall(r"error: (.*)", said)
    assert re.fullmatch(rf'#error ".* needs? a kernel with CONFIG_{option}\b.*"', error), said
    assert "warning:" not in said, said
