# SPDX-License-Identifier: GPL-2.0
"""Faults that are put into a copy of the module, to show that a storm finds them.

Each is done whenever the file `version` is read.
"""

from cpuidle_lab.base.cache import TOP
from cpuidle_lab.base.errors import USAGE, UserError

FILE = "module/debugfs.c"
READ = "\tseq_puts(seq, CIL_VERSION);\n"
HEAD = "static int version_show("

# Faults at a read, and the code that each needs before the function.
FAULTS = {
    "use-after-free": (
        "\tchar *gone = kmalloc(64, GFP_KERNEL);\n\n"
        "\tkfree(gone);\n\tseq_putc(seq, *(volatile char *)gone);\n",
        "",
    ),
    # Beside the operation `table`: a device is looked at where it may be freed meanwhile.
    "device": (
        "\tfor (int i = 0; i < 1000; i++) {\n"
        "\t\tstruct cpuidle_device *dev;\n\n"
        "\t\tpreempt_disable();\n"
        "\t\tdev = list_first_entry_or_null(cil_kernel.devices,\n"
        "\t\t\t\t\t       struct cpuidle_device, device_list);\n"
        "\t\tudelay(500);\n"
        "\t\tif (dev)\n\t\t\tREAD_ONCE(dev->last_state_idx);\n"
        "\t\tpreempt_enable();\n\t}\n",
        "#include <linux/delay.h>\n\n",
    ),
    "sleep": (
        "\tpreempt_disable();\n\tmsleep(1);\n\tpreempt_enable();\n",
        "#include <linux/delay.h>\n\n",
    ),
    "leak": ("\tlost = kmalloc(64, GFP_KERNEL);\n\tlost = NULL;\n", "static void *lost;\n"),
    # Two readers never meet in it: the order is what must be reported, not a guest that hangs.
    "lock": (
        "\tmutex_lock(&alone);\n"
        "\tmutex_lock(&first);\n\tmutex_lock(&second);\n"
        "\tmutex_unlock(&second);\n\tmutex_unlock(&first);\n"
        "\tmutex_lock(&second);\n\tmutex_lock(&first);\n"
        "\tmutex_unlock(&first);\n\tmutex_unlock(&second);\n"
        "\tmutex_unlock(&alone);\n",
        "static DEFINE_MUTEX(alone);\nstatic DEFINE_MUTEX(first);\nstatic DEFINE_MUTEX(second);\n",
    ),
    "race": (
        "\tfor (int i = 0; i < 100000; i++)\n\t\traced += i;\n",
        "static volatile unsigned long raced;\n",
    ),
    "left": (
        '\tif (!xchg(&made, 1))\n\t\tdebugfs_create_file("left", 0400, NULL, NULL, NULL);\n',
        "static int made;\n",
    ),
}


def changes(name: str) -> dict[str, str]:
    """Return the module's files with a fault in them, by path; none for an empty name.

    Raises:
        UserError: there is no such fault, or no place for it.
    """
    if not name:
        return {}
    if name not in FAULTS:
        raise UserError(f"unknown sabotage '{name}'; there are {', '.join(FAULTS)}", USAGE)
    text = (TOP / FILE).read_text()
    if text.count(READ) != 1 or text.count(HEAD) != 1:
        raise UserError(f"{FILE} is not as the sabotage knows it")
    done, needed = FAULTS[name]
    return {FILE: text.replace(HEAD, needed + HEAD).replace(READ, f"\t{{\n{done}\t}}\n{READ}")}
