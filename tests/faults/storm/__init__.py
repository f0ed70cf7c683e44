"""A storm on real processes: random steps against one manager after another, and a model of what must hold.

`python -m tests.faults.storm --steps 2000 --seed 1` prints the figures and exits 1 if any promise was broken.

    __main__   plans the rounds from the seed, runs them, prints the figures
    plan       what a round is made of: place, options, kinds of clients, how it ends
    round      one round, in a process of its own that adopts every orphan (`python -m tests.faults.storm.round`)
    stage      what the steps act on: clients, manager, timers, deaths as they are seen
    steps      the steps and their weights;  raw: visitors that speak to the door themselves
    settling   quiet points and endings: what must be gone by then
    ledger     the model: what was done, when; verdicts: what may follow from it (both without processes)
    agent      a client in a process of its own, blocking or asyncio;  crew: agents as the round holds them
    processes  what /proc tells;  under: what a parent may leave to its children
    hooks      a `sitecustomize` for the product's processes: words in a query that make a worker misbehave,
               a clock that jumps, a template that stops at the worst moment

Covers I1 to I6 and I8, and of I7 that no page names another session's document. Does not cover ranking, the network,
or other users.
"""
