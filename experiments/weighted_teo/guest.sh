# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=sh disable=SC1091
. /lab/functions
load cpuidle_emul machine=power9
load cpuidle_lab
account=/sys/kernel/debug/cpuidle_emul/energy

# one NAME COMMAND...: the output, and the energy account before and after.
one() {
	name=$1
	shift
	say "$name"
	cat $account >"/results/$name.before"
	"$@" >"/results/$name.out" 2>&1 || fail "$name failed: $(tail -n 1 "/results/$name.out")"
	cat $account >"/results/$name.after"
}
