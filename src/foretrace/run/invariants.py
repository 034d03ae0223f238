"""What must hold in every `Run`, whatever the file: `check` is called by tests after every build."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from foretrace.run.categories import DEVICE, Kind
from foretrace.run.tree import ROOT

if TYPE_CHECKING:
    from foretrace.run.model import Run


def check(run: Run) -> None:
    """Raise `AssertionError` naming the first invariant that is broken."""
    host, activities = run.host, run.activities
    child = np.flatnonzero(host.parent != ROOT)
    parent = host.parent[child]
    assert (parent < child).all(), "a parent comes before its children"
    assert (host.thread[parent] == host.thread[child]).all(), "a child runs on its parent's thread"
    assert (host.start_ns[parent] <= host.start_ns[child]).all(), "a child starts inside its parent"
    assert (host.end_ns[parent] >= host.end_ns[child]).all(), "a child ends inside its parent"
    assert (host.self_ns >= 0).all(), "no self time is negative"
    roots = host.parent == ROOT
    whole = int((host.end_ns - host.start_ns)[roots].sum())
    assert int(host.self_ns.sum()) == whole, "self times add up to the time of the roots"
    assert (activities.end_ns >= activities.start_ns).all(), "no activity ends before it starts"
    assert np.isin(activities.kind, DEVICE).all(), "activities are kernels, copies and sets"
    assert len(np.unique(activities.row)) == len(activities), "every activity is owned once"
    linked = activities.launch[activities.launch != ROOT]
    assert (host.kind[linked] == Kind.LAUNCH).all(), "launches are runtime or driver calls"
    owned = np.concatenate([step.activities for step in run.steps]) if run.steps else np.empty(0, dtype=np.int64)
    assert len(np.unique(owned)) == len(owned), "an activity belongs to one step at most"
    assert (np.sort(owned) == np.flatnonzero(activities.step >= 0)).all(), "steps and activities agree"
