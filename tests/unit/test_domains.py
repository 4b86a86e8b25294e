# SPDX-License-Identifier: GPL-2.0
"""Domains: trees of machine files, accounts of recordings, and who kept a domain awake."""

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from cpuidle_lab.base.errors import UserError
from cpuidle_lab.cli import main
from cpuidle_lab.domains import blame, charts, observed
from cpuidle_lab.domains.account import FAR, Account, Stays, account
from cpuidle_lab.recording import state_tables
from cpuidle_lab.recording.formats.writer import Event, Writer
from cpuidle_lab.states import domain_files
from cpuidle_lab.states.domains import HARDWARE, KERNEL, Domain, DomainState, Rule, grow
from cpuidle_lab.states.table import StateTable
from tests.unit.kernel_events import EXIT

TABLE = StateTable(("A", "B", "C"), (0, 1, 2), (0, 3, 6), (9000, 4000, 1000), (False,) * 3, 4000000)
HEAD = "- {name: package, cpus: all, decides: hardware, power_mw: 50, source: modelled, states: "
TWICE = HEAD.replace("all", "'0-1,1'")
STATE = (
    "{{name: P, entry_latency_us: 1, exit_latency_us: 1, target_residency_us: {0}, "
    "power_mw: {1}, needs: {2}}}"
)


def state(name: str, target: int, power: int, *needs: str, entry: int = 0) -> DomainState:
    return DomainState(name, entry, 1, target, 1000 * power, needs)


def rule(name: str, cpus: str, *states: DomainState, decides: str = HARDWARE,
         demotes: bool = False) -> Rule:  # fmt: skip
    return Rule(name, cpus, decides, demotes, 40_000, states, "modelled")


def tree(*rules: Rule, cpus: int = 4) -> list[Domain]:
    return grow(rules, range(cpus), dict.fromkeys(range(cpus), TABLE), {})


MODULES = rule("module", "every 2", state("M1", 3, 20, "B"), state("M2", 7, 5, "C"))
PACKAGE = rule("package", "all", state("P1", 8, 10, "M2"))


# ---- Trees ----


def written(tmp_path: Path, text: str) -> str:
    path = tmp_path / "mine.yaml"
    path.write_text(text)
    return str(path)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("hz: 100\n", "line 1: it has no 'domains'"),
        ("domains: []\n", "line 1: domains must be a list"),
        (f"domains:\n{HEAD}[]}}\n", "line 2: states must be a list"),
        (f"domains:\n{HEAD}[{STATE.format(5, 60, 'C6')}]}}\n",
         "line 2: power_mw of 'P' is above that of being up"),
        (f"domains:\n{HEAD}[{STATE.format(5, 6, 'C6')},\n {STATE.format(6, 7, 'C6')}]}}\n",
         "line 3: power_mw of 'P' is above that of the shallower 'P'"),
        (f"domains:\n{HEAD}[{STATE.format(5, 6, 'C6')},\n {STATE.format(4, 5, 'C6')}]}}\n",
         "line 3: target_residency_us of 'P' is below that of 'P'"),
        (f"domains:\n{HEAD}[{STATE.format(5, 6, '[]')}]}}\n", "needs is empty"),
        (f"domains:\n{TWICE}[{STATE.format(5, 6, 'C6')}]}}\n",
         "CPU 1 is twice in '0-1,1'"),
        (f"domains:\n{HEAD.replace('all', 'some')}[{STATE.format(5, 6, 'C6')}]}}\n",
         "'some' is no range of CPUs such as 0-3,7, nor 'all' or 'every 4'"),
        (f"domains:\n{HEAD.replace('hardware', 'firmware')}[{STATE.format(5, 6, 'C6')}]}}\n",
         "decides must be hardware or kernel, not 'firmware'"),
        (f"domains:\n{HEAD.replace('hardware', 'kernel, demotes: true')}"
         f"[{STATE.format(5, 6, 'C6')}]}}\n", "only hardware demotes"),
        (f"domains:\n{HEAD.replace('source: modelled, ', '')}[{STATE.format(5, 6, 'C6')}]}}\n",
         "line 2: a domain has no source"),
    ],
)  # fmt: skip
def test_a_wrong_file_is_refused_with_line_and_cause(tmp_path: Path, text: str, words: str) -> None:
    with pytest.raises(UserError) as refused:
        domain_files.read(written(tmp_path, text))
    assert words in refused.value.message
    assert refused.value.message.count("\n") == 0


@pytest.mark.parametrize(
    ("rules", "words"),
    [
        ([rule("a", "all", state("P", 6, 1, "C")), rule("a", "all", state("P", 6, 1, "C"))],
         "two domains are called 'a'"),
        ([rule("a", "0-2", state("P", 6, 1, "C")), rule("b", "2-3", state("P", 6, 1, "C"))],
         "'b' and 'a' share CPU 2, but neither is within the other: that is no tree"),
        ([rule("a", "all", state("P", 6, 1, "X"))],
         "state 'P' of 'a' needs 'X', but CPU 0 has none: it has A, B, C"),
        ([rule("a", "all", state("P", 5, 1, "C"))],
         "state 'P' of 'a' pays from 0.005 us on, before 'C' of CPU 0, which pays from 0.006 us"),
        ([MODULES, rule("a", "all", state("P", 6, 1, "M2"))],
         "state 'P' of 'a' pays from 0.006 us on, before 'M2' of 'module0'"),
        ([rule("a", "all", state("P", 6, 2, "C"), state("Q", 7, 1, "B"))],
         "state 'Q' of 'a' needs less of CPU 0 than the shallower 'P'"),
    ],
)  # fmt: skip
def test_what_is_no_tree_is_refused(rules: list[Rule], words: str) -> None:
    lists = {"a": (0, 1, 2), "b": (2, 3)}
    tables = dict.fromkeys(range(4), TABLE)
    with pytest.raises(ValueError, match=words.replace("(", r"\(")):
        grow(rules, range(4), tables, lists)


def test_domains_stand_after_those_within_them() -> None:
    found = tree(PACKAGE, MODULES)
    assert [(each.name, each.cpus) for each in found] == [
        ("module0", (0, 1)), ("module1", (2, 3)), ("package", (0, 1, 2, 3)),
    ]  # fmt: skip
    assert found[2].asks == {"module0": (2,), "module1": (2,)}
    assert found[2].needs[3] == (2,) and found[0].needs[0] == (1, 2)


def test_of_domains_with_the_same_cpus_the_first_is_within_the_second() -> None:
    found = tree(MODULES, PACKAGE, cpus=2)
    assert [each.name for each in found] == ["module0", "package"]
    assert found[1].asks == {"module0": (2,)}


def test_a_domain_breaks_even_at_its_target_residencies() -> None:
    costs = tree(MODULES)[0].costs
    (p0, p1, p2), (e0, e1, e2) = costs.power_mw, costs.entry_pj
    assert (p0, p1, p2, e0) == (40, 20, 5, 0) and not costs.derived
    assert e1 + p1 * 3 == p0 * 3 and e2 + p2 * 7 == e1 + p1 * 7


FITTING = {
    "xeon": ("skx", "icx", "spr", "gnr"), "ecore-modules": ("pepc:srf2",), "client": ("skl",),
    "zen2-server": ("pepc:rome0",), "power9-smt4": ("power9",), "mt8196": (),
}  # fmt: skip


@pytest.mark.parametrize("name", domain_files.names())
def test_the_trees_that_come_along_fit_their_machines(name: str) -> None:
    rules, lists = domain_files.read(name)
    for machine in FITTING[name]:
        tables = dict.fromkeys(range(8), state_tables.find(machine))
        assert grow(rules, range(8), tables, lists)
    assert all("modelled" in each.source for each in rules)


def test_an_unknown_tree_is_refused_with_those_there_are() -> None:
    with pytest.raises(UserError, match="did you mean 'xeon'"):
        domain_files.read("xeno")


# ---- Accounts ----


def drawn(rng: np.random.Generator, end: int) -> Stays:
    """Draw stays; some follow each other without a gap, as after a tick."""
    rows, now = [], int(rng.integers(0, 4))
    while now < end - 1:
        stop = min(end, now + int(rng.integers(1, 30)))
        rows.append(
            (now, stop, int(rng.choice([0, 1, 2, 2, 2, 2, 2])), now + int(rng.integers(5, 60)))
        )
        now = stop + int(rng.integers(0, 4))
    return Stays(*np.asarray(rows, np.int64).reshape(-1, 4).T)


def slow(
    domain: Domain, stays: dict[int, Stays], below: dict[str, list[int]], end: int
) -> list[int]:
    """Return the level at each ns, step by step."""

    def stay(cpu: int, ns: int) -> int:
        mine = stays[cpu]
        return next((n for n, (a, b) in enumerate(zip(mine.start_ns, mine.end_ns, strict=True))
                     if a <= ns < b), -1)  # fmt: skip

    keys = [tuple(stay(cpu, ns) for cpu in domain.cpus) for ns in range(end)]
    levels = [0] * end
    for ns in range(end):
        first = ns
        while first and keys[first - 1] == keys[ns]:
            first -= 1
        last = ns
        while last + 1 < end and keys[last + 1] == keys[ns]:
            last += 1
        if -1 in keys[ns]:
            continue
        places = list(zip(domain.cpus, keys[ns], strict=True))
        vote = min(
            sum(stays[cpu].index[n] >= need for need in domain.needs[cpu]) for cpu, n in places
        )
        for name, least in domain.asks.items():
            vote = min(vote, sum(below[name][first] >= ask for ask in least))
        left = min(stays[cpu].next_ns[n] for cpu, n in places) - first
        for k in range(1, vote + 1):
            one = domain.rule.states[k - 1]
            fits = {
                HARDWARE: not domain.rule.demotes or last + 1 - first >= one.target_residency_ns,
                KERNEL: left >= one.target_residency_ns + one.entry_latency_ns,
            }[domain.rule.decides]
            if fits:
                levels[ns] = k
    return levels


RULES = [(HARDWARE, False), (HARDWARE, True), (KERNEL, False)]


@pytest.mark.parametrize(("decides", "demotes"), RULES)
def test_accounts_and_shares_are_those_of_a_slow_model(decides: str, demotes: bool) -> None:
    domains = tree(
        rule("module", "every 2", state("M1", 3, 20, "B", entry=1), state("M2", 7, 5, "C"),
             decides=decides, demotes=demotes),
        rule("package", "all", state("P1", 8, 10, "M2"), decides=decides, demotes=demotes),
    )  # fmt: skip
    end, slept = 200, 0
    for seed in range(12):
        rng = np.random.default_rng(seed)
        stays = {cpu: drawn(rng, end) for cpu in range(4)}
        found: dict[str, Account] = {}
        below: dict[str, list[int]] = {}
        for domain in domains:
            below[domain.name] = slow(domain, stays, below, end)
            one = found[domain.name] = account(domain, stays, found, 0, end)
            told = np.repeat(one.level, one.length_ns)
            assert told.tolist() == below[domain.name]
            why = {cpu: blame.Reasons(["x"] * len(mine.index), ["y"] * len(mine.index))
                   for cpu, mine in stays.items()}  # fmt: skip
            shares = blame.blame(one, stays, why)
            assert blame.broken(one, shares) == []
            assert all(share.energy_pj >= 0 for share in shares)
        slept += int((found["package"].level > 0).sum())
    assert slept > 10


def test_a_member_alone_in_a_shallow_state_has_all_of_the_blame() -> None:
    (domain,) = tree(rule("package", "all", state("P", 6, 10, "C")), cpus=2)
    stays = {
        0: Stays(*(np.asarray([one], np.int64) for one in (0, 100, 2, FAR))),
        1: Stays(*(np.asarray([one], np.int64) for one in (0, 100, 1, FAR))),
    }
    one = account(domain, stays, {}, 0, 100)
    why = {cpu: blame.Reasons(["timer"], ["B"]) for cpu in stays}
    (share,) = [each for each in blame.blame(one, stays, why) if each.energy_pj]
    assert (share.cpu, share.kind, share.why) == (1, blame.SHALLOW, "B")
    assert (share.time_ns, share.alone_ns, share.energy_pj) == (100, 100, 30 * 100)


def test_time_that_a_cpu_ran_is_that_of_each_task() -> None:
    (domain,) = tree(rule("package", "all", state("P", 6, 10, "C")), cpus=2)
    for seed in range(6):
        rng = np.random.default_rng(seed)
        stays = {cpu: drawn(rng, 200) for cpu in range(2)}
        one = account(domain, stays, {}, 0, 200)
        ran_ns = np.sort(rng.choice(200, 60, replace=False))
        tasks = [str(name) for name in rng.choice(["", "a", "b"], 60)]
        mine = stays[0]
        why = {
            cpu: blame.Reasons([str(n) for n in range(len(each.index))], ["y"] * len(each.index))
            for cpu, each in stays.items()
        }
        why[0] = replace(why[0], ran_ns=ran_ns, tasks=tasks)
        shares = blame.blame(one, stays, why)
        assert blame.broken(one, shares) == []
        told = {
            each.why: each.time_ns for each in shares if (each.cpu, each.kind) == (0, blame.AWAKE)
        }
        slow: dict[str, float] = {}
        for ns in range(200):
            awake = [not ((each.start_ns <= ns) & (ns < each.end_ns)).any()
                     for each in stays.values()]  # fmt: skip
            if not awake[0]:
                continue
            after = np.flatnonzero(mine.end_ns <= ns)
            begin = int(mine.end_ns[after[-1]]) if len(after) else 0
            last = [task for at, task in zip(ran_ns, tasks, strict=True) if begin <= at <= ns]
            cause = str(after[-1]) if len(after) else blame.UNKNOWN_CAUSE
            name = f"{last[-1] if last else ''} after {cause}".strip()
            low = (stays[1].start_ns <= ns) & (ns < stays[1].end_ns) & (stays[1].index < 2)
            slow[name] = slow.get(name, 0) + 1 / (1 + (awake[1] or bool(low.any())))
        assert {name: time for name, time in told.items() if time} == pytest.approx(slow)


def test_shares_that_do_not_sum_are_told() -> None:
    (domain,) = tree(rule("package", "all", state("P", 6, 10, "C")), cpus=2)
    stays = {cpu: drawn(np.random.default_rng(cpu), 100) for cpu in range(2)}
    one = account(domain, stays, {}, 0, 100)
    why = {
        cpu: blame.Reasons(["x"] * len(stays[cpu].index), ["y"] * len(stays[cpu].index))
        for cpu in stays
    }
    shares = blame.blame(one, stays, why)
    shares[0].energy_pj *= 1.01
    assert blame.broken(one, shares) == [
        "the shares of energy sum to the energy beyond the deepest level"
    ]


# ---- The command ----

MARK = "stock machine cpus=0-2 tick_ns=4000000 states=POLL:0:0,C1:2:2,C6:133:600"
US = 1000


def recording(tmp_path: Path, cpus: int = 2, gone: int = 10, more: Sequence[Event] = ()) -> Path:
    """Write 10 periods of 1 ms: CPU 0 in C6, CPU 1 in C6 and every other time in C1.

    From the period `gone` on CPU 1 is offline. There are `more` events.
    """
    events = [Event(0, 1000, "print", text=MARK), *more]
    for n in range(10):
        begin = (n + 1) * 2000 * US
        for cpu in range(cpus if n < gone else 1):
            index = 1 if cpu and n % 2 else 2
            when = begin + cpu * 100 * US
            events.append(Event(cpu, when, "cpu_idle", {"state": index, "cpu_id": cpu}))
            events.append(Event(cpu, when + 1500 * US, "cpu_idle", {"state": EXIT, "cpu_id": cpu}))
    path = tmp_path / "trace.dat"
    with Writer(path) as writer:
        for event in sorted(events, key=lambda each: each.ts):
            writer.add(event)
    return path


def test_the_command_tells_who_kept_it_awake(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = recording(tmp_path)
    assert main(["domains", str(path), "--domains", "xeon", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    (phase,) = told["phases"]
    package = phase["domains"]["package"]
    # From the first entry of CPU 1 to the last exit of CPU 0.
    assert package["span_ns"] == (18_000 + 1400) * US
    assert package["could_ns"] == 10 * 1400 * US
    assert package["allowed_ns"] == package["paid_ns"] == 5 * 1400 * US
    (first, *_) = [each for each in package["kept_awake"] if each["kind"] == blame.SHALLOW]
    assert (first["cpu"], first["why"], first["alone_ns"]) == (1, "C1", 5 * 1400 * US)
    assert not told["is_bound"]
    assert main(["domains", str(path), "--domains", "xeon"]) == 0
    assert "in C1" in capsys.readouterr().out


def test_tasks_that_ran_and_that_woke_a_cpu_are_named(tmp_path: Path) -> None:
    more = []
    for n in range(10):
        begin, sender = (n + 1) * 2000 * US, 7 if n < 6 else 0
        end = begin + 1600 * US
        raised = {"target_cpus": 1 << 1}
        more += [
            Event(0, begin + 1598 * US, "ipi_raise", raised, "Rescheduling interrupts", pid=sender,
                  comm="sender" if sender else "<idle>"),
            Event(1, end + US, "reschedule_entry"),
            Event(1, end + 20 * US, "sched_switch", {"prev_pid": 0, "next_pid": 5}),
            Event(1, end + 70 * US, "sched_switch", {"prev_pid": 5, "next_pid": 0}),
            Event(1, end + 80 * US, "irq_handler_entry", {"irq": 9}, "disk"),
        ]  # fmt: skip
    (part,) = observed.observe(recording(tmp_path, more=more), "xeon").parts
    shares = [each for each in part.domains["package"].shares if each.cpu == 1]
    ended = {each.why: each.ended for each in shares if each.kind == blame.SHORT}
    ran = {each.why: each.time_ns for each in shares if each.kind == blame.AWAKE}
    assert set(ran) == {
        f"{task}after IPI reschedule from {who}"
        for task in ("", "task 5 ")
        for who in ("sender", "an idle CPU")
    }
    # CPU 0 woke up 100 us before, so the time is shared.
    assert ran["task 5 after IPI reschedule from sender"] == 6 * 50 * US / 2
    assert not ended


def test_the_page_shows_domains_over_time_and_cpus_in_the_way(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, page = recording(tmp_path), tmp_path / "d.html"
    words = ["domains", str(path), "--domains", "xeon", "-o"]
    assert main([*words, str(page)]) == 0
    text = page.read_text()
    assert "chart-strips" in text and "chart-blamed" in text and "in C1" in text
    page.write_text("mine")
    assert main([*words, str(page)]) == 2
    assert main([*words, str(path)]) == 2
    assert page.read_text() == "mine" and "in C1" not in capsys.readouterr().err


def test_slices_hold_the_whole_time_of_each_condition(tmp_path: Path) -> None:
    found = observed.observe(recording(tmp_path), "xeon")
    (part,) = found.parts
    slept = part.domains["package"]
    times = charts.in_slices(slept.account, 7)
    assert times.sum() == pytest.approx(slept.span_ns)
    assert times.sum(axis=0) == pytest.approx([slept.span_ns / 7] * 7)
    assert times[3].sum() == pytest.approx(slept.paid_ns)
    assert times[2].sum() == pytest.approx(slept.allowed_ns - slept.paid_ns)
    assert times[1:].sum() == pytest.approx(slept.could_ns)


@pytest.mark.parametrize("command", ["report", "compare"])
def test_other_commands_have_a_section_of_domains(
    command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, page = recording(tmp_path), tmp_path / "page.html"
    words = [command, str(path), "--domains", "xeon"]
    if command == "compare":
        words += ["--governors", "wteo", "--no-mainline", "--no-instructions"]
    assert main([*words, "-o", str(page)]) == 0
    assert 'id="domains"' in page.read_text() and "domains" in capsys.readouterr().out
    assert main([*words, "--json"]) == 0
    told = json.loads(capsys.readouterr().out)["domains"]
    assert [each["domains"][0]["name"] for each in told] == ["package"]
    assert main([*words, "--domains", "ecore-modules", "--json"]) == 1


def test_a_recording_of_some_cpus_is_called_a_bound(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = HEAD.replace("all", "0-3") + f"[{STATE.format(600, 6, 'C6')}]}}\n"
    mine = written(tmp_path, f"domains:\n{text}")
    path = recording(tmp_path)
    assert main(["domains", str(path), "--domains", mine]) == 0
    out = capsys.readouterr().out
    assert "nothing of CPU 2-3, which count as asleep" in out and "an upper bound" in out
    assert "the energy is a lower bound" not in out
    mine = written(tmp_path, f"domains:\n{text.replace('hardware', 'hardware, demotes: true')}")
    assert main(["domains", str(path), "--domains", mine]) == 0
    assert "the energy is a lower bound" in capsys.readouterr().out


@pytest.mark.parametrize("command", ["report", "compare"])
def test_recordings_of_unlike_machines_are_told(
    command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = [command, "--domains", "xeon", "--json"]
    if command == "compare":
        words += ["--governors", "wteo", "--no-mainline", "--no-instructions"]
    paths = []
    for name, cpus in (("a", 2), ("b", 2), ("c", 3)):
        (tmp_path / name).mkdir()
        paths.append(str(recording(tmp_path / name, cpus)))
    assert main([*words, *paths]) == 0
    told = json.loads(capsys.readouterr().out)["domains"]
    unlike = [[note for note in each["notes"] if "cannot be compared" in note] for each in told]
    assert [len(notes) for notes in unlike] == [0, 0, 1]
    assert unlike[2][0].startswith(f"package: CPUs or idle states are not those of {paths[0]}")


def test_a_cpu_that_goes_offline_cuts_off_the_account_which_says_so(tmp_path: Path) -> None:
    (note, *_) = observed.observe(recording(tmp_path, gone=6), "xeon").notes
    assert note.startswith("the figures are of 0.011 of 0.019 s: CPU 1 was idle later, or no more")
    (note, *_) = observed.observe(recording(tmp_path), "xeon").notes
    assert not note.startswith("the figures")


def test_a_tree_that_does_not_fit_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["domains", str(recording(tmp_path)), "--domains", "ecore-modules"]) == 1
    err = capsys.readouterr().err
    assert "state 'MC6' of 'module0' needs 'C6S', but CPU 0 has none: it has POLL, C1, C6" in err
