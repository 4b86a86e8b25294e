#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# A wheel on a Debian with Python and no compiler: install, use, uninstall.
#
#   wheel-round.sh PACKAGE...     the wheel and its dependencies in /shared/wheels, which PACKAGE
#                                 names; recordings and dumps in /shared/work
set -eu
. /shared/functions.sh

# Python's processes share semaphores there.
mkdir -m 1777 /dev/shm

echo "compiler: $(command -v cc gcc clang valgrind || echo none)"
python3 -m venv /opt/lab
pip() { /opt/lab/bin/pip -q --disable-pip-version-check "$@"; }
pip install --no-index --find-links /shared/wheels "$@"
snapshot before

pip install --no-index --find-links /shared/wheels cpuidle-lab
PATH=/opt/lab/bin:$PATH
cd /shared/work
mkdir ../said
# Processor time: the clock's depends on what else the machine does.
python3 -c 'import resource, subprocess, sys
subprocess.run(sys.argv[2:], stdout=open(sys.argv[1], "w"), check=True)
used = resource.getrusage(resource.RUSAGE_CHILDREN)
print("seconds:", round(used.ru_utime + used.ru_stime))' \
	../said/compare cpuidle-lab compare --json trace.dat
cpuidle-lab report --json trace.dat >../said/report
cpuidle-lab diff --json before after >../said/diff
cpuidle-lab replay --check --json trace.dat >../said/replay
for refused in "compare --governors menu@6.6 trace.dat" "experiment wteo" \
	"tune --governor wteo trace.dat" "export --perfetto x trace.dat"; do
	# shellcheck disable=SC2086 # the words of a command line
	cpuidle-lab $refused >/dev/null 2>&1 && echo "refused: $refused"
	# shellcheck disable=SC2086
	echo "${refused%% *}: $(cpuidle-lab $refused 2>&1 | tail -n 1)"
done
python3 -c 'import cpuidle_lab; print("opened:", cpuidle_lab.open("trace.dat").decisions.height > 0)'

pip uninstall --yes cpuidle-lab
snapshot after
