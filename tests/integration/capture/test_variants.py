"""A target in several variants."""

from __future__ import annotations

import gc
import weakref
from typing import TYPE_CHECKING

import pytest
import torch
from torch import nn
from torch._inductor import config as inductor

from foretrace.capture import Target, capture_target, parse_target, register_variant, variant_names, variants
from foretrace.errors import InputError, MissingDependencyError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path
    from typing import Any

    Spans = Callable[[Path], list[dict[str, Any]]]


@pytest.fixture
def registered() -> Iterator[Callable[..., None]]:
    """Register variants that are gone after the test."""
    before = dict(variants._VARIANTS)
    yield register_variant
    variants._VARIANTS.clear()
    variants._VARIANTS.update(before)


def _target(targets: Path, name: str, *arguments: str) -> Target:
    target = parse_target(f"{targets / 'mlp.py'}:{name}", arguments)
    assert isinstance(target, Target)
    return target


@pytest.mark.slow
def test_eager_and_compiled_are_captured_side_by_side(targets: Path, tmp_path: Path, spans: Spans) -> None:
    """Eager runs three linears with their modules' names; compiled runs none of them, and its first call compiles."""
    eager, compiled = capture_target(
        _target(targets, "geglu"), variants=["eager", "compile"], out=tmp_path, table_rows=30
    )

    assert (eager.error, compiled.error) == (None, None)
    names = [event["name"] for event in spans(tmp_path / "geglu_eager.json.gz")]
    assert names.count("aten::linear") == 9
    assert names.count("nn.Module: gate_proj") == 3
    assert names.count("geglu") == 3
    names = [event["name"] for event in spans(tmp_path / "geglu_compile.json.gz")]
    assert names.count("aten::linear") == 0
    assert names.count("Torch-Compiled Region: 0/0") == 3
    assert not any(name.startswith("nn.Module: ") for name in names)
    assert eager.environment is not None
    assert compiled.environment is not None
    assert eager.environment.scopes == 4
    assert compiled.environment.scopes == 0
    assert compiled.environment.variant == "compile"
    assert compiled.environment.first_call_ns is not None
    assert compiled.environment.steady_ns is not None
    assert compiled.environment.first_call_ns > 10 * compiled.environment.steady_ns
    assert "aten::mm" in str(eager.table)


def test_a_variant_that_fails_does_not_cost_the_others(
    targets: Path, tmp_path: Path, registered: Callable[..., None]
) -> None:
    """The failure is kept with its reason and the place in the user's code; the variants around it are written."""

    def broken(_call: object, _args: object, _kwargs: object) -> object:
        raise LookupError("no such kernel")

    registered("broken", broken)
    registered("same", lambda call, _args, _kwargs: call)
    first, second, third = capture_target(
        _target(targets, "geglu"), variants=["eager", "broken", "same"], out=tmp_path, unprofiled=False
    )

    assert first.error is None
    assert third.error is None
    assert second.environment is None
    assert second.error is not None
    assert second.error.message.endswith("mlp.py:geglu` failed as `broken`: LookupError: no such kernel")
    assert isinstance(second.error.__cause__, LookupError)
    assert 'raise LookupError("no such kernel")' in str(second.traceback)
    assert sorted(path.name for path in tmp_path.glob("*.json.gz")) == ["geglu_eager.json.gz", "geglu_same.json.gz"]


def test_variants_get_equal_weights_in_modules_of_their_own(
    targets: Path, tmp_path: Path, registered: Callable[..., None]
) -> None:
    """Each variant's module is built anew from the same seed."""
    seen: list[nn.Module] = []

    def keep(call: nn.Module, _args: object, _kwargs: object) -> nn.Module:
        seen.append(call)
        return call

    registered("one", keep)
    registered("two", keep)
    capture_target(_target(targets, "geglu"), variants=["one", "two"], out=tmp_path, unprofiled=False)

    one, two = seen
    assert one is not two
    assert torch.equal(one.get_parameter("up_proj.weight"), two.get_parameter("up_proj.weight"))


def test_a_module_runs_without_autograd_and_a_function_as_it_is(targets: Path, tmp_path: Path, spans: Spans) -> None:
    """Nobody calls backward after a forward alone, so nothing is kept for it; a training step runs backward."""
    (forward,) = capture_target(_target(targets, "geglu"), out=tmp_path, unprofiled=False)
    (training,) = capture_target(_target(targets, "training"), out=tmp_path, unprofiled=False)

    assert forward.environment is not None
    assert forward.environment.grad is False
    assert training.error is None
    assert training.environment is not None
    assert training.environment.grad is True
    names = {event["name"] for event in spans(tmp_path / "training_eager.json.gz")}
    assert "autograd::engine::evaluate_function: MmBackward0" in names


def test_the_users_error_is_told_in_one_line(targets: Path, tmp_path: Path) -> None:
    """A module that cannot take its input fails with the first line of PyTorch's own words, and no file."""
    (captured,) = capture_target(_target(targets, "wrong_shapes"), out=tmp_path)

    assert captured.error is not None
    assert "failed as `eager`: RuntimeError: mat1 and mat2 shapes cannot be multiplied" in captured.error.message
    assert list(tmp_path.iterdir()) == []


def test_a_file_in_the_way_stops_all_variants_before_they_run(targets: Path, tmp_path: Path) -> None:
    """Nothing is computed for an hour only to be thrown away."""
    (tmp_path / "geglu_compile-dynamic.json.gz").write_bytes(b"mine")

    with pytest.raises(InputError, match="exists and is not overwritten"):
        capture_target(_target(targets, "geglu"), variants=["eager", "compile:dynamic"], out=tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["geglu_compile-dynamic.json.gz"]


def test_compiling_without_a_compiler_is_told_in_words(targets: Path, tmp_path: Path) -> None:
    """Inductor's search finds no C++ compiler: the variant fails with what to install."""
    with inductor.patch({"cpp.cxx": ("no-compiler-by-this-name",)}):
        (captured,) = capture_target(_target(targets, "geglu"), variants=["compile"], out=tmp_path)

    assert isinstance(captured.error, MissingDependencyError)
    assert captured.error.message == "`torch.compile` on the CPU needs a C++ compiler, and none was found"


def test_an_unknown_variant_names_those_that_are_known(targets: Path, tmp_path: Path) -> None:
    """A typo costs no run."""
    with pytest.raises(InputError) as caught:
        capture_target(_target(targets, "geglu"), variants=["eagre"], out=tmp_path)

    assert caught.value.message == "there is no variant `eagre`"
    assert "`compile:reduce-overhead`" in str(caught.value.hint)


def test_a_built_in_name_is_not_registered_again(registered: Callable[..., None]) -> None:
    """A user's variant may be registered again, as when its file is read twice; one of foretrace's own may not."""
    registered("mine", lambda call, _args, _kwargs: call)
    registered("mine", lambda call, _args, _kwargs: call)
    with pytest.raises(InputError, match="foretrace has a variant `eager` of its own"):
        registered("eager", lambda call, _args, _kwargs: call)
    assert variant_names() == (
        "eager",
        "compile",
        "compile:max-autotune",
        "compile:reduce-overhead",
        "compile:dynamic",
        "mine",
    )


def test_compiled_modules_get_no_scopes() -> None:
    """What `torch.compile` has taken, and all inside it, stays without hooks; its siblings have them."""
    from foretrace.capture.scopes import ModuleScopes  # noqa: PLC0415 - the room's own part

    in_place = nn.Linear(2, 2)
    in_place.compile()
    model = nn.Sequential(torch.compile(nn.Linear(2, 2)), in_place, nn.ReLU())

    assert [name for name, _ in ModuleScopes(model)._modules] == ["nn.Module: Sequential", "nn.Module: 2"]


def test_a_failed_variant_lets_go_of_its_module(targets: Path, tmp_path: Path, registered: Callable[..., None]) -> None:
    """The error holds no tensors, not even through a closure, so that the next variant has the memory."""
    kept: list[weakref.ref[nn.Module]] = []

    def fail_later(call: nn.Module, _args: object, _kwargs: object) -> Callable[..., object]:
        kept.append(weakref.ref(call))

        def run(*_args: object) -> None:
            raise MemoryError(type(call))

        return run

    registered("greedy", fail_later)
    (captured,) = capture_target(_target(targets, "geglu"), variants=["greedy"], out=tmp_path)
    gc.collect()

    assert captured.error is not None
    assert [reference() for reference in kept] == [None]


def test_a_target_that_exits_is_an_error(targets: Path, tmp_path: Path, registered: Callable[..., None]) -> None:
    """`sys.exit` in a user's code does not end the program that profiles it."""

    def leave(_call: object, _args: object, _kwargs: object) -> object:
        raise SystemExit(4)

    registered("leaves", leave)
    (captured,) = capture_target(_target(targets, "geglu"), variants=["leaves"], out=tmp_path)

    assert captured.error is not None
    assert captured.error.message.endswith("failed as `leaves`: SystemExit: 4")


@pytest.mark.gpu
@pytest.mark.slow
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_a_cuda_graph_spares_the_host_and_not_the_device(targets: Path, tmp_path: Path, spans: Spans) -> None:
    """One row is launch-bound: eager's host needs longer than its device, a replayed graph is one launch a step."""
    target = _target(targets, "geglu", "--rows", "1", "--dim", "768", "--hidden", "3072", "--device", "cuda")
    eager, graph = capture_target(target, variants=["eager", "compile:reduce-overhead"], out=tmp_path)

    assert (eager.error, graph.error) == (None, None)
    assert eager.environment is not None
    assert eager.environment.unprofiled is not None
    assert eager.environment.unprofiled.device_ns is not None
    assert eager.environment.unprofiled.device_ns < eager.environment.unprofiled.host_ns
    assert graph.environment is not None
    assert graph.environment.device_events is True
    weights = 3 * 768 * 3072 * 4
    workspace = 64 << 20  # cuBLAS takes its own from the same allocator: 32 MiB a handle on Hopper
    assert weights < (eager.environment.peak_memory_bytes or 0) < 2 * weights + workspace
    names = [event["name"] for event in spans(tmp_path / "geglu_compile-reduce-overhead.json.gz")]
    assert names.count("cudaGraphLaunch") == 3
