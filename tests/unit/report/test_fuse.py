"""What ``foretrace fuse`` and ``foretrace tune`` say, from records written by hand and recorded traces."""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING

import pytest

from foretrace.diff import diff
from foretrace.render.to_terminal import to_terminal
from foretrace.report.fuse import Call, Check, Comparison, Error, Fuse, Measured, Module, fuse_document
from foretrace.report.tune import Tuned, tune_document
from foretrace.report.variants import Variant, variants
from foretrace.stats import Ratio

if TYPE_CHECKING:
    from collections.abc import Callable

    from foretrace.run import Run

CPU = Call(8, "plain", "no kernel runs on cpu")
FUSED = Call(8192, "fused", "measured at 8192 × 768 × 3072 (forward): pointwise 168, fused 148 µs")
ROWS = Call(1, "rows", "measured at 1 × 768 × 3072 (forward): pointwise 12, rows 6 µs")
OWN = Error(0.01, 0.004)
LIMIT = Error(0.04, 0.008)


def _served(name: str, *calls: Call) -> Module:
    return Module(name, "MLP", "silu", 768, 3072, calls=calls)


def _refused(name: str) -> Module:
    return Module(name, "MLP", refused="`down_proj` has hooks, which a fused call would skip")


def _against(swapped: Error, name: str = "") -> Comparison:
    return Comparison(name, swapped, LIMIT, OWN, OWN)


@pytest.mark.parametrize(
    ("device", "modules", "sentence"),
    [
        (
            None,
            (),
            (
                "No gated MLP was found in `m.py:f`: modules of three linears, or two with gate and up in one, are "
                "tried; experts in one tensor, and linears under wrappers of other names, are not."
            ),
        ),
        (None, (_refused("a"),), "0 of 1 gated MLP can be replaced; the table says what stands in the way."),
        (
            None,
            (_served("a", CPU), _refused("b")),
            "1 of 2 gated MLPs can be replaced; here they run plain PyTorch: the kernels need a CUDA GPU.",
        ),
        (
            "NVIDIA H200",
            (_served("a", Call(8, "plain", "no kernel serves torch.float64 on cuda")),),
            "1 of 1 gated MLP can be replaced; here they run plain PyTorch: no kernel serves them as they are.",
        ),
        (
            "NVIDIA H200",
            (_served("a", FUSED, ROWS), _served("b", FUSED)),
            "2 of 2 gated MLPs can be replaced; with these arguments they take the `fused` and `rows` paths.",
        ),
        ("NVIDIA H200", (_served("a"),), "1 of 1 gated MLP can be replaced; these arguments call none of them."),
    ],
)
def test_the_sentence(device: str | None, modules: tuple[Module, ...], sentence: str) -> None:
    """How many can be replaced and what then runs; nothing is promised that does not run."""
    assert Fuse("m.py:f", (), device, modules).sentence == sentence


def test_equal_layers_share_a_row() -> None:
    """Two layers with the same calls are one row a call; another size, a refusal and the root have their own."""
    modules = (
        _served("layers.0.mlp", FUSED, ROWS),
        _served("layers.1.mlp", FUSED, ROWS),
        Module("layers.2.mlp", "MLP", "silu", 768, 1024, calls=(FUSED,)),
        _refused("layers.3.mlp"),
        _served(""),
    )
    table = fuse_document(Fuse("m.py:f", (), "NVIDIA H200", modules)).blocks[2]
    rows = [(row["module"], row["count"], row.get("rows"), row.get("path")) for row in table.rows]  # type: ignore[union-attr]
    assert rows == [
        ("layers.{0,1}.mlp", 2, 8192, "fused"),
        ("layers.{0,1}.mlp", 2, 1, "rows"),
        ("layers.2.mlp", None, 8192, "fused"),
        ("layers.3.mlp", None, None, "refused"),
        ("the model itself", None, None, None),
    ]


@pytest.mark.parametrize(
    ("whole", "layer", "held", "sentence"),
    [
        (Error(0, 0), Error(0, 0), True, "The swapped model gives the original's results to the bit."),
        (
            Error(0.02, 0.003),
            Error(0.03, 0.004),
            True,
            (
                "The swapped model's results are 0.0030 from the original's, inside the tolerance, and of the layers "
                "alone the worst is 0.0040 away, inside its own."
            ),
        ),
        (
            Error(0.02, 0.003),
            Error(0.03, 0.05),
            False,
            (
                "The swapped model's results are 0.0030 from the original's, inside the tolerance, but of the layers "
                "alone the worst is 0.050 away, beyond its own."
            ),
        ),
        (
            Error(0.2, 0.003),
            Error(math.nan, math.nan),
            False,
            (
                "The swapped model's results are 0.0030 from the original's, beyond the tolerance, and of the layers "
                "alone the worst is nan away, beyond its own."
            ),
        ),
    ],
)
def test_the_check_says_what_decides(whole: Error, layer: Error, *, held: bool, sentence: str) -> None:
    """Either error of either comparison can break it, and so can what is not a number."""
    check = Check("fp32", _against(whole), (_against(Error(0, 0), "a"), _against(layer, "b")))
    assert (check.held, check.sentence) == (held, sentence)


@pytest.mark.parametrize(
    ("before", "after", "host", "device", "sentence"),
    [
        (
            Variant("eager", wall_ns=300_000, device_ns=250_000),
            Variant("fused", wall_ns=290_000, device_ns=150_000),
            Ratio(0.97, 0.5),
            Ratio(0.6, 0.01),
            "Without the profiler a step takes 250 µs → 150 µs of GPU time (−40.0 % turn by turn).",
        ),
        (
            Variant("eager", wall_ns=200_000),
            Variant("fused", wall_ns=230_000),
            Ratio(1.15, 0.02),
            None,
            "Without the profiler a step takes 200 µs → 230 µs of wall time (+15.0 % turn by turn).",
        ),
        (
            Variant("eager", wall_ns=200_000),
            Variant("fused", wall_ns=150_000),
            Ratio(0.75, 0.3),
            None,
            (
                "Without the profiler a step takes 200 µs → 150 µs of wall time: no difference beyond the 30.0 % by "
                "which it varies from turn to turn."
            ),
        ),
        (Variant("eager"), Variant("fused"), None, None, "A step was not timed without the profiler."),
    ],
)
def test_the_gain_is_said_only_where_timings_show_it(
    before: Variant,
    after: Variant,
    host: Ratio | None,
    device: Ratio | None,
    sentence: str,
    recorded: Callable[[str], Run],
) -> None:
    """GPU time before wall time, each by its own turns; a difference within their scatter is none."""
    run = recorded("mlp_64x128x768x3072_eager")
    assert Measured(before, after, diff(run, run), host, device).sentence == sentence


def test_a_whole_report(recorded: Callable[[str], Run], snapshot: Callable[[str, str], None]) -> None:
    """Sentence, modules, numerics of the model and its worst layer, what changed between two traces, what is next."""
    names = ("mlp_64x128x768x3072_eager", "mlp_64x128x768x3072_compiled")
    before, after = (recorded(name) for name in names)
    rows = variants([("eager", before), ("fused", after)])
    check = Check("fp32", _against(Error(0.02, 0.003)), (_against(Error(0.03, 0.004), "layers.1.mlp"),))
    modules = (_served("layers.0.mlp", FUSED), _served("layers.1.mlp", FUSED), _refused("head"))
    measured = Measured(rows[0], rows[1], diff(before, after), Ratio(0.93, 0.01), Ratio(0.88, 0.01))
    found = Fuse("m.py:f", ("--rows", "64"), "NVIDIA H200", modules, check, measured)
    text = to_terminal(fuse_document(found), width=100)
    for path, shown in ((before.trace.path, "eager.json.gz"), (after.trace.path, "fused.json.gz")):
        text = re.sub(rf"\s+foretrace read {re.escape(path)}", f"  foretrace read {shown}", text)  # wherever it lies
    snapshot(text, "fuse.txt")


def test_what_to_do_next_repeats_the_arguments() -> None:
    """The commands that are suggested are the ones to type, on a device where there is something to measure."""
    text = to_terminal(fuse_document(Fuse("m.py:f", ("--name", "a b"), "GPU", (_served("a", FUSED),))), width=100)
    assert "foretrace fuse m.py:f --check -- --name 'a b'" in text
    assert "foretrace fuse m.py:f --measure -- --name 'a b'" in text
    on_a_cpu = to_terminal(fuse_document(Fuse("m.py:f", (), None, (_served("a", CPU),))), width=100)
    assert re.search(r"ask again where a CUDA GPU is +foretrace fuse m.py:f --check --measure", on_a_cpu)
    assert "swap them in your code" in text
    assert "swap them in your code" not in on_a_cpu  # it would change nothing there


def test_the_json_says_unknown_as_null() -> None:
    """The promised keys; what was not asked for is null, and whether the check held stands beside its figures."""
    record = Fuse("m.py:f", (), None, (_refused("a"),)).to_json()
    keys = ["schema", "sentence", "target", "arguments", "device", "modules", "check", "measured", "is_here"]
    assert list(record) == keys
    assert (record["schema"], record["check"], record["measured"]) == ("foretrace.fuse/1", None, None)
    checked = Fuse("m.py:f", (), None, (), Check("fp64", _against(Error(1, 1)))).to_json()["check"]
    assert (checked["held"], checked["reference"], checked["layers"]) == (False, "fp64", ())


def test_tuned_shapes_name_their_fastest_path() -> None:
    """A path that serves no other shape leaves a gap; the folder of the table is what the layers are told."""
    rows = (
        {"mode": "forward", "rows": 8192, "dim": 768, "hidden": 3072, "us": {"pointwise": 167.83, "fused": 148.2}},
        {"mode": "forward", "rows": 1, "dim": 768, "hidden": 3072, "us": {"pointwise": 12.5, "rows": 13.0}},
    )
    tuned = Tuned("Some GPU", "tables/some_gpu.json", rows)
    assert [row["fastest"] for row in tuned.to_json()["rows"]] == ["fused", "pointwise"]
    text = to_terminal(tune_document(tuned), width=100)
    assert "2 shapes measured; the times are in tables/some_gpu.json." in text
    assert "export FORETRACE_FUSED_TABLES=tables" in text
    lines = [line.split() for line in text.splitlines() if line.lstrip().startswith("forward")]
    assert lines == [
        ["forward", "8,192", "768", "3,072", "168", "148", "–", "fused"],
        ["forward", "1", "768", "3,072", "12.5", "–", "13.0", "pointwise"],
    ]
