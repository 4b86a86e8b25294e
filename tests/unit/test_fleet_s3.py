# SPDX-License-Identifier: GPL-2.0
"""Recordings of a fleet in a bucket of S3, whose server is on the loopback address."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from cpuidle_lab.base.cache import cached, run_logged
from tests.unit import command
from tests.unit.test_fleet import recording

REQUIREMENTS = Path(__file__).parents[1] / "requirements-s3.txt"

# Prints the address once the files below a folder are in the bucket "fleet".
SERVER = """
import sys, threading
from pathlib import Path
import boto3
from moto.server import ThreadedMotoServer
server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
server.start()
url = "http://{}:{}".format(*server.get_host_and_port())
bucket = boto3.resource("s3", endpoint_url=url).create_bucket(Bucket="fleet")
top = Path(sys.argv[1])
for path in sorted(top.rglob("*")):
    if path.is_file():
        bucket.upload_file(str(path), str(path.relative_to(top)))
print(url, flush=True)
threading.Event().wait()
"""
ACCESS = {"AWS_ACCESS_KEY_ID": "x", "AWS_SECRET_ACCESS_KEY": "x",
          "AWS_DEFAULT_REGION": "us-east-1"}  # fmt: skip

pytestmark = [pytest.mark.full, pytest.mark.filterwarnings("default")]


@pytest.fixture(scope="module")
def packages() -> Path:
    """Return a folder with the driver and the server."""

    def build(folder: Path) -> None:
        words = [sys.executable, "-m", "pip", "install", "--no-deps", "-r", str(REQUIREMENTS),
                 "--target", str(folder / "lib")]  # fmt: skip
        run_logged(words, folder / "pip.log", "getting the packages of the test of S3")

    ingredients = [REQUIREMENTS.read_text(), sys.version]
    return cached("s3", ingredients, "Getting the packages of the test of S3", build) / "lib"


@pytest.fixture
def served(
    tmp_path: Path, packages: Path
) -> Iterator[tuple[Path, dict[str, str], subprocess.Popen[str]]]:
    """Yield a folder of recordings, the variables that find it as a bucket, and the server."""
    folder = tmp_path / "in"
    for n in range(4):
        recording(folder / f"week/{n}", seed=n)
    env = ACCESS | {"PYTHONPATH": f"{command.PACKAGE}{os.pathsep}{packages}"}
    with subprocess.Popen(
        [sys.executable, "-c", SERVER, str(folder)], env=os.environ | env, stdout=subprocess.PIPE,
        text=True,
    ) as server:  # fmt: skip
        try:
            assert server.stdout
            yield folder, env | {"AWS_ENDPOINT_URL": server.stdout.readline().strip()}, server
        finally:
            server.kill()


def fleet(out: Path, env: dict[str, str], *words: str) -> tuple[int, str]:
    """Run the command; return its exit code, and the answers or what it said."""
    line = ["-m", "cpuidle_lab", "fleet", *words, "--governors", "menu_ng,teo_ng", "--harm", "1000",
            "--workers", "1", "--json", "-o", str(out)]  # fmt: skip
    done = subprocess.run([sys.executable, *line], env=os.environ | env, capture_output=True,
                          text=True, check=False)  # fmt: skip
    return done.returncode, done.stdout or done.stderr


def test_a_bucket_has_the_answers_of_the_folder(
    tmp_path: Path, served: tuple[Path, dict[str, str], subprocess.Popen[str]]
) -> None:
    folder, env, _ = served
    here = fleet(tmp_path / "here", env, str(folder / "week"))
    assert here[0] == 0 and json.loads(here[1])["counted"] == 4
    assert fleet(tmp_path / "there", env, "s3://fleet/week") == here
    assert fleet(tmp_path / "local", env, f"file://{folder}/week") == here


def test_a_server_that_does_not_answer_is_waited_for_with_patience(
    tmp_path: Path, served: tuple[Path, dict[str, str], subprocess.Popen[str]]
) -> None:
    folder, env, server = served
    listed = tmp_path / "list.txt"
    listed.write_text(f"s3://fleet/week/0\n{folder}/week/1\n")
    server.send_signal(signal.SIGSTOP)
    code, said = fleet(tmp_path / "one", env, "s3://fleet/week", "--patience", "1")
    assert code == 1 and "s3://fleet/week: listing it took longer than 1 s" in said
    code, said = fleet(tmp_path / "two", env, str(listed), "--patience", "1")
    assert code == 0, said
    told = json.loads(said)
    assert told["failed"] == {"s3://fleet/week/0": "listing it took longer than 1 s (3 tries)"}
    assert told["counted"] == 1
    server.send_signal(signal.SIGCONT)
    code, said = fleet(tmp_path / "two", env, str(listed))
    assert code == 0 and json.loads(said)["counted"] == 2
