"""``foretrace.profile`` around a loop."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
import torch
from torch import nn

from foretrace.capture import profile
from foretrace.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path
    from typing import Any

    Spans = Callable[[Path], list[dict[str, Any]]]


def _hooks(module: nn.Module) -> int:
    return sum(len(part._forward_hooks) + len(part._forward_pre_hooks) for part in module.modules())


def test_a_loop_over_steps_records_three_steps_with_a_region_each(tmp_path: Path, spans: Spans) -> None:
    """The default schedule skips two steps and records three; each holds the region and the work."""
    left = torch.ones(4, 4)
    with profile("product", out=tmp_path, unprofiled=False) as p:
        for _ in p.steps():
            torch.mm(left, left)

    names = [event["name"] for event in spans(tmp_path / "product.json.gz")]
    assert [name for name in names if name.startswith("ProfilerStep#")] == [
        "ProfilerStep#2",
        "ProfilerStep#3",
        "ProfilerStep#4",
    ]
    assert names.count("product") == 3
    assert names.count("aten::mm") == 3


def test_shapes_are_recorded(tmp_path: Path, spans: Spans) -> None:
    """An operator carries the shapes of its inputs."""
    with profile("shapes", out=tmp_path, unprofiled=False) as p:
        for _ in p.steps():
            torch.mm(torch.ones(2, 3), torch.ones(3, 5))

    products = [event for event in spans(tmp_path / "shapes.json.gz") if event["name"] == "aten::mm"]
    assert products[0]["args"]["Input Dims"] == [[2, 3], [3, 5]]


def test_the_body_runs_warm_up_and_schedule_without_timing(tmp_path: Path) -> None:
    """Four runs of warm-up come before the steps of the schedule; the numbers count them all."""
    with profile("count", out=tmp_path, wait=2, warmup=1, active=2, unprofiled=False) as p:
        numbers = [number for number in p.steps() if torch.ones(1).item()]

    assert numbers == list(range(4 + 5))


def test_the_environment_holds_the_step_without_the_profiler(tmp_path: Path) -> None:
    """`NAME.env.json` times the step bare, says what it cannot know, and repeats the schedule."""
    with profile("bare", out=tmp_path, wait=0) as p:
        for _ in p.steps():
            torch.ones(64).add(1)

    held = json.loads((tmp_path / "bare.env.json").read_text(encoding="utf-8"))
    assert held["schema"] == "foretrace.env/1"
    assert held["schedule"] == {"wait": 0, "warmup": 1, "active": 3}
    assert 0 < held["unprofiled"]["host_ns"] < held["first_call_ns"]
    assert held["unprofiled"]["calls"] >= 10
    assert held["steady_ns"] == held["unprofiled"]["host_ns"]
    assert held["region"] == "bare"
    assert held["versions"]["torch"] == torch.__version__
    if not torch.accelerator.is_available():
        assert held["unprofiled"]["device_ns"] is None
        assert held["peak_memory_bytes"] is None
        assert held["device"]["type"] == "cpu"
        assert held["activities"] == ["CPU"]
        assert held["device_events"] is False


def test_modules_nest_in_the_trace_as_they_are_called(tmp_path: Path, spans: Spans) -> None:
    """Each module's scope holds its operators and lies inside its parent's, which goes by its class."""
    model = nn.Sequential(nn.Linear(4, 4), nn.Sequential(nn.Linear(4, 4), nn.ReLU()))
    with profile("names", out=tmp_path, modules=model, unprofiled=False) as p:
        for _ in p.steps():
            model(torch.ones(2, 4))

    events = spans(tmp_path / "names.json.gz")
    parents: dict[str, str] = {}
    for name in ("nn.Module: 0", "nn.Module: 1", "nn.Module: 1.0", "nn.Module: 1.1", "aten::relu"):
        inner = next(event for event in events if event["name"] == name)
        around = [
            event["name"]
            for event in events
            if event["ts"] <= inner["ts"]
            and inner["ts"] + inner["dur"] <= event["ts"] + event["dur"]
            and event is not inner
        ]
        parents[name] = around[-1]
    assert parents == {
        "nn.Module: 0": "nn.Module: Sequential",
        "nn.Module: 1": "nn.Module: Sequential",
        "nn.Module: 1.0": "nn.Module: 1",
        "nn.Module: 1.1": "nn.Module: 1",
        "aten::relu": "nn.Module: 1.1",
    }
    assert _hooks(model) == 0


def test_the_cost_of_module_scopes_is_measured(tmp_path: Path) -> None:
    """The environment counts the scopes and says what they add; two hundred of them cannot cost nothing."""
    model = nn.Sequential(*[nn.Identity() for _ in range(200)])
    with profile("cost", out=tmp_path, modules=model) as p:
        for _ in p.steps():
            model(torch.ones(1)).add(1)

    held = json.loads((tmp_path / "cost.env.json").read_text(encoding="utf-8"))
    assert held["scopes"] == 201
    assert held["scope_overhead_ns"] > 10_000


def test_an_exception_in_the_block_leaves_nothing_behind(tmp_path: Path) -> None:
    """A body that raises while profiled gets its own error; no hook, no profiler, no file stays."""
    model = nn.Linear(4, 4)

    def raise_in_step_6() -> None:
        with profile("raises", out=tmp_path, modules=model, unprofiled=False) as p:
            for number in p.steps():
                model(torch.ones(1, 4))
                if number == 6:
                    raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        raise_in_step_6()

    assert _hooks(model) == 0
    assert list(tmp_path.iterdir()) == []
    assert not torch.autograd._profiler_enabled()


def test_a_forward_that_raises_closes_its_scope(tmp_path: Path, spans: Spans) -> None:
    """A module whose error is caught does not stay open around what follows."""

    class Failing(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            raise ValueError(x.shape)

    model = nn.ModuleDict({"failing": Failing(), "after": nn.ReLU()})
    with profile("caught", out=tmp_path, modules=model, unprofiled=False) as p:
        for _ in p.steps():
            with pytest.raises(ValueError, match="Size"):
                model["failing"](torch.ones(1))
            model["after"](torch.ones(1))

    events = spans(tmp_path / "caught.json.gz")
    failing = next(event for event in events if event["name"] == "nn.Module: failing")
    after = next(event for event in events if event["name"] == "nn.Module: after")
    assert failing["ts"] + failing["dur"] <= after["ts"]


def test_leaving_the_loop_early_is_an_error_in_words(tmp_path: Path) -> None:
    """A `break` under the profiler says how many steps were missing and writes nothing."""

    def leave_in_step_6() -> None:
        with profile("early", out=tmp_path, unprofiled=False) as p:
            for number in p.steps():
                torch.ones(1)
                if number == 6:
                    break

    with pytest.raises(InputError) as caught:
        leave_in_step_6()

    assert caught.value.message == (
        "`early`: the block was left 3 steps too early (wait 1, warmup 1, active 3); nothing was written"
    )
    assert caught.value.hint == "let `for _ in p.steps():` run to its end, without `break`"
    assert list(tmp_path.iterdir()) == []


def test_a_block_without_steps_is_an_error(tmp_path: Path) -> None:
    """Forgetting the loop altogether does not write an empty trace."""
    with pytest.raises(InputError) as caught, profile("none", out=tmp_path):
        torch.ones(1)

    assert "before the profiler started" in caught.value.message
    assert caught.value.hint == "loop over `p.steps()`, or call `p.step()` after each step, 5 times or more"


def test_a_body_without_operators_is_an_error(tmp_path: Path) -> None:
    """A loop that forgets to call the model is told so."""
    with (
        pytest.raises(InputError, match="no PyTorch operator ran"),
        profile("idle", out=tmp_path, unprofiled=False) as p,
    ):
        for _ in p.steps():
            pass

    assert list(tmp_path.iterdir()) == []


def test_a_loop_of_ones_own_calls_step(tmp_path: Path, spans: Spans) -> None:
    """Five calls of `step` are enough for the default schedule, and a sixth changes nothing."""
    with profile("own", out=tmp_path) as p:
        for _ in range(6):
            torch.ones(1)
            p.step()

    names = [event["name"] for event in spans(tmp_path / "own.json.gz")]
    assert names.count("own") == 3
    assert names.count("aten::ones") == 3
    held = json.loads((tmp_path / "own.env.json").read_text(encoding="utf-8"))
    assert held["unprofiled"] is None
    assert held["first_call_ns"] is None


def test_too_few_calls_of_step_are_an_error(tmp_path: Path) -> None:
    """Four calls leave one step to record."""

    def step_four_times() -> None:
        with profile("few", out=tmp_path) as p:
            for _ in range(4):
                torch.ones(1)
                p.step()

    with pytest.raises(InputError, match="left 1 step too early"):
        step_four_times()


def test_step_inside_a_loop_over_steps_is_an_error(tmp_path: Path) -> None:
    """Two ways of counting do not mix."""

    def mix() -> None:
        with profile("both", out=tmp_path, unprofiled=False) as p:
            for _ in p.steps():
                p.step()

    with pytest.raises(InputError, match="ends each step itself"):
        mix()


def test_a_session_is_used_in_a_with_block(tmp_path: Path) -> None:
    """Without the block nothing would be written, so nothing starts."""
    with pytest.raises(InputError, match="is not open"):
        profile("loose", out=tmp_path).steps()


def test_files_that_exist_are_kept_unless_forced(tmp_path: Path) -> None:
    """The refusal comes before anything runs; `force` replaces both files."""
    kept = tmp_path / "kept.json.gz"
    kept.write_bytes(b"mine")
    with (
        pytest.raises(InputError) as caught,
        profile("kept", out=tmp_path),
    ):
        pytest.fail("the block must not be entered")
    assert caught.value.message == f"`{kept}` exists and is not overwritten"
    assert "--force" in str(caught.value.hint)
    assert kept.read_bytes() == b"mine"

    with profile("kept", out=tmp_path, force=True, unprofiled=False) as p:
        for _ in p.steps():
            torch.ones(1)
    assert kept.read_bytes() != b"mine"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["kept.env.json", "kept.json.gz"]


def test_the_table_is_the_profilers_own(tmp_path: Path) -> None:
    """After the block the table names the operators; inside it there is none yet."""
    with profile("table", out=tmp_path, unprofiled=False) as p:
        with pytest.raises(InputError, match="nothing has been recorded"):
            p.table()
        for _ in p.steps():
            torch.mm(torch.ones(2, 2), torch.ones(2, 2))

    assert "aten::mm" in p.table(rows=30)
    assert "Self CPU time total" in p.table(rows=30)


@pytest.mark.parametrize(("wait", "warmup", "active"), [(1, 1, 0), (-1, 1, 1), (0, -2, 1)])
def test_a_schedule_that_records_nothing_is_refused(wait: int, warmup: int, active: int) -> None:
    """Numbers that make no schedule are refused before a session exists."""
    with pytest.raises(InputError, match="cannot be recorded"):
        profile("never", wait=wait, warmup=warmup, active=active)


def test_progress_is_told_and_nothing_is_printed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The callback hears of each phase as it begins, never inside a profiled step; standard output stays empty."""
    heard: list[tuple[str, int, int]] = []
    with profile("quiet", out=tmp_path, progress=lambda *said: heard.append(said)) as p:
        for _ in p.steps():
            torch.ones(1)

    assert heard == [
        ("first call", 0, 0),
        ("warming up", 0, 3),
        ("warming up", 1, 3),
        ("warming up", 2, 3),
        ("timing without the profiler", 0, 0),
        ("profiling", 0, 5),
        ("writing the trace", 0, 0),
    ]
    assert capsys.readouterr().out == ""


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_a_cuda_step_is_timed_on_the_device_too(tmp_path: Path, spans: Spans) -> None:
    """A product that takes the GPU far longer than its launch: both clocks agree, kernels and memory are seen."""
    left = torch.randn(4096, 4096, device="cuda")
    with profile("cuda", out=tmp_path) as p:
        for _ in p.steps():
            torch.mm(left, left)

    held = json.loads((tmp_path / "cuda.env.json").read_text(encoding="utf-8"))
    bare = held["unprofiled"]
    assert 0.7 < bare["device_ns"] / bare["host_ns"] < 1.1
    assert held["peak_memory_bytes"] >= 2 * 4096 * 4096 * 4
    assert held["activities"] == ["CPU", "CUDA"]
    assert held["device_events"] is True
    assert held["device"]["name"] == torch.cuda.get_device_name()
    assert any(event.get("cat") == "kernel" for event in spans(tmp_path / "cuda.json.gz"))


def test_each_rank_writes_files_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Under a launcher of several processes the rank is in the names and in the environment."""
    monkeypatch.setenv("RANK", "1")
    monkeypatch.setenv("WORLD_SIZE", "2")
    with profile("ranked", out=tmp_path, unprofiled=False) as p:
        for _ in p.steps():
            torch.ones(1)

    held = json.loads((tmp_path / "ranked_rank1.env.json").read_text(encoding="utf-8"))
    assert (held["rank"], held["world_size"]) == (1, 2)
    assert (tmp_path / "ranked_rank1.json.gz").exists()
