"""What a running fit writes to files, so that it can be resumed after it was stopped.

    resumable   a solver's state as arrays and JSON, and back        Resumable
    folder      snapshots in a folder, checksummed, of one fit       Checkpoint, Snapshot, CheckpointError

Solvers make their states `Resumable`; `estimators.resume` keeps them in a `Checkpoint`.
"""

from samekind.checkpoint.folder import Checkpoint, CheckpointError, NoCheckpoint, Snapshot, Snapshots, fingerprint
from samekind.checkpoint.resumable import Resumable

__all__ = ["Checkpoint", "CheckpointError", "NoCheckpoint", "Resumable", "Snapshot", "Snapshots", "fingerprint"]
