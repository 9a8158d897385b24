"""A worker on another machine, and a cable that is pulled: a fit goes on when it is back, with the same bits."""

import subprocess
import sys
from pathlib import Path

import pytest

from samekind.compute.cluster import process, scheduler_address, scheduler_command
from tests.faults.namespaces import two_machines

pytest.importorskip("distributed", reason="dask.distributed is not installed")

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
PARTITION = 15  # seconds: longer than a worker may be silent (4 in this test), and than TCP waits (12)


def test_a_partition_that_heals_changes_no_bit(tmp_path):
    with two_machines() as (here, there):
        file, logs = tmp_path / "scheduler.json", [tmp_path / "scheduler.log", tmp_path / "worker.log"]
        with process(here.command(*scheduler_command(file, host=here.address)), logs[0]):
            address = scheduler_address(file, logs[0])
            worker = [sys.executable, "-m", "samekind", "worker", address, "--jobs", "1", "--name", "far"]
            with process(there.command(*worker), logs[1]):
                driver = [sys.executable, "-m", "tests.faults.partitioned", address, here.name, here.cable, PARTITION]
                done = subprocess.run(here.command(*driver), cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr + "".join(log.read_text()[-2000:] for log in logs)
    assert "given up: ['far'" in done.stdout
