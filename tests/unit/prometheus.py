# SPDX-License-Identifier: GPL-2.0
"""A real Prometheus, and a real node_exporter whose textfile collector reads a directory.

Both are Debian 13's, unpacked below build/cache and never installed: a service that listens is
nothing to start on a developer's machine. They listen on 127.0.0.1 and end with the block.
"""

import contextlib
import json
import re
import socket
import subprocess
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from typing import Any

from cpuidle_lab.base import apt
from cpuidle_lab.base.cache import CACHE, cached, run_logged
from cpuidle_lab.lab import images

PACKAGES = ("prometheus", "prometheus-node-exporter")
DASHBOARD = Path(__file__).parents[2] / "docs" / "grafana.json"

# Scrapes are a second apart; a rate needs some of them.
RATE_INTERVAL = "5s"


def programs() -> Path:
    """Return the directory of the programs.

    Raises:
        UserError: they cannot be fetched.
    """

    def build(target: Path) -> None:
        suite = images.RUNTIME_RELEASE
        cache = images.apt_root(suite)
        for deb in apt.download(PACKAGES, suite, target / "debs", cache_dir=cache, say=print):
            run_logged(["dpkg-deb", "-x", deb, target], CACHE / "prometheus.log", "unpacking")

    return cached("prometheus", PACKAGES, "Getting Prometheus", build) / "usr/bin"


@dataclass(frozen=True)
class Server:
    """A Prometheus that runs.

    Attributes:
        url: where it listens.
        textfiles: the directory that the textfile collector reads.
    """

    url: str
    textfiles: Path

    def ask(self, what: str, **query: str) -> Any:
        """Return the data of an answer.

        Raises:
            OSError: Prometheus has not begun.
            ValueError: Prometheus refuses the query.
        """
        address = f"{self.url}/api/v1/{what}?{urllib.parse.urlencode(query)}"
        try:
            with urllib.request.urlopen(address, timeout=10) as answer:
                return json.load(answer)["data"]
        except urllib.error.HTTPError as error:
            if error.code == HTTPStatus.SERVICE_UNAVAILABLE:
                raise
            raise ValueError(json.load(error)["error"]) from error

    def values(
        self, expression: str, at_s: float | None = None
    ) -> list[tuple[dict[str, str], float]]:
        """Return labels and value of each series that an expression has at a time, or now."""
        moment = {} if at_s is None else {"time": str(at_s)}
        found = self.ask("query", query=expression, **moment)["result"]
        return [(item["metric"], float(item["value"][1])) for item in found]


def free_port() -> int:
    """Return a port of 127.0.0.1 that nothing listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextlib.contextmanager
def serving(folder: Path) -> Iterator[Server]:
    """Run both programs with all of their files below a folder."""
    exporter, server = f"127.0.0.1:{free_port()}", f"127.0.0.1:{free_port()}"
    textfiles = folder / "textfiles"
    textfiles.mkdir()
    settings = folder / "prometheus.yml"
    job = {"job_name": "node", "static_configs": [{"targets": [exporter]}]}
    interval = {"scrape_interval": "1s", "evaluation_interval": "1s"}
    settings.write_text(json.dumps({"global": interval, "scrape_configs": [job]}))
    commands: list[list[str | Path]] = [
        [
            programs() / "prometheus-node-exporter", "--collector.disable-defaults",
            "--collector.textfile", f"--collector.textfile.directory={textfiles}",
            f"--web.listen-address={exporter}",
        ],
        [
            programs() / "prometheus", f"--config.file={settings}",
            f"--storage.tsdb.path={folder / 'data'}", f"--web.listen-address={server}",
        ],
    ]  # fmt: skip
    with contextlib.ExitStack() as stack:
        for command in commands:
            log = stack.enter_context((folder / f"{Path(command[0]).name}.log").open("w"))
            process = stack.enter_context(subprocess.Popen(command, stderr=log, stdout=log))
            stack.callback(process.terminate)
        yield Server(f"http://{server}", textfiles)


def until(told: Any, seconds: float = 30) -> None:
    """Wait until a function returns something true.

    Raises:
        TimeoutError: it did not.
    """
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        with contextlib.suppress(OSError):
            if told():
                return
        time.sleep(0.1)
    raise TimeoutError(f"nothing came within {seconds:g} s")


def panels() -> list[dict[str, Any]]:
    """Return the panels of the dashboard."""
    found: list[dict[str, Any]] = json.loads(DASHBOARD.read_text())["panels"]
    return found


def expression(text: str) -> str:
    """Return an expression of the dashboard with values for its variables, as Grafana puts them."""
    filled = text.replace("$__rate_interval", RATE_INTERVAL).replace("$instance", ".+")
    assert not re.search(r"\$\w", filled), filled
    return filled
