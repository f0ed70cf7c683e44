"""Loaded by every Python process of a round, because this folder is on its PYTHONPATH. Not part of the product.

Misbehaviour on demand: words in a query (see `catalogs`) that a worker acts upon when it has read its request, and,
named in HINTCELL_STORM_HOOKS (separated by commas):

    clock              `time.time` jumps by up to ten days, back and forth: what Python code reads of CLOCK_REALTIME,
                       not what the kernel stamps on files or waits by
    stop_after_forked  a template stops (SIGSTOP) right after it has told of its third fork
"""

import os
import random
import signal
import socket
import sys
import time
from typing import Any

HOOKS = set(os.environ.get("HINTCELL_STORM_HOOKS", "").split(","))
FLOOD_BYTES = 10 * 1024 * 1024
ALLOCATION_STEP_BYTES = 8 * 1024 * 1024
ALLOCATION_STEPS = 40
JUMP_S = 10 * 86_400
STOP_AT_FORK = 3


def flood_standard_error() -> None:
    line = b"stormFlood " * 5_957 + b"\n"  # Just below the 64 KiB that a pipe holds.
    for _ in range(FLOOD_BYTES // len(line)):
        os.write(2, line)


def act_upon(query: str) -> None:
    if "stormFlood" in query:
        flood_standard_error()
    if "stormCrash" in query:
        flood_standard_error()
        os._exit(9)
    if "stormPause" in query:
        os.kill(os.getpid(), signal.SIGSTOP)
    if "stormHang" in query:
        while True:
            time.sleep(60)
    held: list[bytes] = []
    while "stormAllocate" in query:
        if len(held) < ALLOCATION_STEPS:  # Without bound as far as any limit is concerned, but not for the machine.
            held.append(b"\1" * ALLOCATION_STEP_BYTES)
        time.sleep(0.01)


def misbehave_in_workers() -> None:
    from hintcell_worker import conversation

    decode = conversation.decode_request  # type: ignore[attr-defined]

    def decode_and_act(*args: Any, **options: Any) -> Any:
        request = decode(*args, **options)
        act_upon(request.query)
        return request

    conversation.decode_request = decode_and_act  # type: ignore[attr-defined]


def stop_after_forked() -> None:
    send = socket.send_fds
    template = os.getpid()
    told = 0

    def send_and_stop(*args: Any) -> int:
        nonlocal told
        sent = send(*args)
        if b'"type":"forked"' in args[1][0] and os.getpid() == template:
            told += 1
            if told == STOP_AT_FORK:
                os.kill(template, signal.SIGSTOP)
        return sent

    socket.send_fds = send_and_stop  # type: ignore[assignment]


def jump() -> None:
    real, random_jump = time.time, random.Random(0)
    time.time = lambda: real() + random_jump.uniform(-JUMP_S, JUMP_S)


if "clock" in HOOKS:
    jump()
if {"hintcell_worker.template", "hintcell_worker.fresh"} & set(sys.orig_argv):
    misbehave_in_workers()
    if "stop_after_forked" in HOOKS:
        stop_after_forked()
