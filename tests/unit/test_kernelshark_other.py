# SPDX-License-Identifier: GPL-2.0
"""The KernelShark plugin with the KernelShark of Debian 13, on any Debian.

Its libraries are unpacked below build/cache, and run with the C library that they were made for.
"""

import subprocess
from pathlib import Path

import pytest

from cpuidle_lab.base import apt
from cpuidle_lab.base.cache import CACHE, cached, run_logged
from cpuidle_lab.base.errors import UserError
from cpuidle_lab.lab import images
from tests.unit import synthetic, test_kernelshark
from tests.unit.test_kernelshark import PIXEL_NS, TOP, Host, stock

pytestmark = pytest.mark.full

plugin, host = test_kernelshark.plugin, test_kernelshark.host

PACKAGES = (
    "libkshark-dev", "libkshark2", "libtraceevent-dev", "libtracecmd-dev", "libtracefs-dev",
    "libtraceevent1", "libtracecmd1", "libtracefs1", "libjson-c5", "libc6", "libstdc++6",
    "libgcc-s1", "libglut3.12", "libgl1", "libglu1-mesa", "libglvnd0", "libglx0", "libopengl0",
    "libx11-6", "libxcb1", "libxau6", "libxdmcp6", "libxext6", "libxi6", "libxxf86vm1", "libbsd0",
    "libmd0", "zlib1g", "libzstd1",
)  # fmt: skip
HEADERS = ("kernelshark", "trace-cmd", "traceevent", "tracefs")
LIBRARIES = "usr/lib/x86_64-linux-gnu"


@pytest.fixture(scope="module")
def debian13() -> Path:
    """Return the root of the unpacked packages."""

    def build(target: Path) -> None:
        cache = images.apt_root("trixie")
        for deb in apt.download(PACKAGES, "trixie", target / "debs", cache_dir=cache, say=print):
            run_logged(["dpkg-deb", "-x", deb, target], CACHE / "kernelshark.log", "unpacking")

    try:
        return cached("kernelshark", PACKAGES, "Getting Debian 13's KernelShark", build)
    except UserError as error:
        pytest.skip(f"Debian 13's KernelShark could not be had: {error.message}")


def headers(root: Path) -> list[str]:
    return [f"-isystem{root}/usr/include/{name}" for name in HEADERS]


def test_the_plugin_compiles_with_its_headers(debian13: Path, tmp_path: Path) -> None:
    made = subprocess.run(
        ["make", "-C", TOP / "kernelshark", f"BUILD={tmp_path}",
         f"CPPFLAGS={' '.join(headers(debian13))}"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert made.returncode == 0 and made.stderr == "", made.stderr


def test_one_build_draws_the_same_there(
    debian13: Path, plugin: Path, host: Host, tmp_path: Path
) -> None:
    libraries = debian13 / LIBRARIES
    program = tmp_path / "host"
    # By their full names: the symbolic link to one of them leads nowhere in Debian 13.
    linked = [next(libraries.glob(f"{name}.so.2.*")) for name in ("libkshark-plot", "libkshark")]
    source = TOP / "tests/unit/kernelshark_host.cpp"
    subprocess.run(
        ["g++", "-std=c++17", "-rdynamic", *headers(debian13), "-I/usr/include/json-c", source,
         *linked, "-Wl,--allow-shlib-undefined", "-o", program],
        check=True,
    )  # fmt: skip
    for trace in (synthetic.demo(tmp_path / "demo.dat", 5_000_000), stock(tmp_path / "stock.dat")):
        done = subprocess.run(
            [libraries / "ld-linux-x86-64.so.2", "--library-path", libraries, program, plugin,
             trace, str(PIXEL_NS)],
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        lines = [line for line in done.stdout.splitlines() if not line.startswith("loading")]
        loaded, bars = host(trace)
        assert lines[0] == loaded == "loaded 1"
        assert [tuple(line.split("\t")) for line in lines[1:]] == bars
        assert len(bars) >= 50
