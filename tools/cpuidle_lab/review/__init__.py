# SPDX-License-Identifier: GPL-2.0
"""Two governors judged against each other, or one before and after a patch: docs/review.md.

patch.py applies a patch, stream.py makes intervals, play.py replays them, sweep.py looks for
decisions that differ, contract.py for answers that no governor may give. effect.py measures,
hunt.py searches space.py, shrink.py makes a witness small. worker.py runs these in a process of its
own, since a patch is foreign code; confined.py is the other end of it. job.py has the order,
result.py the verdict, mail.py and page.py its forms.
"""
