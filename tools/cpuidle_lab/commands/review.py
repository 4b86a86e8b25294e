# SPDX-License-Identifier: GPL-2.0
"""`cpuidle-lab review`: judge a patch to a governor, or one governor against another."""

import argparse
import json
import re
import shlex
import signal
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cpuidle_lab.base.cache import BUILD
from cpuidle_lab.base.errors import FAILURE, USAGE, UserError, printable
from cpuidle_lab.base.settings import directory

if TYPE_CHECKING:
    from cpuidle_lab.review.job import Review, Subject
    from cpuidle_lab.review.result import ReviewResult

NAME = "review"
HELP = "judge a patch to a governor, or one governor against another, by replay"
EPILOG = """\
examples:
  cpuidle-lab review 0001-cpuidle-teo.patch --base 7.3   a patch, a mailbox, a series in a folder
  cpuidle-lab review 0001-cpuidle-teo.patch              the kernel that it applies to is found
  cpuidle-lab review merged.patch --reverse              what a revert would change
  cpuidle-lab review menu@6.12 menu@7.2                  two governors of any kind
  cpuidle-lab review series/ --each                      patch by patch; -p: without single hunks
  cpuidle-lab review --tree mine=~/linux --commits v7.2..mywork --each
  cpuidle-lab review teo@7.3 teo@mine --tree mine=~/linux
  cpuidle-lab review wteo@HEAD~3 wteo                    a governor of this repository at a commit
  cpuidle-lab review teo@7.3 wteo --budget 30m --on trace.dat
  cpuidle-lab review teo.patch --base 7.3 --lab          both as modules in one boot, with programs
  sudo cpuidle-lab review teo.patch --here 'hackbench -l 20000'
                                                         both as modules of this machine
  cpuidle-lab review x.patch --json | jq '.verdict, .counterexample'

It prints a mail that answers the patch. It writes the mail, an HTML page and cases, which
`cpuidle-lab experiment FILE` plays, into a directory. docs/review.md explains them. Governors are
replayed in a process without network, with limits on memory and time.

exit codes: 0 nothing is worse than the limits, 1 it could not be judged, 2 wrong usage, 3 something
is worse
"""

_UNITS = {"": 1, "s": 1, "m": 60, "h": 3600}


def _seconds(text: str) -> float:
    found = re.fullmatch(r"(\d+(?:\.\d+)?)([smh]?)", text)
    if not found or not (seconds := float(found[1]) * _UNITS[found[2]]):
        raise argparse.ArgumentTypeError(f"'{text}' is no time such as 90s, 5m or 1h")
    return seconds


def _natural(text: str) -> int:
    if not text.isdecimal() or not 0 < int(text) <= 10**9:
        raise argparse.ArgumentTypeError(f"'{text}' is no number from 1 to 10^9")
    return int(text)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's options."""
    add = parser.add_argument
    add("subjects", nargs="*", metavar="PATCH | BEFORE AFTER",
        help="a patch, mailbox or folder; or two governors")  # fmt: skip
    add("--base", metavar="KERNEL", default="",
        help="a series (7.3), or the label of a --tree (default: found)")  # fmt: skip
    add("--reverse", action="store_true", help="take the patch back from a kernel that has it")
    add("--mails", type=directory, metavar="DIR",
        help="a list's mails: take later patches back until the patch applies")  # fmt: skip
    add("--tree", action="append", metavar="LABEL=PATH", default=[], help="a kernel tree")
    add("--commits", metavar="A..B", default="",
        help="commits of the --tree, in place of a patch")  # fmt: skip
    split = parser.add_mutually_exclusive_group()
    split.add_argument("--each", dest="split", action="store_const", const="each", default="",
                       help="judge a series patch by patch")  # fmt: skip
    split.add_argument("-p", dest="split", action="store_const", const="hunks",
                       help="judge a patch without each of its hunks, too")  # fmt: skip
    add("--budget", type=_seconds, metavar="TIME", default=300.0,
        help="time of the whole review (default: 5m)")  # fmt: skip
    add("--limit", metavar="FIGURE=RISE[,...]", default="",
        help="rises that are worse: regret (points), energy, p50, p99 (us); "
        "default: regret=2,p99=0")  # fmt: skip
    add("--on", action="append", type=Path, metavar="TRACE", default=[],
        help="replay a recording, too")  # fmt: skip
    add("--lab", action="store_true",
        help="boot both as modules, too: programs in turns, and the worst cases; its time is "
        "beside the budget")  # fmt: skip
    add("--here", metavar="COMMAND", default="",
        help="load both as modules here, too: COMMAND in turns, as `ab` runs it; needs root; its "
        "time is beside the budget")  # fmt: skip
    add("--seed", type=_natural, metavar="N", default=1, help="of all draws (default: 1)")
    add("--periods", type=_natural, metavar="N", default=0,
        help="idle periods whose decisions are compared (default: 10 million)")  # fmt: skip
    add("-o", "--output", type=Path, metavar="DIR",
        help="where mail, page and cases go (default: build/review/NAME)")  # fmt: skip
    add("--json", action="store_true", help="print the result as JSON, no mail")


def _trees(words: Sequence[str]) -> dict[str, Path]:
    found = {}
    for word in words:
        label, equals, path = word.partition("=")
        if not equals or not label:
            raise UserError(f"--tree: '{word}' is no LABEL=PATH", USAGE)
        found[label] = directory(path)
    return found


def _folder(args: argparse.Namespace) -> Path:
    """Return the directory of the outputs, which need not be there yet."""
    words = [Path(word).name for word in args.subjects] or [args.commits]
    name = re.sub(r"[^\w.@-]+", "-", "-".join(words))
    folder: Path = args.output or BUILD / "review" / name[:100]
    if folder.exists() and not folder.is_dir():
        raise UserError(f"{folder}: is no directory", USAGE)
    return folder


def _subjects(args: argparse.Namespace, folder: Path) -> "list[Subject]":
    from cpuidle_lab.review import job

    trees = _trees(args.tree)
    of_patch = args.base or args.reverse or args.mails
    if len(args.subjects) == 2 and not args.commits:
        if of_patch or args.split:
            raise UserError("--base, --reverse, --mails, --each and -p are for a patch", USAGE)
        before, after = args.subjects
        return [job.of_governors(before, after, trees)]
    if args.commits and (args.subjects or of_patch or len(trees) != 1):
        raise UserError("--commits takes one --tree, and no patch", USAGE)
    if args.commits:
        return job.of_commits(next(iter(trees)), trees, args.commits, folder / "tree", args.split)
    if len(args.subjects) != 1:
        raise UserError("give a patch, two governors, or --tree and --commits", USAGE)
    path = Path(args.subjects[0])
    if not path.exists():
        raise UserError(f"{path}: there is no such patch; a governor needs a second one")
    return job.of_patch(path, args.base, trees, folder / "tree", reverse=args.reverse,
                        mails=args.mails, split=args.split)  # fmt: skip


def _cases(result: "ReviewResult", subject: "Subject", folder: Path, prefix: str) -> None:
    """Write the cases of a result, and note their files."""
    from cpuidle_lab.base.files import headed, write_whole
    from cpuidle_lab.review import cases

    specs: dict[str, tuple[Any, str, str]] = {}
    if spec := result.sweep.get("spec"):
        specs["counterexample"] = spec, "Which decisions differ?", ""
    for kind in ("harm", "gain"):
        for number, one in enumerate(getattr(result, kind), 1):
            aim = one["objective"]
            specs[f"{kind}-{number}"] = one["spec"], f"A search for {kind}, by {aim}.", aim
    for number, rule in enumerate(result.contract, 1):
        if rule.get("case"):
            specs[f"contract-{number}"] = rule["case"], rule["rule"], ""
    if result.died.get("spec"):
        specs["crash"] = result.died["spec"], f"It {result.died['verdict']}.", ""
    for name, (spec, why, aim) in specs.items():
        file = folder / f"{prefix}{name}.yaml"
        title = f"{result.after} against {result.before}: {name}"
        text = cases.case(spec, title, why, subject.words, aim)
        write_whole(file, text, headed(cases.HEAD))
        result.files[name] = str(file)


def _prefix(number: int, subjects: Sequence[Any]) -> str:
    """Return the beginning of the names of a subject's cases."""
    return f"{number}-" if len(subjects) > 1 else ""


def _boot(result: "ReviewResult", subject: "Subject", seed: int, args: argparse.Namespace) -> None:
    """Boot both governors; what fails is named, and the rest of the review stands."""
    from cpuidle_lab.review import booted

    show = _progress(args.json)
    trees = [*subject.trees.items()]
    try:
        result.lab = booted.play_programs(
            (subject.before, subject.after), subject.labels,
            lambda done: show("programs in the lab", done, 0),
        )  # fmt: skip
        for name, file in result.files.items():
            if name.startswith("harm-"):
                result.played[name] = booted.play_case(Path(file), trees)
    except UserError as error:
        result.unreached.append(f"the rest of --lab: {error.message}")


def _here(result: "ReviewResult", subject: "Subject", folder: Path, command: str) -> None:
    """Run a command under both governors on this machine; what fails is named, as for the lab."""
    from cpuidle_lab.base.files import make_folder
    from cpuidle_lab.base.waiting import InterruptedSession, Terminated
    from cpuidle_lab.review import here

    make_folder(folder)
    show = _progress(not sys.stderr.isatty())
    try:
        result.here = here.play((subject.before, subject.after), subject.labels, command, folder,
                                lambda text: show(text, 0, 0))  # fmt: skip
    except UserError as error:
        result.unreached.append(f"the rest of --here: {error.message}")
    except InterruptedSession as interruption:
        ended = Terminated() if interruption.number == signal.SIGTERM else KeyboardInterrupt()
        raise ended from interruption


def _output(reviews: "Sequence[tuple[Subject, Review]]", args: argparse.Namespace, folder: Path,
            command: str) -> int:  # fmt: skip
    """Write and print the results; return the exit code."""
    from cpuidle_lab.base.files import make_folder, marked, write_whole
    from cpuidle_lab.review import mail, page

    make_folder(folder)
    results = [review.result for _, review in reviews]
    subjects = [subject for subject, _ in reviews]
    for number, (subject, review) in enumerate(reviews, 1):
        _cases(review.result, subject, folder, _prefix(number, subjects))
    text = mail.text_of(results, command)
    write_whole(folder / "mail.txt", text, marked(mail.MARK))
    title = " ".join(Path(word).name for word in args.subjects) or args.commits
    write_whole(folder / "review.html", page.page(results, title), marked(page.GENERATOR))
    if args.json:
        told = [result.as_json() for result in results]
        print(json.dumps(told[0] if len(told) == 1 else _joined(told), indent=2))
    else:
        print(text, end="")
        print(printable(f"written: {folder}"), file=sys.stderr)
    return max((result.exit_code for result in results), default=FAILURE)


def _joined(told: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return the results of several governors, the worst verdict in front."""
    order = ("worse", "mixed", "not judged", "better", "same")
    verdict = min((one["verdict"] for one in told), key=order.index)
    return {"verdict": verdict, "same": all(one["same"] for one in told), "governors": told}


def _progress(quiet: bool) -> "Callable[[str, float, float], None]":
    """Return what shows part and time on a terminal."""
    if quiet or not sys.stderr.isatty():
        return lambda *_: None

    def show(part: str, done: float, left_s: float) -> None:
        left = f", at most {left_s:.0f} s left" if left_s else ""
        print(f"\r{part}: {100 * done:3.0f} %{left}\x1b[K", end="", file=sys.stderr, flush=True)

    return show


def run(args: argparse.Namespace) -> int:
    """Review, print and write."""
    # Here, so that the other commands need not load what only this one needs.
    from cpuidle_lab.review import booted, job
    from cpuidle_lab.review.result import DEFAULT_LIMITS, limits_of

    command = shlex.join(["cpuidle-lab", *sys.argv[1:]])
    folder = _folder(args)
    subjects = _subjects(args, folder)
    wish = job.Wish(args.budget / len(subjects), args.seed, args.periods or job.PERIODS,
                    limits_of(args.limit or DEFAULT_LIMITS), args.on, command,
                    args.reverse)  # fmt: skip
    if args.lab:
        for subject in subjects:
            booted.check((subject.before, subject.after), subject.labels)
    if args.here:
        from cpuidle_lab.review import here

        for subject in subjects:
            here.examine((subject.before, subject.after), subject.labels)
    reviews: list[tuple[Subject, Review]] = []
    interrupted = 0
    for subject in subjects:
        review = job.Review(subject, wish, _progress(args.json))
        reviews.append((subject, review))
        try:
            review.run()
            if args.lab and not review.result.died:
                _cases(review.result, subject, folder, _prefix(len(reviews), subjects))
                _boot(review.result, subject, wish.seed, args)
            if args.here and not review.result.died:
                _here(review.result, subject, folder, args.here)
        except UserError as error:
            if not subject.column:
                raise
            review.result.unreached.append(f"{subject.labels[1]}: {error.message}")
        except KeyboardInterrupt as error:
            review.result.unreached.append("interrupted: the rest")
            interrupted = 128 + getattr(error, "number", signal.SIGINT)
            break
    code = _output(reviews, args, folder, command)
    return interrupted or code
