"""The original and the swapped model of ``foretrace fuse --measure``, timed in turns on one model."""

from __future__ import annotations

import functools
import json
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

from torch import Tensor, nn  # noqa: E402 - after the skip

from foretrace.capture import Target  # noqa: E402 - imports torch
from foretrace.cli import swap  # noqa: E402 - as above
from foretrace.cli.app import main  # noqa: E402 - as above
from foretrace.errors import ForetraceError  # noqa: E402 - as above

Seen = list[tuple[str, str, bool]]


class Gated(nn.Module):
    """As in a Llama."""

    def __init__(self) -> None:
        super().__init__()
        self.gate_proj, self.up_proj = (nn.Linear(16, 32, bias=False) for _ in range(2))
        self.down_proj = nn.Linear(32, 16, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """``[..., 16]`` to the same."""
        out: Tensor = self.down_proj(nn.functional.silu(self.gate_proj(x)) * self.up_proj(x))
        return out


class Net(nn.Module):
    """One MLP in two places; it notes what it runs, wraps its own forward, and cannot be copied."""

    def __init__(self, seen: Seen, most: int | None = None) -> None:
        super().__init__()
        self.mlp = Gated()
        self.again, self.seen, self.most = self.mlp, seen, most
        forward = self.forward
        self.forward = functools.wraps(forward)(lambda x: forward(x))  # noqa: PLW0108 - as wrappers do

    def forward(self, x: Tensor) -> Tensor:
        """``[rows, 16]`` to the same."""
        self.seen.append((type(self.mlp).__name__, type(self.again).__name__, torch.is_grad_enabled()))
        if self.most is not None and len(self.seen) > self.most:
            raise RuntimeError("enough")
        out: Tensor = self.again(self.mlp(x))
        return out

    def generate(self, x: Tensor) -> Tensor:
        """Another way to call it."""
        return self.forward(x)


@pytest.mark.parametrize(
    ("method", "grad", "recorded"), [(False, False, False), (False, True, True), (True, False, True)]
)
def test_one_model_runs_both(method: bool, grad: bool, recorded: bool) -> None:  # noqa: FBT001 - parameters
    """Every place has the original in its turns and the fused layer in the others; autograd looks on as in captures."""
    seen: Seen = []

    def factory() -> tuple[object, tuple[Tensor]]:
        net = Net(seen)
        return net.generate if method else net, (torch.randn(4, 16),)

    pair = swap.side_by_side(Target("nets.py:net", factory), grad=grad)
    assert pair.host is not None
    assert set(seen) == {("Gated", "Gated", recorded), ("GatedMLP", "GatedMLP", recorded)}


def test_a_model_that_is_replaced_as_a_whole() -> None:
    """There is nothing to put in and out: the call is another object's."""
    pair = swap.side_by_side(Target("nets.py:gated", lambda: (Gated(), (torch.randn(4, 16),))), grad=False)
    assert pair.before.calls
    assert pair.after.calls


def test_a_failure_is_told() -> None:
    """What a call raises becomes an error that says where the traces are."""
    target = Target("nets.py:net", lambda: (Net([], most=5), (torch.randn(4, 16),)))
    with pytest.raises(ForetraceError, match=r"`nets\.py:net` failed while it was timed"):
        swap.side_by_side(target, grad=False)


def test_whoever_reads_the_traces_gets_the_same_times(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The times taken in turns stand in the report and beside both traces."""
    monkeypatch.setenv("TRITON_INTERPRET", "1")  # else both run the same operators, and nothing is measured
    targets = Path(__file__).parent / "fuse_targets.py"
    argv = ["fuse", f"{targets}:llama", "--measure", "--out", str(tmp_path)]
    assert main([*argv, "--format", "json"]) == 0
    measured = json.loads(capsys.readouterr().out)["measured"]
    assert measured["host"]["median"] > 0
    assert measured["device"] is None
    for side, variant in (("before", "eager"), ("after", "fused")):
        beside = json.loads((tmp_path / f"llama_{variant}.env.json").read_text())
        assert beside["unprofiled"]["host_ns"] == beside["steady_ns"] == measured[side]["wall_ns"]
