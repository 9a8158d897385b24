"""Two machines in one: network namespaces with a cable between them, which only root may lay."""

import contextlib
import os
import subprocess
from dataclasses import dataclass

import pytest

ADDRESSES = "10.77.0.1", "10.77.0.2"


@dataclass(frozen=True)
class Machine:
    """A network namespace."""

    name: str
    cable: str  # its end of it
    address: str

    def command(self, *command):
        """To be run there."""
        return ["ip", "netns", "exec", self.name, *map(str, command)]

    def plug(self, how):
        """The cable, `up` or `down`."""
        _run("ip", "-n", self.name, "link", "set", self.cable, how)


@contextlib.contextmanager
def two_machines():
    """Ends the test as skipped, with the reason, where there cannot be any."""
    pair = tuple(Machine(f"samekind-{os.getpid()}-{end}", f"cable{end}", ADDRESSES[end]) for end in (0, 1))
    with contextlib.ExitStack() as stack:
        try:
            for machine in pair:
                _run("ip", "netns", "add", machine.name)
                stack.callback(subprocess.run, ["ip", "netns", "del", machine.name], check=False)
            one, other = pair
            ends = ["name", one.cable, "netns", one.name, "type", "veth", "peer", "name", other.cable]
            _run("ip", "link", "add", *ends, "netns", other.name)
            for machine in pair:
                _run("ip", "-n", machine.name, "address", "add", f"{machine.address}/24", "dev", machine.cable)
                _run("ip", "-n", machine.name, "link", "set", "lo", "up")
                machine.plug("up")
        except (OSError, subprocess.CalledProcessError) as error:
            why = getattr(error, "stderr", None) or str(error)
            pytest.skip(f"no network namespaces here, which take root, Linux and iproute2: {why.strip()[:150]}")
        yield pair


def _run(*command):
    return subprocess.run(command, capture_output=True, text=True, check=True)
