from __future__ import annotations

from build import BACKWARD, MAIN, TraceBuilder
from hypothesis import given, settings
from hypothesis import strategies as st

from foretrace.readings import READINGS, gaps
from foretrace.readings.idle import span, window

_TIMES = st.integers(0, 400)
_LENGTHS = st.integers(1, 80)
_KERNELS = st.lists(st.tuples(_TIMES, _LENGTHS, st.none() | _TIMES, st.sampled_from([7, 8])), min_size=1, max_size=8)
_HOST = st.lists(
    st.tuples(
        st.sampled_from(
            ["aten::mm", "aten::randn", "cudaStreamSynchronize", "cudaMalloc", "cudaMemcpyAsync", "dynamo"]
        ),
        _TIMES,
        _LENGTHS,
        st.sampled_from([MAIN, BACKWARD]),
    ),
    max_size=8,
)


def _built(kernels: list[tuple[int, int, int | None, int]], host: list[tuple[str, int, int, int]]) -> TraceBuilder:
    built = TraceBuilder().step(1, 0, 150).step(2, 150, 200)
    for name, start, dur, thread in host:
        kind = built.call if name.startswith("cuda") else built.op
        kind(name, start, dur, thread=thread)
    for start, dur, launched, stream in kernels:
        built.kernel("k", start, dur, launch=None if launched is None else (launched, 3), stream=stream)
    return built


@settings(max_examples=60)
@given(_KERNELS, _HOST)
def test_every_nanosecond_has_one_cause(
    kernels: list[tuple[int, int, int | None, int]], host: list[tuple[str, int, int, int]]
) -> None:
    """Whatever overlaps, nests or lacks a launch: no cause is negative and all add up to the stretch asked about."""
    run = _built(kernels, host).run()
    for low, high in (span(run), window(run), (-50, 20), (100, 300_000)):
        parts = gaps.breakdown(run, low, high)
        assert sum(parts.values()) == high - low
        assert min(parts.values()) >= 0


@settings(max_examples=25)
@given(_KERNELS, _HOST)
def test_no_host_side_reading_fails(
    kernels: list[tuple[int, int, int | None, int]], host: list[tuple[str, int, int, int]]
) -> None:
    """Every host-side question has an answer or silence for whatever a trace may hold."""
    run = _built(kernels, host).run()
    for reading in READINGS:
        answer = reading.answer(run)
        assert answer is None or (answer.question == reading.question and answer.sentence)
