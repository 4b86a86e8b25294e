# SPDX-License-Identifier: GPL-2.0
"""The guest's kernel knows the packages, clusters and cores of the lab's machine."""

from pathlib import Path

import pytest

from cpuidle_lab.lab import LabRun, run_lab

pytestmark = pytest.mark.lab

SCRIPT = """
cd /sys/devices/system/cpu
for cpu in 0 5 15; do
    cd cpu$cpu/topology
    echo $cpu $(cat thread_siblings_list cluster_cpus_list core_siblings_list)
    cd ../..
done
"""


def test_threads_share_a_core_cores_a_cluster_and_clusters_a_package(tmp_path: Path) -> None:
    run = LabRun(SCRIPT, cpus=16, packages=2, threads=2, cluster=4, with_modules=False)
    lines = run_lab(run, tmp_path / "results").check().output.split("\n")
    assert [line.split() for line in lines if line] == [
        ["0", "0-1", "0-3", "0-7"],
        ["5", "4-5", "4-7", "0-7"],
        ["15", "14-15", "12-15", "8-15"],
    ]
