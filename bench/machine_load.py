"""How much of the machine others used while we measured; it reads counters and changes no figure."""

import os
import resource
import time
from dataclasses import dataclass
from pathlib import Path

DISTURBING_SHARE = 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class CpuClock:
    """Processor seconds since boot: of the whole machine, and of this process with the children it has waited for."""

    wall: float
    machine: float
    own: float

    @classmethod
    def read(cls) -> "CpuClock | None":
        try:
            fields = [int(field) for field in Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]]
        except OSError:  # not Linux: nobody can be blamed
            return None
        user, nice, system, _idle, _iowait, irq, softirq, steal = fields
        busy = (user + nice + system + irq + softirq + steal) / os.sysconf("SC_CLK_TCK")
        usage = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
        own = sum(one.ru_utime + one.ru_stime for one in usage)
        return cls(wall=time.monotonic(), machine=busy, own=own)

    def others_share(self, later: "CpuClock") -> float:
        """The part of all processor time between two readings that neither we nor idleness had."""
        available = (later.wall - self.wall) * (os.cpu_count() or 1)
        others = (later.machine - self.machine) - (later.own - self.own)
        return max(0.0, others / available)
