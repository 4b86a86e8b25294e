#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# Builds the packages from /shared/source and leaves them, and what lintian
# says, in /shared/deb. For in-root.sh.
set -eu

cp -R /shared/source /tmp/cpuidle-lab
cd /tmp/cpuidle-lab
dpkg-buildpackage --no-sign
cp ../*.deb ../*.dsc ../*.tar.* ../*.buildinfo ../*.changes /shared/deb/
