// SPDX-License-Identifier: GPL-2.0
/*
 * Become a command, run by a user who has one capability and no other.
 *
 *	capable USER CAPABILITY COMMAND...
 *
 * Both are numbers; a capability of -1: none at all, for root, too.
 */
#define _GNU_SOURCE
#include <grp.h>
#include <linux/capability.h>
#include <linux/securebits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

static int have_only(int capability)
{
	struct __user_cap_header_struct header = {
		.version = _LINUX_CAPABILITY_VERSION_3,
	};
	struct __user_cap_data_struct data[2] = { 0 };

	if (capability >= 0) {
		data[capability / 32].effective = 1U << capability % 32;
		data[capability / 32].permitted = 1U << capability % 32;
		data[capability / 32].inheritable = 1U << capability % 32;
	}
	if (syscall(SYS_capset, &header, data))
		return -1;
	return capability < 0 ? 0 : prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE,
					  capability, 0, 0);
}

int main(int argc, char **argv)
{
	unsigned int user;

	if (argc < 4)
		return 2;
	user = (unsigned int)atoi(argv[1]);
	/* Being root gives no capability from now on, and setuid() takes none. */
	if (prctl(PR_SET_SECUREBITS, SECBIT_NOROOT | SECBIT_KEEP_CAPS) ||
	    setgroups(0, NULL) || setgid(user) || setuid(user) ||
	    have_only(atoi(argv[2]))) {
		perror("capable");
		return 2;
	}
	execvp(argv[3], argv + 3);
	perror(argv[3]);
	return 2;
}
