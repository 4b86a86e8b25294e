# SPDX-License-Identifier: GPL-2.0
"""Small changes to the kernel's governors. The comparison is worth something if it sees each."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from cpuidle_lab.base.errors import UserError
from tests.proofs.equality.compare import Comparison, Verdict
from tests.proofs.equality.harness import Build


@dataclass(frozen=True)
class Mutant:
    """One change.

    Attributes:
        governor: of the kernel: teo or menu.
        old: text that occurs once in its source.
        new: what takes its place.
    """

    governor: str
    old: str
    new: str

    @property
    def name(self) -> str:
        """One line for people."""
        return f"{self.governor}: {' '.join(self.old.split())} -> {' '.join(self.new.split())}"

    def apply(self, source: str) -> str:
        """Return the changed source.

        Raises:
            UserError: the text to change is not there, or not once.
        """
        if source.count(self.old) != 1:
            raise UserError(f"does not apply, {source.count(self.old)} matches: {self.name}")
        return source.replace(self.old, self.new)


MUTANTS = (
    Mutant("teo", "#define DECAY_SHIFT\t3", "#define DECAY_SHIFT\t2"),
    Mutant("teo", "#define PULSE\t\t1024", "#define PULSE\t\t1000"),
    Mutant("teo", "RESIDENCY_THRESHOLD_NS / 2)", "RESIDENCY_THRESHOLD_NS / 3)"),
    Mutant("teo", "measured_ns -= lat_ns / 2;", "measured_ns -= lat_ns;"),
    Mutant("teo", "if (measured_ns >= lat_ns)", "if (measured_ns > lat_ns)"),
    Mutant("teo", "if (measured_ns < RESIDENCY", "if (measured_ns <= RESIDENCY"),
    Mutant("teo", "measured_ns /= 2;", ";"),
    Mutant("teo", "measured_ns = S64_MAX;", "measured_ns = TICK_NSEC;"),
    Mutant("teo", "_ns <= cpu_data->sleep_length_ns)", "_ns < cpu_data->sleep_length_ns)"),
    Mutant("teo", "<= measured_ns)", "< measured_ns)"),
    Mutant("teo", "cpu_data->total = total + PULSE;", "cpu_data->total = total;"),
    Mutant("teo", "teo_decay(&cpu_data->total_tick);", ";"),
    Mutant("teo", "if (3 * cpu_data->total_tick", "if (2 * cpu_data->total_tick"),
    Mutant("teo", "state_bins[drv->state_count-1].hits", "state_bins[idx_timer].hits"),
    Mutant("teo", "3 * cpu_data->tick_intercepts < 2 * total", "cpu_data->tick_intercepts < total"),
    Mutant("teo", "measured_ns < lat_ns / 2)", "measured_ns <= lat_ns / 2)"),
    Mutant("teo", "if (measured_ns <= TICK_NSEC)", "if (measured_ns < TICK_NSEC)"),
    Mutant("teo", "cpu_data->sleep_length_ns = KTIME_MAX;", ";"),
    Mutant("teo", "prev_intercepts >= intercept_max", "prev_intercepts > intercept_max"),
    Mutant("teo", "idx0 = i; /*", "idx0 = 0; /*"),
    Mutant("teo", "exit_latency_ns <= latency_req", "exit_latency_ns < latency_req"),
    Mutant("teo", "idx = 0; /* No", "idx = 1; /* No"),
    Mutant("teo", "if (2 * idx_intercept_sum >", "if (2 * idx_intercept_sum >="),
    Mutant("teo", "i <= intercept_max_idx", "i < intercept_max_idx"),
    Mutant("teo", "2 * cpu_data->short_idles >=", "2 * cpu_data->short_idles >"),
    Mutant("teo", "latency_req < LATENCY", "latency_req <= LATENCY"),
    Mutant("teo", "> SAFE_TIMER_RANGE_NS", ">= SAFE_TIMER_RANGE_NS"),
    Mutant("teo", "for (i = constraint_idx; i > idx;", "for (i = drv->state_count - 1; i > idx;"),
    Mutant("teo", "if (!idx)\n\t\tgoto out_tick;", ""),
    Mutant("teo", "duration_ns = TICK_NSEC / 2;", ";"),
    Mutant("teo", "cpu_data->tick_wakeup = tick_nohz_idle_got_tick();", ";"),
    Mutant("teo", "memset(cpu_data, 0, sizeof(*cpu_data));", ";"),
    Mutant("menu", "#define INTERVAL_SHIFT 3", "#define INTERVAL_SHIFT 2"),
    Mutant("menu", "#define RESOLUTION 1024", "#define RESOLUTION 1000"),
    Mutant("menu", "#define DECAY 8", "#define DECAY 7"),
    Mutant("menu", "duration_ns < 100ULL *", "duration_ns <= 100ULL *"),
    Mutant("menu", "duration_ns < 100000ULL *", "duration_ns <= 100000ULL *"),
    Mutant("menu", "avg_sq > variance * 36", "avg_sq > variance * 37"),
    Mutant("menu", "divisor * 4 >= INTERVALS * 3", "divisor * 4 > INTERVALS * 3"),
    Mutant("menu", "variance <= 400)\n", "variance < 400)\n"),
    Mutant("menu", "divisor * 4 <= INTERVALS * 3", "divisor * 4 < INTERVALS * 3"),
    Mutant("menu", "avg - min > max - avg", "avg - min >= max - avg"),
    Mutant("menu", "menu_update_intervals(data, UINT_MAX);", ";"),
    Mutant("menu", "predicted_ns > RESIDENCY_THRESHOLD", "predicted_ns >= RESIDENCY_THRESHOLD"),
    Mutant("menu", "if (unlikely(delta < 0))", "if (delta < -1000)"),
    Mutant("menu", "(RESOLUTION * DECAY * NSEC_PER_USEC) / 2 +", ""),
    Mutant("menu", "> SAFE_TIMER_RANGE_NS", ">= SAFE_TIMER_RANGE_NS"),
    Mutant("menu", "data->bucket = BUCKETS - 1;", "data->bucket = 0;"),
    Mutant("menu", "if (latency_req == 0 ||", "if ("),
    Mutant("menu", "latency_req < drv->states[1]", "latency_req <= drv->states[1]"),
    Mutant("menu", "s->exit_latency_ns > latency_req", "s->exit_latency_ns >= latency_req"),
    Mutant("menu", "target_residency_ns < RESIDENCY", "target_residency_ns <= RESIDENCY"),
    Mutant("menu", "s->exit_latency_ns <= predicted", "s->exit_latency_ns < predicted"),
    Mutant("menu", "s->target_residency_ns <= delta_tick", "s->target_residency_ns < delta_tick"),
    Mutant("menu", "data->next_timer_ns > TICK_NSEC", "data->next_timer_ns >= TICK_NSEC"),
    Mutant("menu", "9 * MAX_INTERESTING / 10", "MAX_INTERESTING"),
    Mutant("menu", "measured_ns /= 2;", ";"),
    Mutant("menu", "measured_ns < MAX_INTERESTING", "measured_ns <= MAX_INTERESTING"),
    Mutant("menu", "data->tick_wakeup = tick_nohz_idle_got_tick();", ";"),
    Mutant("menu", "memset(data, 0, sizeof(struct menu_device));", ";"),
)


def run_mutants(
    build: Build, sources: dict[str, Path], claims: dict[str, str], seed: int, periods: int
) -> Iterator[tuple[Mutant, Verdict]]:
    """Compare each mutant with a policy that equals the original.

    Args:
        build: with everything but the kernel's governors compiled.
        sources: governor of the kernel to its source.
        claims: governor of the kernel to the policy.
        seed: of the stream.
        periods: idle periods to find the difference in.

    Yields:
        The mutant, and the verdict: its `different` is empty if no stream noticed.

    Raises:
        UserError: a change does not apply or does not compile.
    """
    texts = {name: path.read_text(encoding="utf-8") for name, path in sources.items()}
    mutants = [(m, m.apply(texts[m.governor])) for m in MUTANTS if m.governor in claims]
    for number, (mutant, text) in enumerate(mutants):
        # gov.h must be found beside it.
        folder = build.folder / f"mutant-{number}"
        folder.mkdir()
        source = folder / f"{mutant.governor}.c"
        source.write_text(text, encoding="utf-8")
        header = sources[mutant.governor].with_name("gov.h")
        if header.is_file():
            (folder / "gov.h").write_text(header.read_text(encoding="utf-8"), encoding="utf-8")
        program = build.link([build.mainline(source)], f"mutant-{number}/compare")
        claim = [claims[mutant.governor]]
        with Comparison(program, mutant.governor, claim, seed, periods) as comparison:
            yield mutant, comparison.result()
