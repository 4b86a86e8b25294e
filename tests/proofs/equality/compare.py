# SPDX-License-Identifier: GPL-2.0
"""Runs the comparison and reads what it found."""

import subprocess
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

from cpuidle_lab.base.errors import UserError


@dataclass
class Verdict:
    """Result for the policies that were compared with one governor of the kernel.

    Attributes:
        mainline: that governor.
        seed: of the stream of idle periods.
        periods: idle periods asked for.
        identical: policy to number of idle periods with the same answer.
        counts: "POLICY REASON" or "stream KIND" to how often it occurred.
        different: policy that gave another answer, or empty.
        at: number of the idle period where it did.
        text: everything about that idle period, for people.
    """

    mainline: str
    seed: int
    periods: int
    identical: dict[str, int] = field(default_factory=dict)
    counts: dict[str, int] = field(default_factory=dict)
    different: str = ""
    at: int = -1
    text: str = ""

    def as_dict(self) -> dict[str, object]:
        """Return it for JSON."""
        return asdict(self)


class Comparison:
    """A running comparison: several may run at the same time.

    Args:
        program: as built.
        mainline: the kernel's governor.
        claims: policies, each perhaps with ":TUNABLE=VALUE".
        seed: of the stream.
        periods: number of idle periods.
    """

    def __init__(
        self, program: Path, mainline: str, claims: Sequence[str], seed: int, periods: int
    ) -> None:
        self.verdict = Verdict(mainline, seed, periods)
        self.process = subprocess.Popen(
            [program, mainline, str(seed), str(periods), *claims],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def __enter__(self) -> "Comparison":
        return self

    def __exit__(self, *_: object) -> None:
        """End it, whether or not it has reached a verdict."""
        self.process.kill()
        self.process.communicate()

    def result(self) -> Verdict:
        """Wait for the end and return the verdict.

        Raises:
            UserError: the program did not reach a verdict.
        """
        out, err = self.process.communicate()
        if self.process.returncode not in (0, 1):
            raise UserError(f"the comparison with {self.verdict.mainline} broke:\n{err.strip()}")
        verdict = self.verdict
        lines = out.splitlines()
        for number, line in enumerate(lines):
            words = line.split()
            if words[0] == "identical":
                verdict.identical[words[1]] = int(words[2])
            elif words[0] == "count":
                verdict.counts[f"{words[1]} {words[2]}"] = int(words[3])
            elif words[0] == "different":
                verdict.different, verdict.at = words[1], int(words[2])
                verdict.text = "\n".join(lines[number + 1 :])
                break
        if not verdict.identical and not verdict.different:
            raise UserError(f"the comparison with {verdict.mainline} broke:\n{err.strip()}")
        return verdict
