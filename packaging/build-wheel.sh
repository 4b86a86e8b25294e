#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# Builds the wheel of the tree in /shared/source into /shared/wheel, in a Debian without network.
# The packages that the commands need are in /shared/wheels.
set -eu

mkdir -m 1777 /dev/shm
python3 -m venv /opt/build
/opt/build/bin/pip -q --disable-pip-version-check install --no-index /shared/wheels/*.whl
/opt/build/bin/python /shared/source/packaging/wheel_backend.py /shared/wheel
