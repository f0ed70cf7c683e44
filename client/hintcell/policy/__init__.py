"""Policies: who may read which files, read from one TOML file, and what a change of it ends.

A policy decides what goes into a catalog (`Policy.may_read`), before a file is opened. `watch` turns an edit of the
file into permission changes for exactly the principals whose rules it changed. Importing this package starts nothing.
"""

from hintcell.policy.model import Group, Policy, PolicyError, Rules
from hintcell.policy.sources import FilePolicySource, PolicySource, load_policy
from hintcell.policy.watch import LABEL, Watched, watch

__all__ = [
    "LABEL",
    "FilePolicySource",
    "Group",
    "Policy",
    "PolicyError",
    "PolicySource",
    "Rules",
    "Watched",
    "load_policy",
    "watch",
]
