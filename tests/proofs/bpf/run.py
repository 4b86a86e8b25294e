# SPDX-License-Identifier: GPL-2.0
"""A governor decides in BPF as it does natively, and no program harms the kernel.

In a kernel, beside each other on random and adversarial idle periods: index, stop_tick, row,
reason, the question for the timer, and the whole state. In the idle loop, with the native twin as a
shadow. Then hostile programs, a loader that is killed, and the query for schedulers.
"""

import argparse
import json
import re
import shlex
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from cpuidle_lab.base.cache import TOP
from cpuidle_lab.bpf import build
from cpuidle_lab.lab import LabResult, LabRun, run_lab
from experiments import proofs
from tests.lab.extra import extra_module
from tests.lab.hints_guest import program

HERE = Path(__file__).parent
HOSTILE = HERE / "hostile"
# A slow init is so long at least; no other part of a select comes near, nor a pause of the guest.
INIT_MS = 100
EXAMPLES = {
    "": "a million idle periods for each governor",
    "--periods 20000 --rounds 1": "the short form",
    "--kernel 7.2 --cpus 4": "",
    "--kernel rt": "a kernel of the storms",
    "--virtual --periods 20000": "counts instructions: a nanosecond of virtual time each",
}


def prover() -> dict[str, str]:
    """Return the files that the proof adds to the module's sources."""
    stream = TOP / "tests/proofs/equality"
    header = (stream / "stream.h").read_text()
    return extra_module(HERE / "foreign.c") | {
        "module/bpf/prove.c": (HERE / "prove.c").read_text(),
        "module/bpf/stream.c": (stream / "stream.c").read_text(),
        "module/bpf/stream.h": header.replace("../../../governors", "../../governors"),
    }


def objects(cpus: int, hostiles: Sequence[Path]) -> tuple[dict[str, bytes], dict[str, float]]:
    """Return the files of the guest, and the seconds that each governor's build took."""
    took: dict[str, float] = {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        made = [build.build(source, cpus, folder) for source in hostiles]
        for governor in build.known():
            began = time.monotonic()
            made.append(build.build(build.source_of(governor), cpus, folder))
            took[governor] = time.monotonic() - began
        files = build.guest_files(made)
        asking = ("query", "scheduler")
        files |= {f"lab/{name}.bpf.o": build.plain(HERE / f"{name}.bpf.c") for name in asking}
        wrong = build.build(HERE / "wrong.bpf.c", cpus, folder)
        files["lab/bpf/wrong.bpf.o"] = wrong.path.read_bytes()
    return files | {"lab/bin/hint": program("hint")}, took


def boot(args: argparse.Namespace) -> tuple[LabResult, dict[str, float]]:
    """Build all programs, run the guest's script; also return the seconds of the builds."""
    hostiles = sorted(HOSTILE.glob("*.bpf.c"))
    files, took = objects(max(args.cpus, build.GUEST_CPUS), hostiles)
    named = {
        "governors": " ".join(build.known()),
        "hostiles": " ".join(path.name.removesuffix(".bpf.c") for path in hostiles),
        "periods": str(args.periods),
        "seed": str(args.seed),
        "rounds": str(args.rounds),
        "counted": "yes" if args.virtual else "no",
    }
    head = "\n".join(f"{key}={shlex.quote(value)}" for key, value in named.items())
    plan = LabRun(
        script=f"{head}\n{(HERE / 'guest.sh').read_text()}",
        kernel=args.kernel,
        cpus=args.cpus,
        files=files,
        memory_mib=build.GUEST_MIB,
        real_time=not args.virtual,
        time_limit_s=args.time_limit,
        changes=prover(),
    )
    title = f"Comparing programs in BPF with native governors on {args.kernel}"
    with tempfile.TemporaryDirectory() as name:
        return run_lab(plan, args.output or Path(name) / "lab", title), took


def edits(output: str, took: dict[str, float]) -> dict[str, dict[str, float]]:
    """Return the seconds from an edit to the live governor: here to build, there to replace."""
    replaced = re.findall(r"ok replaced seconds=([\d.]+)", parts(output).get("replace", ""))
    seconds = zip(build.known(), map(float, replaced), strict=False)
    return {
        name: {"build_s": round(took[name], 2), "replace_s": round(each, 2)}
        for name, each in seconds
    }


def parts(output: str) -> dict[str, str]:
    """Return what the guest printed, by the heading above it."""
    found = re.split(r"^== (.*)$", output, flags=re.MULTILINE)
    return dict(zip(found[1::2], found[2::2], strict=True))


def faults(result: LabResult, counted: bool) -> list[str]:
    """Return what is not as it must be, a sentence each.

    Args:
        result: of the guest.
        counted: in virtual time, where the guest compares and counts, no more.
    """
    said = parts(result.output)
    found = [] if result.status == 0 else ["the script failed"]
    found += [f"the kernel complains: {line}" for line in result.complaints() if "BUG" in line
              or "WARNING" in line or "Call Trace" in line]  # fmt: skip
    for name in build.known():
        found += _compared(name, said.get(f"compare {name}", ""))
        found += [] if counted else _lived(name, said.get(f"live {name}", ""))
    if " differ=0 " in said.get("compare wrong", " differ=0 "):
        found.append("the fault of wrong.bpf.c was not found")
    found += [] if counted else _paused(said.get("hostile init", ""))
    for heading, expected in () if counted else EXPECTED.items():
        text = said.get(heading, "")
        if text.startswith("\nskipped: "):
            continue
        found += [f"{heading}: no '{words}'" for words in expected if words not in text]
    return found


def _compared(name: str, text: str) -> list[str]:
    numbers = dict(re.findall(r"(\w+)=(\d+)", text))
    if not int(numbers.get("periods", "0")):
        return [f"{name} was not compared"]
    wrong = int(numbers["differ"]) + int(numbers["states_differ"])
    return [f"{name} differs: {text.strip()}"] if wrong else []


def _paused(text: str) -> list[str]:
    """Judge the idle loop while init runs, which takes a quarter of a second on any host."""
    longest = re.search(r"^longest select: (\d+) ms$", text, re.MULTILINE)
    if not longest:
        return ["no select was timed during a slow init"]
    ms = int(longest[1])
    return [f"a select took {ms} ms during a slow init"] if ms >= INIT_MS else []


def _lived(name: str, text: str) -> list[str]:
    rows = re.findall(rf"^\d+ (?:{name}|bpf) shadow (\d+) (\d+) 0 0 ", text, re.MULTILINE)
    if len(rows) < 2 or sum(int(row[0]) for row in rows) < 100:
        return [f"{name} hardly decided as a shadow"]
    counts = dict(re.findall(r"^(\w+)=(\d+)$", text, re.MULTILINE))
    return [] if int(counts.get("decisions", "0")) else [f"{name} decided nothing"]


EXPECTED = {
    "hostile loops": ["ok attached", "state=taken off: its loops took more turns"],
    "hostile slow": ["ok attached", "state=taken off: its calls took more than 10 ms"],
    # Linux 7 reports each access astray, which may take so long that the program is taken off.
    "hostile astray": ["ok attached", "name=astray"],
    "hostile pointer": ["error the verifier refuses", "scalar' (pointer.bpf.c:"],
    "hostile clock": ["error the verifier refuses", "helper bpf_ktime_get_ns", "(clock.bpf.c:"],
    "hostile kernel": ["error the module refuses the program: a program may call the kfuncs"],
    "hostile foreign": ["error the module refuses the program: a program may call the kfuncs"],
    "hostile init": ["ok attached", "state=attached"],
    "hostile scheduler": ["ok attached", "state=attached"],
    "hostile version": ["error the module refuses the program: version is refused: it was built"],
    "hostile members": ["error the module refuses the program: members is refused: init, select"],
    "twice": ["ok attached", "Device or resource busy", "in use"],
    "loader killed": ["ok replaced", "name=teo_ng", "detached, bpf goes on"],
    "not root": ["Operation not permitted"],
    "replace": ["ok replaced"],
    "query": ["own ok returned=0 .", "end_is_known ok returned=", "nonsense ok returned=-22",
              "menu ok returned=-19"],
    "scheduler": ["ok "],
    "storm": ["module removed"],
}  # fmt: skip


def add_options(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    proofs.shared(parser, seed=1, kernel="6.12", cpus=2, time_limit=1800, output=None, json=False)
    add = parser.add_argument
    add("--periods", type=int, default=1_000_000, metavar="N",
        help="for each governor (default: %(default)s)")  # fmt: skip
    add("--rounds", type=int, default=10, help="of the storm (default: %(default)s)")
    add("--virtual", action="store_true",
        help="compare alone, in virtual time, where a ns is an instruction")  # fmt: skip


def run(args: argparse.Namespace) -> int:
    """Boot, compare, report; return the exit code."""
    result, took = boot(args)
    found, live = faults(result, args.virtual), edits(result.output, took)
    if args.json:
        said = parts(result.output)
        about = {"kernel": result.kernel_version, "faults": found, "edit": live, "said": said}
        print(json.dumps(about, indent=2))
    else:
        print(result.output)
        for name, seconds in live.items():
            print(f"{name}: built in {seconds['build_s']} s, replaced in {seconds['replace_s']} s")
        print("\n".join(found) or "nothing differs")
    return 1 if found else 0
