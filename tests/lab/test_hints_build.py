# SPDX-License-Identifier: GPL-2.0
"""A kernel with an event that the module does not know is named when the module is built."""

import re
import subprocess
from pathlib import Path

import pytest

from cpuidle_lab.lab import images

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

# build TARBALL SOURCES KERNEL MOUNT ROOT.SH OBJECT: compiles one object in a Debian of its own.
BUILD = """
. "$5"
mount_root "$1" "$4"
cp -R "$2" "$4/tmp/tree"
export PATH=/usr/sbin:/usr/bin:/sbin:/bin
chroot "$4" make -C "/usr/src/linux-headers-$3" M=/tmp/tree "$6"
"""


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
    images.write_sources(images.source_files({SOURCE: changed}), folder / "source")
    (folder / "mount").mkdir()
    version = images.kernel(SERIES).version
    tarball = images.build_root(images.flavour_of(SERIES), version)
    command = [*images.namespace(), "sh", "-ec", BUILD, "build"]
    command += map(str, (tarball, folder / "source", version, folder / "mount"))
    command += [str(images.ROOT_SCRIPT), OBJECT]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("others", [EVENTS, {"sched_switch"}, set()], ids=["all", "one", "none"])
def test_an_event_of_another_type_is_named(others: set[str], tmp_path: Path) -> None:
    done = build(tmp_path, others)
    said = done.stdout + done.stderr
    found = re.findall(r"cpuidle-lab does not know this kernel\W+s event (\w+)", said)
    assert set(found) == others, said
    assert (done.returncode != 0) == bool(others), said
