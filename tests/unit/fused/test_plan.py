"""Which path a shape takes: the rules, the measured table, and the words that explain it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
import torch

from foretrace.fused import GeGLUMLP, explain, plan
from foretrace.fused.tuning import table

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

TABLE = {
    "rows": [
        {"mode": "forward", "rows": 8192, "dim": 512, "hidden": 2048, "us": {"pointwise": 120.0, "fused": 90.0}},
        {"mode": "forward", "rows": 256, "dim": 512, "hidden": 2048, "us": {"pointwise": 15.0, "fused": 19.0}},
        {"mode": "forward", "rows": 1, "dim": 512, "hidden": 2048, "us": {"pointwise": 9.0, "rows": 7.0}},
    ]
}


class _Device:
    """A device that was measured in the table above."""

    name = "Some GPU 9000"
    major = 9


@pytest.fixture(autouse=True)
def _measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The table above as a user's own, for a device that stands in for a real one."""
    (tmp_path / "some_gpu_9000.json").write_text(json.dumps(TABLE), encoding="utf-8")
    monkeypatch.setenv("FORETRACE_FUSED_TABLES", str(tmp_path))
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda _: _Device)
    table.rows_of.cache_clear()
    plan.choose.cache_clear()
    yield
    table.rows_of.cache_clear()
    plan.choose.cache_clear()


def _choose(
    rows: int, *, dim: int = 512, sixteen: bool = True, biased: bool = False, adjacent: bool = True, ready: bool = True
) -> plan.Choice:
    return plan.choose(0, rows, dim, 2048, False, sixteen, biased, adjacent, ready)  # noqa: FBT003 - a cache key


def test_the_fastest_measured_path() -> None:
    """The nearest measured shape decides, and the choice quotes it."""
    choice = _choose(4096)
    assert choice.path == "fused"
    assert choice.why == "nearest measured: 8192 × 512 × 2048 (forward): pointwise 120, fused 90 µs"
    assert _choose(8192, dim=512).why == "measured at 8192 × 512 × 2048 (forward): pointwise 120, fused 90 µs"
    assert _choose(300).path == "pointwise"
    assert _choose(2).path == "rows"


def test_what_a_path_cannot_serve() -> None:
    """fp32, biases, unaligned rows and empty batches go where they can be served, and say why."""
    assert _choose(4096, sixteen=False).why.startswith("fp32: cuBLAS keeps the precision")
    assert _choose(4096, biased=True).why == "biases ride in cuBLAS's epilogue"
    assert _choose(4096, ready=False) == plan.Choice("pointwise", "no other path serves this device, shape and mode")
    assert _choose(0) == plan.Choice("pointwise", "no rows: nothing is launched")
    sideways = plan.Choice("pointwise", "a weight's columns do not lie side by side, as cuBLAS alone takes them")
    assert _choose(2, adjacent=False, ready=False) == sideways


def test_an_unmeasured_device_takes_the_safe_path(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without times the choice is cuBLAS and the pointwise kernel, and names the command that measures."""
    monkeypatch.setattr(_Device, "name", "Unknown GPU")
    choice = _choose(4096)
    assert choice.path == "pointwise"
    assert choice.why == "no times are known for Unknown GPU: `foretrace tune` measures them"


@pytest.mark.parametrize("triton", [(3, 5), (3, 7), (3, 9), (4, 0)])
def test_another_triton_than_the_hopper_kernels_are_written_for(triton: tuple[int, ...]) -> None:
    """Gluon changes from version to version: the paths in it are left out, and the choice says why."""
    able = {rows: plan.serving(rows, hopper=True, training=False, triton=triton) for rows in (1, 8192)}
    assert able == {1: ("pointwise", "rows"), 8192: ("pointwise",)}
    choice = plan.choose_on(
        "NVIDIA H200", 8192, 768, 3072, hopper=True, training=True, sixteen=True, biased=False, adjacent=True,
        ready=True, triton=triton,
    )  # fmt: skip
    version = ".".join(map(str, triton))
    assert choice.path == "pointwise"
    assert choice.why == f"the kernels for NVIDIA H200 need Triton 3.6, and {version} is installed"


def test_a_layer_explains_itself() -> None:
    """On the CPU of a test a layer runs in the interpreter, in fp64 as plain PyTorch; both are said."""
    assert GeGLUMLP(4, 8).explain(3) == plan.Choice("pointwise", "Triton's interpreter")
    layer = GeGLUMLP(4, 8, dtype=torch.float64)
    assert layer.explain(3) == plan.Choice("plain", "no kernel serves torch.float64 on cpu")


def test_a_shape_is_explained_without_a_layer() -> None:
    """``explain`` answers for sizes alone; sizes that cannot start rows on 16 bytes, and fp64, are told apart."""
    assert explain(8192, 512, 2048, device=0).path == "fused"
    assert explain(8192, 511, 2048, device=0).why == "no other path serves this device, shape and mode"
    assert explain(8192, 512, 2048, dtype=torch.float64, device=0).why == "no kernel serves torch.float64"
    assert explain(8192, 512, 2048, bias=True, device=0).why == "biases ride in cuBLAS's epilogue"


def test_row_counts_share_choices() -> None:
    """Buckets are powers of two: 1, 2, 3 to 4, 5 to 8; none stays none."""
    assert [plan.bucket(n) for n in (0, 1, 2, 3, 5, 8, 8193)] == [0, 1, 2, 4, 8, 8, 16384]


def test_a_file_that_is_no_table() -> None:
    """A damaged table raises in words instead of choosing by chance."""
    with pytest.raises(ValueError, match="not a table of measured times"):
        table.parse("[]")
    with pytest.raises(ValueError, match="not a table of measured times"):
        table.parse('{"rows": [{"mode": "forward"}]}')


def test_shipped_tables_are_tables() -> None:
    """Every file that ships parses, and every row times at least two paths."""
    files = list(table.SHIPPED.glob("*.json"))
    assert files
    for path in files:
        assert all(len(row.us) >= 2 for row in table.parse(path.read_text(encoding="utf-8")))
