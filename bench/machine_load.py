"""The share of the machine that other programs use during the benchmark."""

import os
import resource
import time
from dataclasses import dataclass

import psutil

DISTURBING_SHARE = 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class CpuClock:
    """Processor seconds since boot: of the whole machine, and of this process with the children it has waited for."""

    wall: float
    machine: float
    own: float

    @classmethod
    def read(cls) -> "CpuClock":
        machine = psutil.cpu_times()
        idle = machine.idle + getattr(machine, "iowait", 0.0)
        guests = getattr(machine, "guest", 0.0) + getattr(machine, "guest_nice", 0.0)  # are in user and nice, too
        usage = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
        own = sum(one.ru_utime + one.ru_stime for one in usage)
        return cls(wall=time.monotonic(), machine=sum(machine) - idle - guests, own=own)

    def others_share(self, later: "CpuClock") -> float:
        """The part of all processor time between two readings that others used."""
        available = (later.wall - self.wall) * (os.cpu_count() or 1)
        others = (later.machine - self.machine) - (later.own - self.own)
        return max(0.0, others / available)
