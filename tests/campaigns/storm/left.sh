# SPDX-License-Identifier: GPL-2.0
# Runs in the guest: what two modules left behind, in all places where a module
# can leave something, not only where these are known to.
# shellcheck shell=sh disable=SC2154

# places: everything that there is, a line for each.
places() {
	tr ' ' '\n' <$cpuidle/available_governors | sed 's/^/governor /'
	echo "driver $(cat $cpuidle/current_driver)"
	ls -d /dev/* /proc/[a-z]* /proc/sys/*/* /sys/class/*/* /sys/kernel/debug/* /sys/module/* \
		/sys/devices/system/cpu/cpu*/cpuidle "$tracing"/events/*
	# Without the addresses, which are hidden or change.
	sed 's/^[^ ]* */probe /' /sys/kernel/debug/kprobes/list
} 2>/dev/null

# remember: before the modules come.
remember() { places >/tmp/places; }

# left: what was not there before; nothing may be, but what a suspend makes: a
# console to switch to, and sources of wake-ups.
left() {
	places | grep -vxFf /tmp/places | grep -v '/vcs[au]*63$\|/class/wakeup/' >/results/left
}
