# SPDX-License-Identifier: GPL-2.0
"""`cpuidle-lab experiment weighted-teo`."""

from cpuidle_lab.base.progress import Meter
from experiments import boots
from experiments.experiment import NOT_BOOTED, ORIGINAL, QUICK, Findings, Request, Row
from experiments.here import Load
from experiments.memo import Memo, sources
from experiments.weighted_teo import programs, replayed

# Minutes of one pattern, and intervals of each stream of the split.
MINUTES = {QUICK: 2.0, ORIGINAL: 60.0}
COUNTS = {QUICK: 2000, ORIGINAL: 50_000}


class WeightedTeo:
    """The patch of 2020, judged by its reviewers' questions."""

    name = "weighted-teo"
    title = "Weighted TEO: what its reviewers asked"
    claim = (
        "On POWER9 weighted TEO takes 5 to 29 % less power than TEO with schbench at 2 to 8 "
        "threads and 11 % more at 16, with p99 within 10 %; a completely idle system takes the "
        "same; stale weights were not seen to do harm."
    )
    source = (
        '"[RFC 0/1] Weighted approach to gather and use history in TEO governor", Pratik Rajesh '
        "Sampat, with questions of Gautham Shenoy and figures of Doug Smythies, linux-pm, "
        "February 2020"
    )
    question = (
        "Is the patch (`wteo_rfc` here) better only because it is shallower? How bad are weights "
        "that one pattern has formed for tens of minutes, when the pattern changes? And wteo, "
        "which ages them?"
    )
    in_lab = True
    governors = programs.GOVERNORS

    def programs_here(self, scale: str) -> list[Load]:
        """Return the programs for this machine."""
        return programs.loads_here(scale)

    def refusals(self, _: Request) -> list[str]:
        """Return nothing: the replayed parts run everywhere, and the guest has the programs."""
        return []

    def measure(self, request: Request, memo: Memo, meter: Meter) -> Findings:
        """Measure the replayed parts, and boot for the programs and the idle system."""
        result = Findings(same=_SAME, differs=_DIFFERS, meaning=_MEANING)
        result.sources = {name: sources(name) for name in replayed.GOVERNORS}
        result.sources |= boots.sources(programs.CODE)
        count = COUNTS.get(request.scale, 10_000)
        minutes = MINUTES.get(request.scale, 20.0)
        for rows, section in (
            replayed.too_deep(request.seeds, count, memo, meter),
            replayed.stale(request.seeds, minutes, memo, meter),
        ):
            result.rows += rows
            result.sections.append(section)
        rows, sections = programs.measure(request, memo, meter)
        # The thread's own tables come first.
        result.rows = (rows or [Row("programs and idle system", note=NOT_BOOTED)]) + result.rows
        result.sections = sections + result.sections
        return result


_SAME = """\
The commands are the thread's, and hackbench is the program itself. wakebench has the pattern of
[schbench](https://github.com/masoncl/schbench): messengers sleep 30 to 37.5 ms and wake all their
workers, and the time counts from there until a worker runs. ebizzy has the options and defaults
of the author's (`-i` is the length of a sleep, `-a` asks for it). The patch is compared with TEO,
as in the thread."""
_DIFFERS = """\
Scale: a twelfth of schbench's threads; 5 threads of ebizzy on 8 CPUs, and chunks of 64 KiB; 2 of
hackbench's 10 groups; runs of seconds. hackbench keeps the CPUs busy for more than 70 % of the time
even so, and schbench's largest row for 74 % under TEO. schbench's work is the emulated machine's,
which takes time instead of instructions. That of ebizzy and hackbench is instructions, of which the
CPUs have one clock. Power is modelled, and a nanosecond is an instruction. In replay the streams
are synthetic. The states are the emulated POWER9's. TEO is this project's `teo_ng`, which decides
as 7.2's does; the patch was made for TEO of 2020. `--original` has the thread's times and messages.

The thread's ebizzy did not sleep. In the [author's
source](https://github.com/pratiksampat/sleeping-ebizzy) (8aea6b3) `-i` does nothing without
`-a`, which the commands have not. Two threads for each of 176 CPUs could take 35,200 records a
second with a sleep of 10 ms after each, and the thread has 1,115,000. So those rows have CPUs
that are busy, or that wait for the lock of the memory map (`-m`). Rows with `-a 1` sleep after
each record; the thread has no figures of these."""
_MEANING = """\
**Only because it is shallower? No.** On these streams TEO is the shallow one. The patch loses less
by states that are too shallow, and less by those that are too deep, than TEO does. wteo loses least
in all.

**Stale weights.** The patch behaves as TEO does after a change, to the digit: its weights correct
TEO's choice too rarely to matter here. wteo with a half-life of 0, which never forgets, pays for
twenty minutes of another pattern in the first 3 ms after the change, and not later: 131 % there. As
it comes, wteo has 126 %. With a half-life from 100 ms to 10 s it is 7 to 17 points worse than TEO
in these 3 ms, and better later.

**Programs.** The p99 of schbench is 10 ms under every governor: a CPU wakes up from stop11. So the
patch does not change it. Of the thread's differences of power that at 2 threads comes back, 7 %
less, but the seeds spread from 28 % less to 15 % more. With more threads the ratio to TEO is within
9 % of 1. The thread has 24 and 29 % less there, and 11 % more. Today's TEO may be the cause, for
the patch was made for an older one. Shorter runs and modelled power may be causes, too.

wteo takes 12 % less power than TEO at 8 threads, and 5 % less at 16. With the ebizzy that sleeps it
takes 9 to 10 % less, for 0.5 to 0.6 % fewer records.

**An idle system** takes the same power under the patch, wteo and TEO. menu and menu_ng take 1.5
times as much: they are in stop8 for half of the time, where the others are in stop11."""

EXPERIMENT = WeightedTeo()
