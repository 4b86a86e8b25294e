# SPDX-License-Identifier: GPL-2.0
"""Small Debian roots, made as tarballs, and unpacked only in memory."""

from pathlib import Path

from cpuidle_lab.base import apt
from cpuidle_lab.base.cache import CACHE, namespace, run_logged

# Sourced by scripts that build in a Debian of its own.
ROOT_SCRIPT = Path(__file__).parent / "root.sh"


def bootstrap(
    suites: list[str],
    packages: list[str],
    variant: str,
    target: Path,
    architecture: str = "amd64",
) -> None:
    """Make a Debian root as a tarball.

    It is made beside the tarball, in a namespace: what is mounted in it goes with the last process.

    Args:
        suites: the release that it starts from, then further ones for `packages`.
        packages: what to install beyond the variant's own.
        variant: of mmdebstrap.
        target: the tarball to write.
        architecture: Debian's name of one; nothing of another than the machine's own can run.
    """
    command: list[str | Path] = [
        *namespace(),
        "env",
        f"TMPDIR={target.parent}",
        "ZSTD_CLEVEL=1",
        "mmdebstrap",
        "--mode=root",
        f"--variant={variant}",
        f"--include={','.join(packages)}",
        f"--architectures={architecture}",
        "--aptopt=Acquire::Languages none",
        "--aptopt=Acquire::Retries 3",
        "--aptopt=APT::Install-Recommends false",
        "--dpkgopt=path-exclude=/usr/share/doc/*",
        "--dpkgopt=path-exclude=/usr/share/locale/*",
        "--dpkgopt=path-exclude=/usr/share/man/*",
        "--dpkgopt=path-exclude=/usr/lib/modules/*/kernel/*",
        suites[0],
        target,
        *(f"deb [signed-by={apt.KEYRING}] {apt.mirror()} {suite} main" for suite in suites),
    ]
    run_logged(command, CACHE / "mmdebstrap.log", f"making a Debian {suites[0]}")
