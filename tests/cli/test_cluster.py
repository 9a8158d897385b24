"""`samekind fit --workers`: worker processes of this machine, the same model."""

import subprocess
import sys

import numpy as np
import pytest

from tests import clusters, stores

pytest.importorskip("distributed", reason="dask.distributed is not installed")

FEW = ("--max-groups", "2", "--components", "4", "--set", "cv=none", "--set", "compare_by=distance", "--quiet")
SMALL = "--memory", "16MB"  # a store that fits a sixteenth of it would be held in memory


def samekind(*arguments):
    command = [sys.executable, "-m", "samekind", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    X, y = clusters.planted(210, 5, 100)  # more than 1,000 samples: fewer are done by the driver alone
    folder = tmp_path_factory.mktemp("cluster") / "store"
    stores.disk_store(folder, np.abs(X), y, {"a": 4}, shard_rows=600)
    return folder


@pytest.mark.slow
def test_a_fit_on_workers_writes_the_same_model(store, tmp_path):
    near, joined = tmp_path / "near", tmp_path / "joined"
    assert samekind("compact", store, joined).returncode == 0
    ways = {
        "threads": (store, "--jobs", "1"),
        "workers": (store, "--workers", "2"),
        "copies of larger shards": (joined, "--workers", "2", "--stripes", near),
    }
    for name, (learned, *how) in ways.items():
        done = samekind("fit", learned, tmp_path / f"{name}.safetensors", *FEW, *SMALL, *how)
        assert done.returncode == 0, done.stderr
        assert "computes with" not in done.stdout  # the workers are of this machine
        assert any(near.rglob("*.group")) == ("copies" in name)
    assert len({(tmp_path / f"{name}.safetensors").read_bytes() for name in ways}) == 1


def test_stripes_are_for_workers(store, tmp_path):
    done = samekind("fit", store, tmp_path / "m", *FEW, "--stripes", tmp_path / "near")
    assert done.returncode == 2
    assert "give --scheduler or --workers" in done.stderr


def test_a_scheduler_and_workers_exclude_each_other(store, tmp_path):
    done = samekind("fit", store, tmp_path / "m", *FEW, "--workers", "2", "--scheduler", "tcp://127.0.0.1:1")
    assert done.returncode == 2
    assert "give one of them" in done.stderr


def test_tls_needs_all_three_files(store, tmp_path):
    done = samekind("fit", store, tmp_path / "m", *FEW, "--scheduler", "tls://127.0.0.1:1", "--tls-cert", "a.pem")
    assert done.returncode == 2
    assert "three files" in done.stderr
