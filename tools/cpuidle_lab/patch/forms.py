# SPDX-License-Identifier: GPL-2.0
"""Kernel forms: names, helpers and words of governors/ that differ in the kernel's own tree.

docs/mainline.md has the table of helpers.
"""

import re

# Names of common/ that the kernel has.
NAMES = {
    "cil_machine": "cpuidle_driver",
    "cil_state": "cpuidle_state",
    "machine": "drv",
    "cil_divide": "div64_u64",
    "cil_divide_by_shifts": "div64_u64",
    "cil_square_root": "int_sqrt64",
    "cil_clamp": "clamp",
    "CIL_STATE_MAX": "CPUIDLE_STATE_MAX",
    "CIL_NSEC_PER_USEC": "NSEC_PER_USEC",
    "CIL_NSEC_PER_MSEC": "NSEC_PER_MSEC",
    "CIL_TIME_MAX": "KTIME_MAX",
}

# Beginnings of calls, and the call that takes the argument.
CALLS = (
    (r"63 - \(u32\)__builtin_clzll(?=\()", "ilog2"),
    (r"31 - \(u32\)__builtin_clz(?=\()", "ilog2"),
    (r"32 - \(u32\)__builtin_clz(?=\()", "fls"),
    (r"\(u32\)__builtin_ctz(?=\()", "__ffs"),
)

_OPERAND = r"((?:\w+(?:->|\.))*\w+(?:\[[^\[\]]*\])?)"
# Patterns of code and their replacements, before names are replaced.
CODE = tuple(
    (re.compile(pattern), text)
    for pattern, text in (
        (rf"\(1u << {_OPERAND}\)", r"BIT(\1)"),
        (rf"\b1u << {_OPERAND}", r"BIT(\1)"),
        (rf"\b1ULL << {_OPERAND}", r"BIT_ULL(\1)"),
        (r"\bmachine->tick_ns\b", "TICK_NSEC"),
        (r"\bstatic (?:inline|__always_inline) ", "static "),
        (r"[ \t]*\(void\)\w+;\n", ""),
    )
)

# Words in the comments of common/.
COMMON_WORDS = (
    (" (PM QoS and hints)", " (PM QoS)"),
    ("@sleep_length_ns and @delta_tick_ns are valid; the policy sets it\n"
     " *\tthrough cil_sleep_length() only", "@sleep_length_ns and @delta_tick_ns are valid"),
    ("if the tick is stopped; the\n *\ttime to CIL_TIME_MAX if there is none",
     "if the tick is stopped"),
    (" as measured by the kernel, the exit\n *\tlatency included", ", exit latency included"),
    ("\n *\n * To read the sleep length costs time in the kernel, so a policy reads it\n"
     " * lazily. The reading is part of its behaviour and recorded.", ""),
)  # fmt: skip

# Words in the comments of one governor: the project's, the kernel's.
WORDS = {
    "wteo": (
        ("target residencies tell both, see common/energy.h.", "target residencies tell both."),
        ("Takes over the tunables, all of them at once; by shifts, for it is on select's way.",
         "What follows from the constants."),
    ),
}  # fmt: skip

# Features that no governor of the kernel can have, and the sentence on each.
REFUSED = {
    "power_uw": "it reads the power of states, which drivers of the kernel do not state",
    "cil_random": "it draws random numbers",
    "cil_random_seed": "it draws random numbers",
    "cil_env_print": "a step of its decisions prints",
}

# Headers of the names that a governor may use.
HEADERS = {
    "bitops.h": ("BIT", "BIT_ULL", "__ffs", "fls"),
    "build_bug.h": ("static_assert",),
    "cpuidle.h": ("cpuidle_driver",),
    "kernel.h": ("cpuidle_driver",),
    "limits.h": ("U32_MAX", "S32_MAX", "S64_MAX", "U64_MAX"),
    "log2.h": ("ilog2",),
    "math.h": ("int_sqrt64",),
    "math64.h": ("div64_u64",),
    "minmax.h": ("clamp", "min"),
    "percpu.h": ("this_cpu_ptr",),
    "sched.h": ("current",),
    "sched/clock.h": ("local_clock",),
    "string.h": ("memset", "memcpy", "memcmp", "memmove"),
    "tick.h": ("tick_nohz_get_sleep_length",),
    "time64.h": ("NSEC_PER_USEC", "NSEC_PER_MSEC"),
}
