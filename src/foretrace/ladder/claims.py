"""What the articles expect of each rung, as claims that a run confirms, breaks or cannot speak about.

The articles profiled on an A100; their guesses are stated as they are, so that another device can break them and the
tool can say what is there instead.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from foretrace.units import plural

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from foretrace.ladder.facts import Facts

Verdict = Literal["confirmed", "broken", "unknown"]
NO_GPU = "a CPU trace has operators and no kernels"


@dataclass(frozen=True, slots=True)
class Finding:
    """A claim held against a run."""

    claim: str
    verdict: Verdict
    why: str


@dataclass(frozen=True, slots=True)
class Claim:
    """One expectation, stated before the trace is opened.

    Attributes:
        text: The expectation, as a sentence without a full stop.
        hold: Returns the verdict and what is there, given this rung's facts and those of earlier rungs.
        needs_gpu: Whether only kernels can decide it.
    """

    text: str
    hold: Callable[[Facts, Mapping[str, Facts]], tuple[Verdict, str]]
    needs_gpu: bool = True

    def against(self, facts: Facts, walked: Mapping[str, Facts]) -> Finding:
        """The claim's verdict on one run."""
        if self.needs_gpu and not facts.on_gpu:
            return Finding(self.text, "unknown", NO_GPU)
        verdict, why = self.hold(facts, walked)
        return Finding(self.text, verdict, why)


def kernels(**wanted: int) -> Claim:
    """So many kernels a step, by class: ``kernels(gemm=3, pointwise=2)``."""
    total = sum(wanted.values())
    parts = " and ".join(f"{count} {name}" for name, count in wanted.items())
    expected = Counter(wanted)

    def hold(facts: Facts, _: Mapping[str, Facts]) -> tuple[Verdict, str]:
        classes = [kernel.identity.op_class for kernel in facts.kernels]
        helpers = classes.count("gemm-helper")  # a split-K reduce counts with its GEMM
        seen = Counter(name.replace("-", "_") for name in classes if name != "gemm-helper")
        shown = ", ".join(f"{count} {name.replace('_', '-')}" for name, count in seen.items())
        more = f", {plural(helpers, 'GEMM helper')}" if helpers else ""
        return _verdict(seen == expected), f"{plural(len(facts.kernels), 'kernel')}: {shown}{more}"

    return Claim(f"{plural(total, 'kernel')} a step: {parts}", hold)


def epilogue(name: str, instead_of: str) -> Claim:
    """The GEMM applies ``name`` itself, so that no ``instead_of`` is launched."""

    def hold(facts: Facts, _: Mapping[str, Facts]) -> tuple[Verdict, str]:
        launched = {kernel.op for kernel in facts.kernels}
        named = [kernel for kernel in facts.kernels if kernel.identity.epilogue == name]
        says = f"its name says so: `{named[0].name}`" if named else "its name does not say so, and nothing else ran"
        if instead_of in launched:
            return "broken", f"`{instead_of}` launches a kernel of its own"
        return "confirmed", says

    return Claim(f"the {name} is the GEMM's epilogue: no kernel of `{instead_of}`", hold)


def launches_nothing(op: str) -> Claim:
    """``op`` is on the CPU and launches no kernel."""

    def hold(facts: Facts, _: Mapping[str, Facts]) -> tuple[Verdict, str]:
        if op not in facts.ops:
            return "broken", f"`{op}` is not in the step"
        if any(kernel.op == op for kernel in facts.kernels):
            return "broken", f"`{op}` launches a kernel"
        return "confirmed", f"{plural(facts.ops[op], 'call')} on the CPU, none reaches the GPU"

    return Claim(f"`{op}` rewrites shape and strides on the CPU and launches nothing", hold, needs_gpu=False)


def gone(op: str, since: str) -> Claim:
    """``op``, there in rung ``since``, is gone."""

    def hold(facts: Facts, walked: Mapping[str, Facts]) -> tuple[Verdict, str]:
        if since not in walked:
            return "unknown", f"`{since}` was not walked"
        before, now = walked[since].ops[op], facts.ops[op]
        if not before:
            return "unknown", f"`{op}` was not there before"
        return _verdict(not now), f"{before} before, {now} now"

    return Claim(f"`{op}` is gone from the CPU", hold, needs_gpu=False)


def new_rows(since: str) -> Claim:
    """``torch.compile`` adds rows of its own on the CPU."""

    def hold(facts: Facts, walked: Mapping[str, Facts]) -> tuple[Verdict, str]:
        added = [op for op in facts.ops if op not in walked[since].ops] if since in walked else []
        own = [op for op in added if not op.startswith(("aten::", "triton_"))]
        return _verdict(bool(own)), f"added: {', '.join(f'`{op}`' for op in own)}" if own else "nothing was added"

    return Claim("the CPU has rows that eager has not: lookup, guards, prologue", hold, needs_gpu=False)


def no_compiler() -> Claim:
    """Nothing of Dynamo is on the CPU."""

    def hold(facts: Facts, _: Mapping[str, Facts]) -> tuple[Verdict, str]:
        found = [op for op in facts.ops if "Dynamo" in op or "Compiled" in op]
        return _verdict(not found), f"found {found[0]}" if found else "no lookup, no guards, no prologue"

    return Claim("nothing is compiled: no lookup, no guards on the CPU", hold, needs_gpu=False)


def same_gemms(since: str) -> Claim:
    """The GEMM kernels of rung ``since``, byte for byte."""

    def hold(facts: Facts, walked: Mapping[str, Facts]) -> tuple[Verdict, str]:
        if since not in walked:
            return "unknown", f"`{since}` was not walked"
        before = [kernel.name for kernel in walked[since].kernels if kernel.is_gemm]
        now = [kernel.name for kernel in facts.kernels if kernel.is_gemm]
        if before == now:
            return "confirmed", ", ".join(f"`{name}`" for name in dict.fromkeys(now))
        pairs = [f"`{a}` became `{b}`" for a, b in zip(before, now, strict=False) if a != b]
        return "broken", "; ".join(dict.fromkeys(pairs)) or f"{len(before)} before, {len(now)} now"

    return Claim("the GEMM kernels are those of eager, byte for byte", hold)


def another_for(last_of: int) -> Claim:
    """The last of ``last_of`` GEMMs, with the other shape, gets another kernel than the first."""

    def hold(facts: Facts, _: Mapping[str, Facts]) -> tuple[Verdict, str]:
        gemms = [kernel for kernel in facts.kernels if kernel.is_gemm]
        if len(gemms) != last_of:
            return "unknown", f"{plural(len(gemms), 'GEMM')} in the step"
        first, last = gemms[0].identity, gemms[-1].identity
        return _verdict(gemms[0].name != gemms[-1].name), f"{first.short} against {last.short}"

    return Claim("the same FLOPs in another shape get another GEMM kernel (down against gate and up)", hold)


def fused(*ops: str) -> Claim:
    """One generated kernel whose name lists all of ``ops``; on a CPU, one C++ kernel among the operators."""
    listed = " and ".join(ops)

    def hold(facts: Facts, _: Mapping[str, Facts]) -> tuple[Verdict, str]:
        for kernel in facts.kernels:
            inside = kernel.identity.fused_ops or ()
            if set(ops) <= set(inside):
                return "confirmed", f"`{kernel.name}`, with {', '.join(inside)} inside"
        for name in facts.ops:
            if "cpp_fused_" in name and all(op in name.split("_") for op in ops):
                return "confirmed", f"the C++ kernel `{name}`"
        return "broken", f"no kernel names {listed}"

    return Claim(f"{listed} are one generated kernel", hold, needs_gpu=False)


def occupancy_launches() -> Claim:
    """Each GEMM is preceded by an occupancy query and launched by ``cudaLaunchKernel``, as on an A100."""

    def hold(facts: Facts, _: Mapping[str, Facts]) -> tuple[Verdict, str]:
        gemms = [kernel for kernel in facts.kernels if kernel.is_gemm]
        calls = Counter(kernel.call for kernel in gemms)
        queried = sum(kernel.queries for kernel in gemms)
        expected = queried == len(gemms) and set(calls) == {"cudaLaunchKernel"}
        shown = ", ".join(f"{count} × `{call}`" for call, count in calls.items())
        seen = f"{shown}; {plural(queried, 'occupancy query', 'occupancy queries')}"
        if not expected and any(kernel.identity.cluster for kernel in gemms):
            seen += "; kernels with thread-block clusters are launched through the Ex call"
        return _verdict(expected and bool(gemms)), seen

    return Claim("each GEMM asks for its occupancy and is launched by `cudaLaunchKernel` (an A100 does)", hold)


def surprises(facts: Facts) -> tuple[str, ...]:
    """What runs on the device and no claim speaks of."""
    found = []
    if facts.memsets:
        owners = Counter(kernel.op for kernel in facts.kernels for _ in range(kernel.memsets))
        for op, count in owners.items():
            found.append(f"{plural(count, 'memset')} a step before kernels of `{op}`: the library asks for them")
        rest = facts.memsets - sum(owners.values())
        if rest > 0:
            found.append(f"{plural(rest, 'memset')} a step that belong to no kernel's operator")
    others = Counter(kernel.call for kernel in facts.kernels if kernel.call not in (None, "cudaLaunchKernel"))
    for call, count in others.items():
        found.append(f"{plural(count, 'kernel')} launched by `{call}`, not `cudaLaunchKernel`")
    return tuple(found)


def _verdict(holds: bool) -> Verdict:  # noqa: FBT001 - private, one argument
    return "confirmed" if holds else "broken"
