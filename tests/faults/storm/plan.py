"""What the rounds of a storm are made of, drawn from one seed: the same seed plans the same rounds.

What happens inside a round is drawn from the round's own seed; only the order in which processes get to run is not.
"""

import os
import random
import shutil
import subprocess
from typing import Final, Literal

import msgspec

from hintcell import ManagerOptions

STEPS_OF_ROUND: Final = 40

Parent = Literal["ordinary", "ignores_sigchld", "blocks_signals", "is_pid_1"]
Kind = Literal["blocking", "asyncio"]
Ending = Literal[
    "client_closes",
    "client_exits",
    "client_killed",
    "manager_terminated",
    "manager_killed",
    "both_killed",
]

# Memory in bytes that a small catalog's session never has, and one that ranks megabytes, or allocates, may.
_MEMORY_LIMIT: Final = 40 * 1024 * 1024

OPTIONS: Final[dict[str, ManagerOptions]] = {
    "none": ManagerOptions(),
    "few_forks": ManagerOptions(template_max_forks=4, sample_interval_s=0.1),
    "idle_timeout": ManagerOptions(idle_timeout_s=0.6, sample_interval_s=0.1),
    "lifetime": ManagerOptions(lifetime_s=1.0, sample_interval_s=0.1),
    "memory_limit": ManagerOptions(memory_limit_bytes=_MEMORY_LIMIT, sample_interval_s=0.05),
    "memory_budget": ManagerOptions(memory_budget_bytes=160 * 1024 * 1024, open_wait_s=0.5, sample_interval_s=0.1),
    "max_sessions": ManagerOptions(max_sessions=6, max_sessions_per_principal=3, open_wait_s=0.2),
    "ranking_deadline": ManagerOptions(ranking_deadline_s=2.0),
    "exec": ManagerOptions(launcher="exec"),
}
_WEIGHTS: Final = {"none": 8, "few_forks": 3, "exec": 1}


class Plan(msgspec.Struct, frozen=True):
    """One round.

    Attributes:
        number: counts from 0.
        seed: of everything that happens in it.
        steps: how many.
        is_shared: whether the manager serves a directory, or one client.
        parent: what the process is like that starts the manager.
        options: a name in OPTIONS.
        hooks: for HINTCELL_STORM_HOOKS.
        owner: the first client: of a private manager the one that it serves.
        visitor: the second client.
        ending: how the round ends.
        settles: whether it comes to a quiet point before its end, or ends in the middle of everything.
    """

    number: int
    seed: int
    steps: int
    is_shared: bool
    parent: Parent
    options: str
    hooks: tuple[str, ...]
    owner: Kind
    visitor: Kind
    ending: Ending
    settles: bool


def rounds(seed: int, steps: int) -> list[Plan]:
    """As many rounds as the steps need."""
    rng = random.Random(seed)
    plans: list[Plan] = []
    while steps > 0:
        plans.append(_round(rng, len(plans), min(steps, STEPS_OF_ROUND)))
        steps -= STEPS_OF_ROUND
    return plans


def new_pid_namespace() -> tuple[list[str] | None, str]:
    """The command that runs another as PID 1 of a pid namespace of its own, or None and why there is none."""
    program = shutil.which("unshare")
    if program is None:
        return None, "there is no unshare(1)"
    user = [] if os.geteuid() == 0 else ["--user", "--map-root-user"]
    command = [program, *user, "--pid", "--fork", "--mount-proc", "--kill-child=SIGKILL"]
    tried = subprocess.run([*command, "true"], capture_output=True, check=False, timeout=30)
    if tried.returncode != 0:
        return None, tried.stderr.decode(errors="replace").strip() or f"unshare ended with {tried.returncode}"
    return command, ""


def _round(rng: random.Random, number: int, steps: int) -> Plan:
    is_shared = rng.random() < 0.45
    kinds: list[Kind] = ["blocking", "asyncio"]
    endings: list[Ending] = ["manager_terminated", "manager_killed", "both_killed"]
    if not is_shared:
        endings += ["client_closes", "client_closes", "client_exits", "client_killed", "client_killed"]
    parents: list[Parent] = ["ordinary", "ordinary", "ordinary", "ignores_sigchld", "blocks_signals", "is_pid_1"]
    names = list(OPTIONS)
    hooks = [name for name, share in (("clock", 0.3), ("stop_after_forked", 0.15)) if rng.random() < share]
    return Plan(
        number=number,
        seed=rng.randrange(2**32),
        steps=steps,
        is_shared=is_shared,
        parent=rng.choice(parents),
        options=rng.choices(names, [_WEIGHTS.get(name, 1.5) for name in names])[0],
        hooks=tuple(hooks),
        owner=rng.choice(kinds),
        visitor=rng.choice(kinds),
        ending=rng.choice(endings),
        settles=rng.random() < 0.6,
    )
