# SPDX-License-Identifier: GPL-2.0
"""The shell commands that dump what `cpuidle-lab dump` does, as lines of PATH:TEXT."""

from cpuidle_lab.dump.gather import PATTERNS, REQUESTS

_FILES = " \\\n\t".join(PATTERNS)

SCRIPT = f"""#!/bin/sh
# Writes the counters of this machine's idle states: sh dump.sh FILE
# Then, on any machine: cpuidle-lab diff BEFORE AFTER
set -C # no file is replaced
{{
	printf '%s\\n' {_FILES} | xargs grep -s . /dev/null
	for file in {" ".join(REQUESTS)}; do
		[ ! -r $file ] || echo $file: $(od -An -td4 -N4 $file)
	done
	kernel=$(uname -r)
	hz=$({{ cat /boot/config-$kernel || zcat /proc/config.gz; }} | grep ^CONFIG_HZ=)
	echo /boot/config-$kernel:$hz
}} >"${{1:-dump.txt}}" 2>/dev/null
"""
