# SPDX-License-Identifier: GPL-2.0
"""Trees of domains as the emulated machine takes them."""

from dataclasses import replace

import pytest

from cpuidle_lab.base.errors import UserError
from cpuidle_lab.lab.session import PhasePlan, Session
from cpuidle_lab.lab.trees import emulated_domains, emulated_rules
from cpuidle_lab.states import domain_files
from cpuidle_lab.states.domains import Rule


def rule() -> Rule:
    """Return the package of a Xeon."""
    return domain_files.read("xeon")[0][0]


def test_a_tree_becomes_the_parameter() -> None:
    assert emulated_domains("xeon") == (
        "domains=package@all:60000:hardware/PC6:50:100:1000:25000:C6P~C6"
    )
    assert emulated_domains("ecore-modules") == (
        "domains=module@every4:1200:hardware/MC6:10:20:700:400:C6S/MC6P:10:25:900:350:C6SP"
        "+package@all:60000:hardware/PC6:50:40:1000:25000:MC6P"
    )
    assert ":demotes/" in emulated_domains("client")
    assert emulated_rules([replace(rule(), decides="kernel")], "own").count(":kernel/") == 1


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"name": "a b"}, "own cannot be emulated: 'a b' has more than 8 states, or a name"),
        ({"power_uw": 1500}, "own cannot be emulated: package: its power is not in whole mW"),
        ({"states": rule().states * 9}, "own cannot be emulated: 'package' has more than 8 states"),
    ],
)
def test_a_domain_that_the_emulator_cannot_have_is_refused(
    change: dict[str, object], sentence: str
) -> None:
    with pytest.raises(UserError, match=sentence):
        emulated_rules([replace(rule(), **change)], "own")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"name": "P:C6"}, "P:C6: its name is not 1 to 15 letters"),
        ({"needs": ("C6+",)}, "PC6: it needs a state of another kind of name"),
        ({"exit_latency_ns": 1500}, "PC6: the emulator counts whole us"),
        ({"entry_latency_ns": 10**9}, "PC6: its latencies are above 100000 us"),
        ({"target_residency_ns": 10**11}, "PC6: its target residency is above 10000000 us"),
        ({"power_uw": 1}, "PC6: its power is not in whole mW"),
    ],
)
def test_a_state_that_the_emulator_cannot_have_is_refused(
    change: dict[str, object], sentence: str
) -> None:
    state = replace(rule().states[0], **change)  # type: ignore[arg-type]
    with pytest.raises(UserError, match=sentence.replace("+", r"\+")):
        emulated_rules([replace(rule(), states=(state,))], "own")


def test_a_tree_that_is_too_long_for_the_kernel_is_refused() -> None:
    with pytest.raises(UserError, match="its domains take more than 1024 characters"):
        emulated_rules([replace(rule(), name=f"p{n}") for n in range(30)], "own")


# Before the phases of each trace, on the CPU that the reader begins with.
def test_a_session_writes_its_domains_into_each_trace() -> None:
    plan = PhasePlan("menu", "idle", "sleep 1")
    told = emulated_domains("xeon")
    script = Session("spr", [plan], stock=[plan], domains=told).script().splitlines()
    lines = [at for at, line in enumerate(script) if line.startswith("mark 'domains package@all:")]
    starts = [
        at for at, line in enumerate(script) if line.startswith(("trace_start", "mark 'stock"))
    ]
    begins = [at for at, line in enumerate(script) if line.startswith("afresh")]
    assert len(lines) == 2 and starts[0] < lines[0] < begins[0] < starts[1] < lines[1] < begins[1]
    assert [script[at - 1] for at in lines] == ["taskset -cp 0 $$ >/dev/null"] * 2
    assert "domains" not in Session("spr", [plan], stock=[plan]).script()
