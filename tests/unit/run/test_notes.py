"""What a run says of its own gaps: devices, profiler modes, schedules, graphs, bookkeeping."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from foretrace.run import Run

Recorder = Any


def test_a_step_mark_of_another_process_divides_nothing(trace: Recorder) -> None:
    """A mark of 13 s on a process without work, in a recording of 0.36 s: flagged, and no step of the run."""
    trace.add(cat="Trace", name="PyTorch Profiler (0)", pid="Spans", tid="PyTorch Profiler", ts=0, dur=355494.184)
    trace.add(cat="user_annotation", name="ProfilerStep#1", pid=3100453, ts=0, dur=13336315.805)
    trace.op("triton_poi_fused_add_cos_sin_0", 100, 1000)
    trace.call(35, 200, 47.768, name="cuLaunchKernel")
    trace.kernel(35, 245.426, 1.760, name="triton_poi_fused_add_cos_sin_0")
    run = trace.run()
    assert run.steps == ()
    assert run.busy_ns() == 1_760
    text = _texts(run)["odd-steps"]
    assert "ProfilerStep#1 lasts 13.3 s" in text
    assert "the profiler ran for 355 ms" in text


def test_a_mark_longer_than_the_recording_is_odd_on_the_same_process_too(trace: Recorder) -> None:
    """The profiler's own span bounds every step."""
    trace.add(cat="Trace", name="PyTorch Profiler (0)", pid="Spans", tid="x", ts=0, dur=100)
    trace.annotation("ProfilerStep#1", 0, 50)
    trace.annotation("ProfilerStep#2", 50, 200)
    trace.op("aten::mm", 10, 5)
    run = trace.run()
    assert [step.index for step in run.steps] == [1]
    assert "odd-steps" in _texts(run)


def test_one_step_for_everything_is_said(trace: Recorder) -> None:
    """`prof.step()` once an epoch leaves one step: nothing can be said about spread."""
    trace.annotation("ProfilerStep#1", 0, 1_000_000)
    trace.op("aten::mm", 10, 5)
    assert "only one step" in _texts(trace.run())["one-step"]


def test_an_empty_recording_names_the_schedule(trace: Recorder) -> None:
    """A file with bookkeeping rows only: the schedule never reached active."""
    trace.add(cat="Trace", name="PyTorch Profiler (0)", pid="Spans", tid="PyTorch Profiler", ts=0, dur=10)
    trace.add(ph="i", name="Record Window End", pid="", tid="", ts=10, s="g")
    text = _texts(trace.run())["nothing-recorded"]
    assert "call `prof.step()` once per iteration" in text


def test_a_recording_after_its_cycle_names_the_handler(trace: Recorder) -> None:
    """Written when an active cycle had ended, a file holds the profiler's own wait for the device and nothing else."""
    trace.add(cat="cuda_runtime", name="cudaDeviceSynchronize", pid=1, tid=1, ts=5, dur=8, args={"correlation": 9})
    texts = _texts(trace.run(deviceProperties=[{"id": 0, "name": "NVIDIA H200"}]))
    assert texts.keys() == {"nothing-recorded"}
    assert "write it in `on_trace_ready`" in texts["nothing-recorded"]


def test_an_empty_recording_without_a_schedule_names_the_threads(trace: Recorder) -> None:
    """The profiler sees ops of its own thread only: work that others do leaves the same empty file."""
    trace.add(cat="Trace", name="PyTorch Profiler (0)", pid="Spans", tid="PyTorch Profiler", ts=0, dur=18_343)
    assert "other threads or processes than the profiler's" in _texts(trace.run())["nothing-recorded"]


def test_lost_times_are_no_missing_recording(trace: Recorder) -> None:
    """Ops and kernels whose timestamps no integer holds were recorded all the same: only their times are lost."""
    trace.op("aten::mm", 1e30, 5)
    trace.kernel(3, 1e30, 5)
    texts = _texts(trace.run(deviceProperties=[{"id": 0, "name": "NVIDIA H200"}]))
    assert not {"unknown-categories", "nothing-recorded", "no-gpu-activity"} & texts.keys()
    assert "lost-timestamps" in texts


def test_bookkeeping_is_neither_op_nor_span(trace: Recorder) -> None:
    """Spans, iteration marks and the window's end stay out of ops and GPU span; process ids may mix kinds."""
    trace.add(cat="Trace", name="PyTorch Profiler (0)", pid="Spans", tid="PyTorch Profiler", ts=0, dur=9_999)
    trace.add(ph="i", name="Iteration Start: PyTorch Profiler", pid="Traces", tid="Trace PyTorch Profiler", ts=0, s="g")
    trace.add(ph="i", name="Record Window End", pid="", tid="", ts=9_999, s="g")
    trace.op("aten::mm", 100, 10)
    trace.call(1, 102)
    trace.kernel(1, 200, 10)
    run = trace.run()
    assert [run.name(i) for i in range(len(run.host))] == ["aten::mm", "cudaLaunchKernel"]
    assert (run.activities.start_ns[0], run.activities.end_ns[-1]) == (200_000, 210_000)


def test_syncs_overhead_and_annotations_are_no_work(trace: Recorder) -> None:
    """`cuda_sync` rows on any thread, profiler overhead and GPU annotations leave busy alone."""
    trace.call(1, 0)
    trace.kernel(1, 10, 10)
    for tid, name in ((7, "Stream Sync"), (-1, "Event Sync"), (-1, "Context Sync"), (20, "Stream Wait Event")):
        trace.add(cat="cuda_sync", name=name, pid=0, tid=tid, ts=30, dur=500, args={"stream": tid, "correlation": 9})
    trace.add(cat="overhead", name="Buffer Request", pid=-1, tid=0, ts=40, dur=800)
    trace.add(cat="gpu_user_annotation", name="region", pid=0, tid=7, ts=5, dur=900)
    run = trace.run()
    assert run.busy_ns() == 10_000
    assert len(run.activities) == 1


def test_overhead_inside_a_call_is_not_the_calls_own_time(trace: Recorder) -> None:
    """A buffer request of 800 µs inside a launch of 805 µs leaves 5 µs for the launch."""
    trace.op("aten::mm", 0, 900)
    trace.call(1, 10, 805)
    trace.add(cat="overhead", name="Buffer Request", pid=-1, tid=0, ts=12, dur=800)
    trace.kernel(1, 1000, 3)
    run = trace.run()
    self_ns = {run.name(i): int(run.host.self_ns[i]) for i in range(len(run.host))}
    assert self_ns == {"aten::mm": 95_000, "cudaLaunchKernel": 5_000, "Buffer Request": 800_000}
    assert run.busy_ns() == 3_000


def test_a_gpu_without_activity_is_not_called_idle(trace: Recorder) -> None:
    """A listed GPU and no device row: ProfilerActivity.CUDA or CUPTI is missing."""
    trace.op("aten::mm", 0, 10)
    text = _texts(trace.run(deviceProperties=[{"id": 0, "name": "NVIDIA A100-SXM4-40GB"}]))["no-gpu-activity"]
    assert text.startswith("a GPU is listed but no GPU activity was recorded")
    assert "ProfilerActivity.CUDA" in text
    assert "CUPTI" in text


def test_a_cpu_trace_says_so(trace: Recorder) -> None:
    """No GPU named and none seen."""
    trace.op("aten::mm", 0, 10)
    assert _texts(trace.run()) == {"cpu-only": "no GPU events: CPU times only"}


def test_range_profiler_mode_is_named(trace: Recorder) -> None:
    """Ranges with counters and runtime calls, no kernel: counters only."""
    trace.call(1, 0)
    trace.add(cat="cuda_profiler_range", name="__missing__", pid=0, tid=0, ts=5, dur=50)
    text = _texts(trace.run(deviceProperties=[{"name": "NVIDIA H100"}]))["range-profiler"]
    assert "range-profiler mode" in text
    assert "no kernel timeline" in text


def test_mps_work_is_not_visible(trace: Recorder) -> None:
    """Ops of the MPS backend without any device row."""
    trace.op("aten::_mps_convolution", 0, 10)
    trace.op("aten::mps::linear", 20, 10)
    assert _texts(trace.run())["mps"].startswith("MPS work is not visible to this profiler")


def test_xpu_kernels_link_without_stream_or_grid(trace: Recorder) -> None:
    """Intel's rows name queues, not streams: linked, device XPU, what is missing is unknown."""
    trace.op("aten::mm", 0, 10)
    trace.add(cat="xpu_runtime", name="urEnqueueKernelLaunch", ts=2, dur=3, args={"correlation": 4})
    queues = {"correlation": 4, "sycl queue": "0x1", "l0 queue": "0x2", "device": 0}
    trace.add(cat="kernel", name="gemm_kernel", pid=0, tid=1, ts=20, dur=5, args=queues)
    run = trace.run()
    assert run.device_name == "XPU"
    assert (run.activity(0).op, run.activity(0).stream) == ("aten::mm", None)


def test_a_grid_on_the_launch_is_the_kernels(trace: Recorder) -> None:
    """ROCm writes grid and block on the launch's row, CUDA on the kernel's; where neither does, they are unknown."""
    shape = {"grid": [4, 2, 1], "block": [256, 1, 1], "shared memory": 0}
    trace.add(cat="cuda_runtime", name="hipLaunchKernel", ts=0, dur=3, args={"correlation": 1, "kernel": "k", **shape})
    trace.kernel(1, 10, 5)
    trace.call(2, 20)
    trace.kernel(2, 30, 5, grid=[8, 1, 1], block=[128, 1, 1])
    trace.call(3, 40)
    trace.kernel(3, 50, 5)
    run = trace.run()
    expected = [([4, 2, 1], [256, 1, 1]), ([8, 1, 1], [128, 1, 1]), (None, None)]
    assert expected == [run.launch_shape(i) for i in range(3)]


def test_mtia_events_are_device_work(trace: Recorder) -> None:
    """Ops of an MTIA trace lie in `mtia_ccp_events` and link to `mtia_runtime`."""
    trace.op("aten::mm", 0, 10)
    trace.add(cat="mtia_runtime", name="launch", ts=2, dur=3, args={"correlation": 4})
    trace.add(cat="mtia_ccp_events", name="fba_kernel", pid=0, tid=1, ts=20, dur=5, args={"correlation": 4})
    run = trace.run()
    assert run.device_name == "MTIA"
    assert (run.activity(0).op, run.busy_ns()) == ("aten::mm", 5_000)
    assert "cpu-only" not in _texts(run)


def test_torch_npu_output_is_named(trace: Recorder) -> None:
    """Ascend's layout: CPU ops are read, device rows have no category and are not work."""
    trace.add(ph="M", name="process_name", pid=9, args={"name": "Ascend Hardware"})
    trace.op("aten::mm", 0, 10)
    trace.add(name="MatMul", pid=9, tid=3, ts="20.5", dur=5, args={"Task Type": "AI_CORE", "Stream Id": "3"})
    run = trace.run()
    assert "torch_npu" in _texts(run)["torch-npu"]
    assert run.busy_ns() == 0


@pytest.mark.parametrize("category", ["Kernel", "kernel"])
def test_old_category_names_are_work_too(trace: Recorder, category: str) -> None:
    """Traces of PyTorch 1.8 capitalise, and write steps as operators."""
    trace.add(cat="Operator", name="ProfilerStep#0", ts=0, dur=100)
    trace.add(cat="Operator", name="aten::mm", ts=5, dur=20)
    trace.add(cat="Runtime", name="cudaLaunchKernel", ts=10, dur=5, args={"correlation": 3})
    trace.add(cat=category, name="k", pid=0, tid=7, ts=40, dur=8, args={"stream": 7, "correlation": 3})
    trace.add(cat="Memcpy", name="Memcpy DtoH", pid=0, tid=7, ts=50, dur=2, args={"stream": 7, "correlation": 0})
    run = trace.run()
    assert run.busy_ns() == 10_000
    assert [(step.index, step.activities.tolist()) for step in run.steps] == [(0, [0])]
    assert run.activity(0).op == "aten::mm"


def test_a_wait_that_no_graph_kernel_explains_bounds_busy(trace: Recorder) -> None:
    """A while node's kernels are recorded for the first turn only; the wait after the launch shows the rest."""
    trace.call(1, 0, 10, name="cudaGraphLaunch")
    trace.kernel(1, 20, 30, **{"graph id": 5})
    trace.call(2, 15, 985, name="cudaStreamSynchronize")
    assert _texts(trace.run())["graph-lower-bound"].startswith("busy is a lower bound")


def test_a_graph_whose_kernels_fill_the_wait_bounds_nothing(trace: Recorder) -> None:
    """The synchronize returns soon after the last kernel."""
    trace.call(1, 0, 10, name="cudaGraphLaunch")
    trace.kernel(1, 20, 970, **{"graph id": 5})
    trace.call(2, 15, 985, name="cudaStreamSynchronize")
    assert "graph-lower-bound" not in _texts(trace.run())


def test_kernels_after_a_bare_graph_launch_are_a_labelled_guess(trace: Recorder) -> None:
    """A graph launch of HIP without flow or graph ids: still orphans, probably the graph's."""
    trace.call(1, 0, 10, name="hipGraphLaunch")
    trace.kernel(0, 20, 30)
    trace.kernel(0, 60, 30)
    trace.call(2, 95, 10, name="hipStreamSynchronize")
    trace.kernel(0, 200, 30)
    run = trace.run()
    (note,) = [note for note in run.notes if note.kind == "probably-graph"]
    assert note.count == 2
    assert "probably" in note.text
    assert all(run.why_outside(i) is not None for i in range(3))


def _texts(run: Run) -> dict[str, str]:
    return {note.kind: note.text for note in run.notes}


@pytest.mark.parametrize("key", ["Input Dims", "Input dims"])
def test_shapes_in_either_spelling(trace: Recorder, key: str) -> None:
    """PyTorch 1.8 wrote `Input dims` for what is `Input Dims` since: the shapes are those of the op."""
    trace.op("aten::mm", 0, 10, **{key: [[64, 32], [32, 16]], "Input type": ["float", "float"]})
    trace.call(1, 2)
    trace.kernel(1, 20, 5)
    assert trace.run().activity(0).shapes == [[64, 32], [32, 16]]
