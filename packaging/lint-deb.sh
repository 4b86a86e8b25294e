#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# Examines the packages in /shared/deb; what lintian finds goes to lintian.txt
# there, and what overrides hide, with their reasons, to overridden.txt. For
# in-root.sh.
set -eu

cd /shared/deb
examine() {
	lintian --allow-root --display-info --pedantic --fail-on none "$@" ./*.dsc ./*.deb
}
examine >lintian.txt
examine --show-overrides >overridden.txt
