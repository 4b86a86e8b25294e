#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Write each interval's modelled cost, of each governor replayed on its own recordings.

The table, in Parquet: recording, workload, governor, cpu, seq (of the interval's first decision),
cost_pj, rounded.
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "tools"))

import numpy as np
import polars as pl

from cpuidle_lab.crossval import own
from cpuidle_lab.crossval.parts import Part, parts
from cpuidle_lab.recording import columns


def costs(part: Part) -> pl.DataFrame:
    """Return the table of one phase."""
    choices = own.play(part, part, restore=True, choices=True).choices
    each = [
        pl.DataFrame(
            {
                "cpu": cpu,
                "seq": part.kept[cpu][0]["first_seq"],
                "cost_pj": np.rint(choices[cpu]["cost_pj"]).astype(np.int64),
            }
        )
        for cpu in part.cpus
    ]
    return pl.concat(each).with_columns(
        recording=pl.lit(part.path.name),
        workload=pl.lit(part.workload),
        governor=pl.lit(part.recorder.label),
    )


def main() -> None:
    """Write the table of all recordings: costs.py FILE TRACE..."""
    target, *traces = map(Path, sys.argv[1:])
    found = []
    for path in traces:
        with columns.opened(path) as recording:
            found += [costs(part) for part in parts(recording, path)]
    pl.concat(found).write_parquet(target)


if __name__ == "__main__":
    main()
