# SPDX-License-Identifier: GPL-2.0
"""Names of the kernel's own threads; the lab's kernel has them, too."""

import re

# An event may name its task by the first 8 letters.
KERNEL_THREAD = re.compile(
    r"(swapper|kworker|ksoftirq|migration|cpuhp|idle_inject|irq|jbd2|rcu[bc]|rcuo[gps]|scsi_eh_)/|"
    r"ksoftirq(d/\d+)?$|migratio(n/\d+)?$|rcu_|kthreadd$|kcompact|kswapd\d|khugepag|ksmd$|kauditd$|"
    r"kdevtmpf|kblockd$|khungtas|watchdog|oom_reap|writebac|pool_wor"
)
