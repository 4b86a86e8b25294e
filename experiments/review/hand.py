# SPDX-License-Identifier: GPL-2.0
"""Changes of the list, built by hand on packaged kernels after their descriptions.

They stand for mails that are not there. A row that is built so is marked, and counts apart.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from cpuidle_lab.states.linux_source import NEWEST

Edits = Sequence[tuple[str, str]]


@dataclass(frozen=True)
class Hand:
    """Edits of a packaged governor; each text that is replaced stands there once.

    Attributes:
        kernel: a series.
        governor: its name.
        before, after: texts and what replaces them, on either side of the change.
    """

    kernel: str
    governor: str
    before: Edits = ()
    after: Edits = ()

    def reverse(self) -> "Hand":
        """Return the change that takes this one back."""
        return Hand(self.kernel, self.governor, self.after, self.before)


_NO_INTERVAL = "\tif (divisor * 4 <= INTERVALS * 3)\n\t\treturn UINT_MAX;\n"


def _max(name: str) -> str:
    """Return what #1 does where no interval is typical, with the variable that it returns."""
    return ("\tif (divisor * 4 <= INTERVALS * 3)\n"
            f"\t\treturn divisor >= INTERVALS / 2 ? {name} : UINT_MAX;\n")  # fmt: skip


# #1, and #2 in reverse.
DISCARDING = Hand(NEWEST, "menu", after=[(_NO_INTERVAL, _max("max"))])
# #14, on #1.
LONGER = Hand(NEWEST, "menu", [(_NO_INTERVAL, _max("max"))], [
    (_NO_INTERVAL, _max("max_overall")),
    ("\tunsigned int max, min, divisor;\n",
     "\tunsigned int max, min, divisor, max_overall = 0;\n"),
    ("\tif (!max)\n\t\treturn UINT_MAX;\n",
     "\tif (!max)\n\t\treturn UINT_MAX;\n\tif (max_overall < max)\n\t\tmax_overall = max;\n"),
])  # fmt: skip
# #4, and #3 in reverse, both of the time before #24: its condition is left out at both sides.
_RESIDENCY = ("\t\t    s->target_residency_ns < RESIDENCY_THRESHOLD_NS &&\n", "")
_POLLING = (" &&\n\t\t    s->exit_latency_ns <= predicted_ns) {", ") {")
POLLING = Hand(NEWEST, "menu", [_RESIDENCY, _POLLING], [_RESIDENCY])
# #24, of the time before #4.
RESIDENCY = Hand(NEWEST, "menu", [_RESIDENCY, _POLLING], [_POLLING])
# #22
_STOPPED = ("\t\tif (tick_nohz_tick_stopped() && predicted_ns < TICK_NSEC &&\n"
            "\t\t    data->next_timer_ns > SAFE_TIMER_RANGE_NS)\n"
            "\t\t\tpredicted_ns = data->next_timer_ns;\n")  # fmt: skip
_STOPPED_TOO = ("\t\tif (tick_nohz_tick_stopped() && predicted_ns < TICK_NSEC)\n"
                "\t\t\tpredicted_ns = data->next_timer_ns;\n")  # fmt: skip
_LAST_BUCKET = "\t\tdata->bucket = BUCKETS - 1;\n\t}\n"
TIMERS = Hand(NEWEST, "menu", [
    (" || tick_nohz_tick_stopped()) {", ") {"),
    (_STOPPED, ""),
    (_LAST_BUCKET, _LAST_BUCKET + _STOPPED_TOO),
], [(_STOPPED, _STOPPED_TOO)])  # fmt: skip
# #28
UNLIKELY = Hand("6.12", "menu", after=[
    ("unlikely(drv->state_count <= 1 || latency_req == 0) ||",
     "drv->state_count <= 1 || latency_req == 0 ||")])  # fmt: skip
# #6
INTERCEPTS = Hand("6.12", "teo", [("\tif (!idx && prev_intercept_idx) {\n", "\tif (0) {\n")])
# #9
EAGERLY = Hand(NEWEST, "teo", after=[
    ("if (2 * idx_intercept_sum > cpu_data->total - idx_hit_sum) {",
     "if (2 * (idx_intercept_sum + idx_hit_sum) > cpu_data->total) {")])  # fmt: skip
# #10
FREQUENT = Hand(NEWEST, "teo", [
    ("\tif (!tick_nohz_tick_stopped() && (!idx ||\n"
     "\t     drv->states[idx].target_residency_ns < RESIDENCY_THRESHOLD_NS) &&\n"
     "\t    (2 * cpu_data->short_idles >= cpu_data->total ||\n"
     "\t     latency_req < LATENCY_THRESHOLD_NS))\n",
     "\tif (idx && (drv->states[0].flags & CPUIDLE_FLAG_POLLING) &&\n"
     "\t    drv->states[idx].target_residency_ns < RESIDENCY_THRESHOLD_NS)\n")])  # fmt: skip
# #19 v1
_HIT = " &&\n\t    cpu_data->sleep_length_ns - measured_ns < lat_ns / 2) {"
WAKEUPS = Hand(NEWEST, "teo", [(_HIT, ") {")], [
    (_HIT, " &&\n\t    cpu_data->sleep_length_ns - measured_ns < LATENCY_THRESHOLD_NS) {"),
    ("if (2 * idx_intercept_sum > cpu_data->total - idx_hit_sum) {",
     "if (2 * idx_intercept_sum > cpu_data->total) {")])  # fmt: skip
# Two of ours that change nothing.
SUM = Hand(NEWEST, "teo", after=[
    ("2 * idx_intercept_sum > cpu_data->total",
     "idx_intercept_sum + idx_intercept_sum > cpu_data->total")])  # fmt: skip
TURNED = Hand(
    NEWEST,
    "menu",
    after=[("if (s->exit_latency_ns > latency_req)", "if (latency_req < s->exit_latency_ns)")],
)
