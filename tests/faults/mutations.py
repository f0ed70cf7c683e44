"""Shows that the storm sees what it looks for: `python -m tests.faults.mutations [NAME…]`.

Each mutation takes one guard out of a copy of the product, runs a storm on the copy, and tells which figures were not
zero. Exits 1 if one that should have been was, or if a guard is not found in the source any more.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

import msgspec

from tests.faults.storm import figures

_ROOT: Final = Path(__file__).parents[2]
_PACKAGES: Final = ("client", "manager", "worker")
# A storm that has not seen a missing guard after so many steps is not looking.
_STEPS: Final = 240
_SEEDS: Final = (1, 2, 3, 4, 5)


class Mutation(msgspec.Struct, frozen=True):
    """A guard to take out.

    Attributes:
        promise: what the guard is for.
        file: where it is.
        edits: the text of the guard, and what stands there instead.
        seen_as: the figures of which one at least must not be zero.
        plan: fields of every round's plan, so that what needs the guard happens often.
    """

    promise: str
    file: str
    edits: tuple[tuple[str, str], ...]
    seen_as: tuple[str, ...]
    plan: dict[str, object] = {}


MUTATIONS: Final[dict[str, Mutation]] = {
    "hang-up-not-looked-for": Mutation(
        "I2, blocking client",
        "client/hintcell/session.py",
        (("        if hung_up(self._connection):\n            raise self._ended()\n", ""),),
        (figures.PAGES,),
    ),
    "hang-up-not-looked-for-asyncio": Mutation(
        "I2, asyncio client",
        "client/hintcell/async_session.py",
        (("if hung_up(self._connection):", "if False:"),),
        (figures.PAGES,),
    ),
    "copy-of-connection-kept": Mutation(
        "I2, a template that is stopped while it still holds the worker's connection",
        "worker/hintcell_worker/template.py",
        (
            ("        os.close(connection)\n        os.close(stderr)\n        self._send(", "        self._send("),
            (
                "        if pidfd is not None:\n            os.close(pidfd)\n",
                "        for copy in filter(None, (connection, stderr, pidfd)):\n            os.close(copy)\n",
            ),
        ),
        (figures.PAGES, figures.HANGS),
        {"hooks": ["stop_after_forked"], "options": "none"},
    ),
    "death-not-awaited": Mutation(
        "I1",
        "manager/hintcell_manager/workers.py",
        (
            ("            await asyncio.wait(waiting, timeout=DEATH_DEADLINE_S)\n", "            pass\n"),
            ("        return [session for session in sessions if not session.is_dead]", "        return []"),
        ),
        (figures.ALIVE,),
    ),
    "outdated-grants-count": Mutation(
        "I3",
        "manager/hintcell_manager/sessions.py",
        (("if self._grants.is_outdated(request.grant, request.snapshot_id):", "if False:"),),
        (figures.GRANTS,),
    ),
    "foreign-grants-count": Mutation(
        "I3, grants of another manager",
        "manager/hintcell_manager/sessions.py",
        (("if not self._grants.is_ours(request.grant):", "if False:"),),
        (figures.ERRORS,),
    ),
    "workers-outlive-the-template": Mutation(
        "I4",
        "worker/hintcell_worker/template.py",
        (("            die_with_parent(self._pid)\n", ""),),
        (figures.ORPHANS,),
        {"ending": "manager_killed", "settles": False},
    ),
    "template-outlives-the-manager": Mutation(
        "I4, a template that is stopped",
        "manager/hintcell_manager/linux.py",
        (("_libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0) != 0 or ", ""),),
        (figures.ORPHANS,),
        {"ending": "manager_killed", "settles": False, "hooks": ["stop_after_forked"]},
    ),
    "no-subreaper": Mutation(
        "I6",
        "manager/hintcell_manager/service.py",
        (("        become_subreaper()\n", ""),),
        (figures.ORPHANS, figures.ZOMBIES),
    ),
    "lifeline-not-watched": Mutation(
        "I5",
        "manager/hintcell_manager/service.py",
        (
            (
                "(lifeline)\n        self.request_stop()\n",
                "(lifeline)\n",
            ),
        ),
        (figures.ORPHANS,),
        {"is_shared": False, "ending": "client_killed"},
    ),
    "forked-children-hold-connections": Mutation(
        "I5, a client that has forked",
        "client/hintcell/forks.py",
        (("    for connection in list(_held):\n        connection.close()\n", ""),),
        (figures.ORPHANS, figures.HANGS),
        {"is_shared": False, "ending": "client_killed", "settles": False},
    ),
    "pidfds-stay-open": Mutation(
        "I6",
        "manager/hintcell_manager/worker_process.py",
        (("            os.close(self._pidfd)\n", ""),),
        (figures.DESCRIPTORS,),
        {"settles": True},
    ),
    "standard-errors-stay-open": Mutation(
        "I6",
        "manager/hintcell_manager/stderr_tail.py",
        (("            os.close(self._descriptor)\n", ""),),
        (figures.DESCRIPTORS,),
        {"settles": True},
    ),
    "connections-stay-open": Mutation(
        "I6, in the client",
        "client/hintcell/session.py",
        (
            (
                "over()\n            self._connection.close()\n",
                "over()\n",
            ),
        ),
        (figures.DESCRIPTORS,),
        {"settles": True, "owner": "blocking", "visitor": "blocking"},
    ),
    "manager-leaves-its-directory": Mutation(
        "I6",
        "manager/hintcell_manager/runtime.py",
        (("        if self._remove_at_close:\n", "        if False:\n"),),
        (figures.FILES,),
        {"is_shared": False, "ending": "client_killed"},
    ),
    "client-leaves-a-dead-manager's-directory": Mutation(
        "I6",
        "client/hintcell/sidecar.py",
        (("        directory.rmdir()\n", "        pass\n"),),
        (figures.FILES,),
        {"is_shared": False, "ending": "manager_killed"},
    ),
    "stale-sockets-in-the-way": Mutation(
        "I6",
        "manager/hintcell_manager/runtime.py",
        (("        self._remove_sockets()  #", "        #"),),
        (figures.ERRORS, figures.FILES),
        {"is_shared": True, "ending": "manager_killed"},
    ),
    "template-does-not-reap": Mutation(
        "I6",
        "worker/hintcell_worker/template.py",
        (("        signal.set_wakeup_fd(wake, warn_on_full_buffer=False)\n", ""),),
        (figures.ZOMBIES,),
        {"settles": True},
    ),
    "manager-does-not-reap": Mutation(
        "I6, workers of a template that was killed",
        "manager/hintcell_manager/fleet.py",
        (("        return _reap(children - others", "        return bool() and _reap(children - others"),),
        (figures.ZOMBIES,),
        {"settles": True},
    ),
    "last-reason-wins": Mutation(
        "I8",
        "manager/hintcell_manager/sessions.py",
        (("    if session.reason is None:\n", "    if True:\n"),),
        (figures.REASONS,),
    ),
    "ends-told-before-they-are-known": Mutation(
        "I8",
        "manager/hintcell_manager/service.py",
        (("            await asyncio.wait([cell.ended], timeout=END_QUESTION_DEADLINE_S)\n", "            pass\n"),),
        (figures.REASONS,),
    ),
    "memory-not-limited": Mutation(
        "I8, memory_limit",
        "manager/hintcell_manager/sessions.py",
        (("        return limit is not None and uss_bytes > limit\n", "        return bool()\n"),),
        (figures.HANGS,),
        {"options": "memory_limit", "settles": True},
    ),
    "request-in-the-message": Mutation(
        "no text in a log or message",
        "worker/hintcell_worker/protocol.py",
        (("is not one valid JSON value: {error}", "is not one valid JSON value: {bytes(data)!r}"),),
        (figures.TEXTS,),
        {"settles": True},
    ),
}


def caught_by(mutation: Mutation, base: Path) -> tuple[set[str], int]:
    """The figures that were not zero in a storm on a copy with this mutation, and how many steps that took."""
    steps, broken = 0, set[str]()
    with tempfile.TemporaryDirectory(prefix="mutated-") as name:
        copy = Path(name)
        for package in _PACKAGES:
            shutil.copytree(base / package, copy / package, ignore=shutil.ignore_patterns("__pycache__"))
        file = copy / mutation.file
        text = file.read_text()
        for guard, instead in mutation.edits:
            if guard not in text:
                raise LookupError(f"{mutation.file} has no {guard!r} any more")
            text = text.replace(guard, instead)
        file.write_text(text)
        plan = json.dumps(mutation.plan)
        path = os.pathsep.join(str(copy / package) for package in _PACKAGES)
        for seed in _SEEDS:
            command = [
                sys.executable,
                "-m",
                "tests.faults.storm",
                "--steps",
                str(_STEPS),
                "--seed",
                str(seed),
                "--plan",
                plan,
            ]
            done = subprocess.run(
                command, env=os.environ | {"PYTHONPATH": path}, cwd=_ROOT, capture_output=True, text=True, check=False
            )
            steps += _STEPS
            for line in done.stdout.splitlines():
                number, _, figure = line.strip().partition("  ")
                if figure in figures.PROMISES and int(number):
                    broken.add(figure)
            if broken & set(mutation.seen_as):
                break
    return broken, steps


def main() -> int:
    """Run the mutations that the command line names, or all."""
    base = Path(os.environ.get("HINTCELL_STORM_BASE", _ROOT))
    missed = 0
    for name in sys.argv[1:] or MUTATIONS:
        mutation = MUTATIONS[name]
        broken, steps = caught_by(mutation, base)
        is_caught = bool(broken & set(mutation.seen_as))
        missed += not is_caught
        verdict, seen = "caught" if is_caught else "MISSED", ", ".join(sorted(broken)) or "nothing"
        print(f"{verdict}  {name} ({mutation.promise}) in {steps} steps: {seen}", flush=True)
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
