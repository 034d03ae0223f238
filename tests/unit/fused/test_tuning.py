"""Measuring: what can be tested of it without a GPU."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from foretrace.fused.tuning import measure, table, tune

if TYPE_CHECKING:
    from pathlib import Path


def test_overlapping_kernels_count_once() -> None:
    """10 to 30 and 20 to 50 are 40 ns of work, a gap to 60 is none, 60 to 65 are 5 more; inside counts nothing."""
    kernels = [(10, 20, "a"), (20, 30, "b"), (22, 3, "c"), (60, 5, "d")]
    assert measure._busy([measure._Kernel(*k) for k in kernels]) == 45


def test_the_middle_of_an_even_count() -> None:
    """The median of four times is the mean of the two middle ones, to a hundredth of a microsecond."""
    assert measure.middle([9.0, 1.234, 2.0, 3.0]) == 2.5


def test_tuning_without_a_device_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No CUDA device: an error in words, and nothing written."""
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    with pytest.raises(RuntimeError, match="tuning needs a CUDA device"):
        tune.tune(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_names_of_table_files() -> None:
    """A device's name becomes a file name: lower case, one underscore for anything else."""
    assert table.file_name("NVIDIA H200") == "nvidia_h200.json"
    assert table.file_name("AMD Instinct™ MI300X (192 GB)") == "amd_instinct_mi300x_192_gb.json"
