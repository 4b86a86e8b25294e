# SPDX-License-Identifier: GPL-2.0
"""Changes to menu and teo, and what was found of them later."""

from collections.abc import Sequence
from dataclasses import dataclass

from cpuidle_lab.states.linux_source import NEWEST
from experiments.review import hand
from experiments.review.hand import Hand

# Conditions under which a change is called as history called it.
GOOD, SAME, OPEN = "good", "no change", "no figure"


@dataclass(frozen=True)
class Known:
    """A change whose effect is known.

    Attributes:
        name: of the row.
        history: what became of it, and what was found.
        wanted: figures of which one must rise in a harm that the search finds (see rating.rises());
            (GOOD,): the search may find no harm; (SAME,): no decision may differ; (OPEN,): history
            has no figure.
        mail: Message-ID of the patch, without brackets; "" of the others.
        pair: two governors, instead.
        hand: the change as edits of ours, where its mail is not there.
        why_not: why replay cannot judge it; "": it can.
        missed: the reason where review says other than history.
    """

    name: str
    history: str
    wanted: Sequence[str]
    mail: str = ""
    pair: tuple[str, str] | None = None
    hand: Hand | None = None
    why_not: str = ""
    missed: str = ""


_ELSEWHERE = "it changes no governor, but a file that the stand-in for the kernel does not carry"
_NO_FIGURE = "the list has no figure for it"
_OURS = "wteo was never on the list"

_SHALLOWER = ("power", "shallow", "ticks")
_DEEPER = ("exit latency",)

PATCHES = (
    Known("#1 menu: Avoid discarding useful information", "merged 6.15; reverted for a power limit",
          _SHALLOWER, "7770672.EvYhyI6sBW@rjwysocki.net", hand=hand.DISCARDING),
    Known("#2 its revert", "merged; Oracle's database and SPECjbb lose", _DEEPER,
          "3663603.iIbC2pHGDl@rafael.j.wysocki", hand=hand.DISCARDING.reverse()),
    Known("#3 menu: Avoid selecting states with too much latency",
          "merged 6.17; sched-pipe -12.9 %; mended by #4", _DEEPER,
          "5043159.31r3eYUQgx@rafael.j.wysocki",
          hand=hand.POLLING.reverse(),
          missed="it takes C1 in place of polling, which costs exit latency and saves power; the "
          "search weighs power first"),
    Known("#4 menu: Select polling state in some more cases", "merged, good", (GOOD,),
          "12786727.O9o76ZdvQC@rafael.j.wysocki",
          hand=hand.POLLING,
          missed="it brings polling back, which costs power and saves exit latency; history judged "
          "by latency, and the search weighs power first"),
    Known("#5 menu: Remove iowait influence", "merged 6.13; fsmark -5.1 %; stands", _DEEPER,
          "20240905092645.2885200-2-christian.loehle@arm.com",
          why_not="replay knows no task that waits for I/O"),
    Known("#6 teo: Don't count non-existent intercepts v4", "merged 6.11; WFI 100 % on MT8196",
          ("shallow",), "c40acf72-010f-4a8b-80e4-33f133ba266b@arm.com",
          hand=hand.INTERCEPTS),
    Known("#7 teo: Revert util-awareness", "merged", (OPEN,),
          "20240611112413.1241352-2-christian.loehle@arm.com", why_not=_NO_FIGURE),
    Known("#8 teo: Remove recent intercepts", "merged", (OPEN,),
          "20240611112413.1241352-3-christian.loehle@arm.com", why_not=_NO_FIGURE),
    Known("#9 teo: Avoid selecting deepest state over-eagerly",
          "dropped: idle 1.75 -> 9.40 W, deepest state 98 -> 69.6 %", ("power", "shallow"),
          "12630185.O9o76ZdvQC@rjwysocki.net", hand=hand.EAGERLY),
    Known("#10 teo: Skip sleep length if wake-ups are frequent",
          "merged 6.14; ping-pong of 12 CPUs -15.7 %, +5.4 % power", ("power", "shallow"),
          "3851791.kQq0lBPeGt@rjwysocki.net", hand=hand.FREQUENT),
    Known("#11 teo: Refine short idle intervals", "dropped: not reproducible", (OPEN,),
          "2239639.irdbgypaU6@rjwysocki.net", why_not=_NO_FIGURE),
    Known("#12 menu: Special-case nohz_full", "dropped: too risky", (OPEN,),
          "2244365.irdbgypaU6@rafael.j.wysocki", why_not=_NO_FIGURE),
    Known("#13 teo: Special-case nohz_full", "dropped: too risky", (OPEN,),
          "5939372.DvuYhMxLoT@rafael.j.wysocki", why_not=_NO_FIGURE),
    Known("#14 menu: Predict longer idle time when in doubt", "dropped: fio -36 to -47 %", _DEEPER,
          "4687373.LvFx2qVVIh@rafael.j.wysocki", hand=hand.LONGER),
    Known("#15 menu: Avoid using invalid recent intervals", "merged, good", (GOOD,),
          "2793874.mvXUDI8C0e@rafael.j.wysocki", why_not="replay's driver rejects no state"),
    Known("#16 Sanity check of latency and residency v2", "merged; refused a whole driver", (OPEN,),
          "12779486.O9o76ZdvQC@rafael.j.wysocki", why_not=_ELSEWHERE),
    Known("#17 teo: Rework tick wakeups", "merged; cures #6", (GOOD,),
          "6228387.lOV4Wx5bFT@rafael.j.wysocki",
          missed="it cures #6; the search names no stream that gains by it"),
    Known("#18 teo: Simplify intercepts lookup", "no intentional functional impact", (SAME,),
          "2418792.ElGaqSPkdT@rafael.j.wysocki"),
    Known("#19 teo: Adjust wakeup classification v1", "idle misses 1048 -> 1607 (dm-slow)",
          ("shallow", "exit latency"), "2033689.PYKUYFuaPT@rafael.j.wysocki",
          hand=hand.WAKEUPS),
    Known("#19 v3", "merged", (OPEN,), "5093379.31r3eYUQgx@rafael.j.wysocki", why_not=_NO_FIGURE),
    Known("#21 teo: Avoid fake intercepts from tick", "merged", (OPEN,),
          "3404606.44csPzL39Z@rafael.j.wysocki", why_not=_NO_FIGURE),
    Known("#22 menu: Always check timers with tick stopped", "merged 7.0", (GOOD,),
          "5959091.DvuYhMxLoT@rafael.j.wysocki", hand=hand.TIMERS),
    Known("#23 menu: 25 % margin", "dropped: no dumps", (OPEN,),
          "20260120211725.124349-2-sunlightlinux@gmail.com", why_not=_NO_FIGURE),
    Known("#24 menu: residency threshold for polling v4", "merged 6.19", (GOOD,),
          "20251006013954.17972-1-aboorvad@linux.ibm.com",
          hand=hand.RESIDENCY,
          missed="it changes decisions only where the next state behind polling has a target "
          "residency of 15 us or more; it brings polling back, which costs power"),
    Known("#25 menu: heuristic classification", "rejected: no significance", (OPEN,),
          "fa1c6faa96344fa9803675b179d7a329@xiaomi.com", why_not=_NO_FIGURE),
    Known("#26 Skip governor with one idle state", "merged; tick kept for ever on WFI alone",
          (OPEN,), "20260216185005.1131593-2-aboorvad@linux.ibm.com", why_not=_ELSEWHERE),
    Known("#28 menu: Remove incorrect unlikely()", "no decision differs", (SAME,),
          "20260105-annotated_idle-v1-1-10ddf0771b58@debian.org", hand=hand.UNLIKELY),
)  # fmt: skip

PAIRS = (
    Known("teo@6.1, teo@6.12", "livelock in WFI (#6)", ("shallow",), pair=("teo@6.1", "teo@6.12")),
    Known("teo@6.12, teo@7.2", "livelock cured (#17)", (OPEN,), pair=("teo@6.12", "teo@7.2"),
          why_not="the list knows the cure, which is a gain, and no harm"),
    Known("teo@7.2, teo@7.3", "the same bytes", (SAME,), pair=("teo@7.2", "teo@7.3")),
    Known("menu@6.1, menu@6.12", "no report", (OPEN,), pair=("menu@6.1", "menu@6.12"),
          why_not=_NO_FIGURE),
    Known("menu@6.12, menu@7.2", "no report", (OPEN,), pair=("menu@6.12", "menu@7.2"),
          why_not=_NO_FIGURE),
    Known("teo@6.1, teo@7.3", "no report", (OPEN,), pair=("teo@6.1", "teo@7.3"),
          why_not=_NO_FIGURE),
    Known("menu@6.1, menu@7.3", "no report", (OPEN,), pair=("menu@6.1", "menu@7.3"),
          why_not=_NO_FIGURE),
    Known("teo@7.3, wteo", "ours", (OPEN,), pair=("teo@7.3", "wteo"), why_not=_OURS),
    Known("menu@7.3, wteo", "ours", (OPEN,), pair=("menu@7.3", "wteo"), why_not=_OURS),
    Known("menu@7.2, menu@7.3", "the same bytes", (SAME,), pair=("menu@7.2", "menu@7.3")),
    Known(f"teo@{NEWEST}, a product written as a sum", "no change", (SAME,), hand=hand.SUM),
    Known(f"menu@{NEWEST}, a comparison turned round", "no change", (SAME,), hand=hand.TURNED),
)  # fmt: skip

KNOWN = (*PATCHES, *PAIRS)
