# SPDX-License-Identifier: GPL-2.0
"""A storm counts an attack as done only if a request of the other user's changed something."""

import subprocess
from pathlib import Path

import pytest

from tests.campaigns.storm.operations import ATTACKS

GUEST = Path(__file__).with_name("guest.sh").read_text()
FUNCTIONS = GUEST[GUEST.index("# op_attack ") : GUEST.index("op_latnice()")]

# Programs of the guest. As other users they are answered as they are told; root is obeyed.
PROGRAMS = """
answer() { echo $answer; [ $answer = ok ]; }
hint() {
    case "$*" in
    *as\\ storm*) exec sleep 60 >/dev/null 2>&1 ;;
    "100"[0-9]\\ as\\ sh*) shift 4; answer ;;
    *repeat*) echo ok ;;
    "100"[0-9]\\ as*) answer ;;
    *\\ run\\ *) [ $answer = ok ] ;;
    *) echo ok ;;
    esac
}
usleep() { :; }
chown() { :; }
rmdir() { :; }
mkdir() { :; }
groups=/nowhere
"""


@pytest.mark.parametrize("value", ["5", "none"])
@pytest.mark.parametrize("kind", ATTACKS)
@pytest.mark.parametrize("answer", ["ok", "EACCES"])
def test_an_attack_that_changed_nothing_has_failed(kind: str, answer: str, value: str) -> None:
    script = f"answer={answer}\n{PROGRAMS}\n{FUNCTIONS}\nop_attack {kind} 1 {value}"
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=False)
    assert (done.returncode == 0) == (answer == "ok"), done.stdout + done.stderr
