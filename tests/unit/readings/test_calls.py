from __future__ import annotations

import pytest

from foretrace.readings.calls import Call, call_of


@pytest.mark.parametrize(
    ("name", "call"),
    [
        ("cudaStreamSynchronize", Call.WAIT),
        ("hipDeviceSynchronize", Call.WAIT),
        ("cuCtxSynchronize", Call.WAIT),
        ("zeEventHostSynchronize", Call.WAIT),
        ("urQueueFinish", Call.WAIT),
        ("cudaStreamWaitEvent", Call.STREAM_WAIT),
        ("cudaGraphLaunch", Call.GRAPH),
        ("hipGraphLaunch", Call.GRAPH),
        ("cuGraphLaunch", Call.GRAPH),
        ("cudaMemcpyAsync", Call.COPY),
        ("cuMemcpyHtoDAsync_v2", Call.COPY),
        ("hipMemcpyWithStream", Call.COPY),
        ("cudaMemsetAsync", Call.SET),
        ("cuMemsetD8Async", Call.SET),
        ("cudaMalloc", Call.ALLOCATE),
        ("cudaMallocAsync", Call.ALLOCATE),
        ("cudaHostAlloc", Call.ALLOCATE),
        ("cuMemCreate", Call.ALLOCATE),
        ("hipMalloc", Call.ALLOCATE),
        ("cudaFree", Call.FREE),
        ("cudaFreeHost", Call.FREE),
        ("hipFree", Call.FREE),
        ("cudaFuncSetAttribute", Call.ATTRIBUTE),
        ("cudaFuncGetAttributes", Call.QUERY),
        ("cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags", Call.QUERY),
        ("cudaStreamIsCapturing", Call.QUERY),
        ("cudaEventQuery", Call.QUERY),
        ("cudaPeekAtLastError", Call.QUERY),
        ("cudaEventRecordWithFlags", Call.EVENT),
        ("cudaLaunchKernel", Call.LAUNCH),
        ("cuLaunchKernelEx", Call.LAUNCH),
        ("hipExtModuleLaunchKernel", Call.LAUNCH),
        ("urEnqueueKernelLaunchWithArgsExp", Call.LAUNCH),
        ("INVALID", Call.UNKNOWN),
        ("somethingElse", Call.OTHER),
    ],
)
def test_calls_by_their_words(name: str, call: Call) -> None:
    """One table serves CUDA's runtime and driver, HIP and Level Zero."""
    assert call_of(name) == call
