"""What launches, what does not, and under which module's name, from code alone."""

from __future__ import annotations

import subprocess
import sys
import time
from typing import TYPE_CHECKING, Any

import pytest
import torch
from torch import nn
from torch.nn import functional

from foretrace.errors import InputError
from foretrace.guess import guess, guess_built

if TYPE_CHECKING:
    from foretrace.verdict import Guess

BF16 = torch.bfloat16


def ops(made: Guess, phase: str | None = None) -> list[str]:
    """Kernels by op, without the namespace."""
    return [(k.op or "").removeprefix("aten::") for k in made.kernels if phase in (None, k.phase)]


def of(call: Any, *args: Any, **options: Any) -> Guess:
    """The guess about an H200."""
    return guess(call, *args, on="h200", **options)


def test_the_package_is_the_function() -> None:
    """`foretrace.guess` can be called and has its modules, whichever is asked for first."""
    code = "import foretrace, torch; foretrace.guess; import foretrace.guess.plan as plan; assert plan.plan; "
    code += "print(len(foretrace.guess(torch.nn.ReLU(), torch.ones(2)).kernels))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "1\n"


def test_views_launch_nothing() -> None:
    """Transposing, slicing, expanding and viewing are the CPU's bookkeeping; making it contiguous is a copy."""
    made = of(lambda x: x.t()[1:].unsqueeze(0).expand(3, -1, -1), torch.ones(4, 5))
    assert made.kernels == ()
    assert set(made.launches_nothing) == {"aten::t", "aten::slice", "aten::unsqueeze", "aten::expand"}
    assert made.sentence == "Expect no kernel at all."
    assert ops(of(lambda x: x.t().contiguous(), torch.ones(4, 5))) == ["copy_"]


def test_a_list_of_single_ops() -> None:
    """Casts copy, factories fill, an out-of-place masked fill copies first, an embedding gathers."""
    mask = torch.ones(4, 4, dtype=torch.bool)
    assert ops(of(lambda x: x.float(), torch.ones(4, dtype=BF16))) == ["copy_"]
    assert ops(of(lambda x: x.masked_fill(mask, 0.0), torch.ones(4, 4))) == ["copy_", "masked_fill_"]
    assert ops(of(torch.zeros_like, torch.ones(4))) == ["fill_"]
    assert ops(of(nn.Embedding(10, 4), torch.zeros(3, dtype=torch.long))) == ["index_select"]
    assert ops(of(nn.Dropout(0.1).train(), torch.ones(4))) == ["native_dropout"]
    assert ops(of(nn.Dropout(0.1).eval(), torch.ones(4))) == []
    assert ops(of(nn.RMSNorm(4), torch.ones(2, 4))) == ["_fused_rms_norm"]
    assert ops(of(nn.Conv2d(3, 4, 1), torch.ones(1, 3, 4, 4))) == ["cudnn_convolution", "add_"]


def test_leading_dimensions_are_folded_into_one_product() -> None:
    """A linear layer on [2, 3, 8] is one GEMM of 6 rows, with its bias in the epilogue."""
    (kernel,) = of(nn.Linear(8, 16), torch.ones(2, 3, 8)).kernels
    assert kernel.shapes == ((16,), (6, 8), (8, 16))
    assert kernel.epilogue == "bias"
    assert kernel.flops == 2 * 6 * 8 * 16


def test_a_bias_that_no_epilogue_takes() -> None:
    """One output column keeps `addmm` from cuBLASLt: the bias is copied into the result first."""
    kernels = of(nn.Linear(8, 1), torch.ones(6, 8)).kernels
    assert [k.op_class for k in kernels] == ["copy", "gemm"]
    assert kernels[1].epilogue is None


@pytest.mark.parametrize(
    ("rows", "depth", "columns", "splits"),
    [
        (1, 3072, 768, True),
        (4, 2816, 1024, True),
        (4, 1024, 1024, False),
        (4, 4096, 4096, False),
        (384, 3072, 768, False),
    ],
)
def test_split_k_is_for_thin_outputs_and_long_sums(rows: int, depth: int, columns: int, *, splits: bool) -> None:
    """What an H200 was seen to do: few output tiles and a K of thousands, and nothing else."""
    made = of(nn.Linear(depth, columns, bias=False, dtype=BF16), torch.ones(rows, depth, dtype=BF16))
    assert [k.op_class for k in made.kernels] == ["gemm", "gemm-helper"] if splits else ["gemm"]


@pytest.mark.parametrize(
    ("device", "dtype", "keys", "masked", "op"),
    [
        ("h200", BF16, 32, False, "_cudnn_attention_forward"),
        ("h200", BF16, 1, False, "_flash_attention_forward"),
        ("NVIDIA A100-SXM4-80GB", BF16, 32, False, "_flash_attention_forward"),
        ("NVIDIA A100-SXM4-80GB", BF16, 32, True, "_efficient_attention_forward"),
        ("h200", torch.float32, 32, False, "_efficient_attention_forward"),
    ],
)
def test_attention_backends(device: str, dtype: torch.dtype, keys: int, *, masked: bool, op: str) -> None:
    """Hopper runs cuDNN, older devices flash attention; a mask or float32 takes the memory-efficient kernel."""
    q, k = torch.ones(1, 2, 32, 16, dtype=dtype), torch.ones(1, 2, keys, 16, dtype=dtype)
    mask = torch.zeros(32, keys, dtype=dtype) if masked else None
    made = guess(lambda q, k: functional.scaled_dot_product_attention(q, k, k, attn_mask=mask), q, k, on=device)
    assert ops(made) == [op]


def test_backward_kernels_bear_their_modules_name() -> None:
    """Each gradient belongs to the module whose forward it is of."""
    model = nn.Sequential(nn.Linear(4, 8, bias=False), nn.ReLU(), nn.Linear(8, 2, bias=False))

    def step() -> None:
        model(torch.ones(3, 4)).sum().backward()

    backward = [(k.source, k.op) for k in of(step).kernels if k.phase == "backward"]
    assert backward == [
        ("2", "aten::mm"),
        ("2", "aten::mm"),
        ("1", "aten::threshold_backward"),
        ("0", "aten::mm"),
    ]


def test_an_optimizer_takes_lists_and_keeps_its_counters_on_the_host() -> None:
    """Plain SGD is one launch for all parameters; AdamW eight, none for the step counters."""
    model = nn.Linear(4, 4)
    sgd, adam = torch.optim.SGD(model.parameters(), 0.1), torch.optim.AdamW(model.parameters())

    def step(optimizer: torch.optim.Optimizer) -> None:
        model(torch.ones(2, 4)).sum().backward()
        optimizer.step()
        optimizer.zero_grad()

    assert ops(of(lambda: step(sgd)), "optimizer") == ["_foreach_add_"]
    assert len(ops(of(lambda: step(adam)), "optimizer")) == 8


def test_lists_too_long_for_one_launch() -> None:
    """Twelve tensors of 4,194,304 elements are 768 chunks of 65,536: three launches of at most 320."""
    many = [torch.ones(4096, 1024) for _ in range(12)]
    assert len(of(lambda: torch._foreach_mul_(many, 2.0)).kernels) == 3
    small = [torch.ones(2)] * 111  # one more than a launch takes
    assert len(of(lambda: torch._foreach_mul_(small, 2.0)).kernels) == 2


def test_a_module_is_left_as_it_is() -> None:
    """The user's module keeps its weights, gradients and mode; nothing fake stays behind."""
    model = nn.Linear(4, 4)
    before = model.weight.detach().clone()
    of(model, torch.ones(2, 4), grad=True)
    assert type(model.weight) is nn.Parameter
    assert torch.equal(model.weight, before)
    assert model.weight.grad is None
    assert torch.equal(model(torch.ones(2, 4)), functional.linear(torch.ones(2, 4), before, model.bias))


def test_tied_weights_stay_tied_and_moves_to_a_gpu_are_no_matter() -> None:
    """Building, casting and moving on fake tensors: a head that shares the embedding's weight still does."""

    def build() -> tuple[Any, tuple[Any, ...], dict[str, Any]]:
        model = nn.Sequential(nn.Embedding(10, 4), nn.Linear(4, 10, bias=False))
        model[1].weight = model[0].weight
        model = model.to(BF16).cuda().to("cuda:0")
        assert model[1].weight is model[0].weight
        return model, (torch.zeros(3, dtype=torch.long, device="cuda"),), {}

    assert ops(guess_built(build, on="h200")) == ["index_select", "mm"]


def test_a_block_of_a_70b_model_takes_seconds_and_no_memory() -> None:
    """738 million parameters (1.5 GB in bf16) are built and guessed at in under ten seconds."""

    def build() -> tuple[Any, tuple[Any, ...], dict[str, Any]]:
        block = nn.TransformerEncoderLayer(8192, 64, 28672, batch_first=True).to(BF16)
        assert sum(p.numel() for p in block.parameters()) == 738_299_904
        return block, (torch.zeros(1, 2048, 8192, dtype=BF16),), {}

    began = time.perf_counter()
    made = guess_built(build, on="h200")
    assert time.perf_counter() - began < 10
    assert made.classes["gemm"] == 4
    assert made.regime == "compute-bound"


def test_a_number_that_nobody_knows_is_taken_for_one() -> None:
    """`.item()` is a copy to the host, and what follows goes on."""
    made = of(lambda x: x * x.sum().item(), torch.ones(4))
    assert ops(made) == ["sum", "_local_scalar_dense", "mul"]


@pytest.mark.parametrize(("device", "words"), [("h200", "expect memsets"), ("NVIDIA A100-SXM4-80GB", "occupancy")])
def test_what_a_generation_puts_beside_a_gemm(device: str, words: str) -> None:
    """Memsets on Hopper, an occupancy query on Ampere; nothing where there is no GEMM."""
    assert words in guess(nn.Linear(4, 4), torch.ones(2, 4), on=device).notes[-1]
    assert guess(nn.ReLU(), torch.ones(2), on=device).notes == ()


def test_a_mask_is_assumed_to_keep_everything() -> None:
    """Indexing by a mask finds positions first, then gathers; how many is data, and the guess says what it took."""
    made = of(lambda x: x[x > 0] * 2, torch.ones(3, 4))
    assert made.kernels[0].op == "aten::gt"
    assert [k.op for k in made.kernels][-2:] == ["aten::index", "aten::mul"]
    assert made.kernels[-1].shapes == ((12,),)
    assert "all were assumed" in made.notes[0]


def test_what_cannot_run_is_said() -> None:
    """The exception's own words, and no traceback."""
    with pytest.raises(InputError, match="RuntimeError: a and b must have same reduction dim"):
        of(nn.Linear(3, 3), torch.ones(2, 5))
    lengths = torch.ones(1, dtype=torch.long)
    with pytest.raises(InputError, match=r"what `aten\._ctc_loss.*` gives depends on data"):
        of(functional.ctc_loss, torch.ones(5, 1, 3), lengths[None], lengths * 5, lengths)
    with pytest.raises(InputError, match="no variant `fast`"):
        guess(nn.Linear(3, 3), torch.ones(2, 3), variant="fast")  # type: ignore[arg-type]


def test_without_a_device_only_the_kernels_are_known() -> None:
    """No floor, no regime, no split-K: nothing is invented."""
    if torch.cuda.is_available():
        pytest.skip("this machine has a device")
    made = guess(nn.Linear(3072, 768, bias=False), torch.ones(1, 3072))
    assert [k.floor_ns for k in made.kernels] == [None]
    assert (made.device, made.regime, made.floor_ns) == (None, "unknown", None)


def test_the_regime_flips_with_the_batch() -> None:
    """One row waits for the CPU, and says from which size on it does not; at that size it says the opposite."""
    layer = nn.Linear(4096, 4096, bias=False, dtype=BF16)
    small = of(layer, torch.ones(16, 4096, dtype=BF16))
    assert small.regime == "overhead-bound"
    assert small.flips_at is not None
    assert of(layer, torch.ones(2 * small.flips_at, 4096, dtype=BF16)).regime in {"memory-bound", "compute-bound"}
    assert of(layer, torch.ones(small.flips_at // 2, 4096, dtype=BF16)).regime == "overhead-bound"


def test_empty_results_launch_nothing() -> None:
    """No rows, no kernel: a product, a softmax, a norm, a gather and a convolution of nothing."""
    assert of(nn.Linear(8, 8), torch.ones(0, 8)).kernels == ()
    assert of(nn.Softmax(-1), torch.ones(0, 5)).kernels == ()
    assert of(nn.LayerNorm(8), torch.ones(0, 8)).kernels == ()
    assert of(nn.Embedding(8, 8), torch.ones(0, dtype=torch.long)).kernels == ()
    assert of(nn.Conv2d(3, 4, 3), torch.ones(0, 3, 8, 8)).kernels == ()


def test_a_sum_over_nothing_is_filled() -> None:
    """Products whose K is 0 and reductions of no elements fill their result; `addmm` scales what it adds."""
    assert ops(of(torch.mm, torch.ones(4, 0), torch.ones(0, 5))) == ["fill_"]
    assert ops(of(torch.bmm, torch.ones(3, 4, 0), torch.ones(3, 0, 5))) == ["fill_"]
    assert ops(of(lambda x: x.mean(0), torch.ones(0, 5))) == ["fill_"]
    made = of(torch.addmm, torch.ones(5), torch.ones(4, 0), torch.ones(0, 5))
    assert [(k.op, k.op_class) for k in made.kernels] == [("aten::mul", "pointwise")]


class Wrapping(nn.Module):
    """Calls modules that it makes on the way, as wrapped functions are."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Sequential(nn.Linear(4, 4, bias=False))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """[..., 4] → the same."""
        return nn.ReLU()(self.inner(nn.Softmax(-1)(x)))


def test_a_module_made_on_the_way_goes_by_its_caller() -> None:
    """It has no place in the model; what it launches is its caller's."""
    made = of(nn.Sequential(Wrapping()), torch.ones(2, 4))
    assert [(k.op, k.source) for k in made.kernels] == [
        ("aten::_softmax", "0"),
        ("aten::mm", "0.inner.0"),
        ("aten::relu", "0"),
    ]


def test_a_fused_optimizer_moves_its_state() -> None:
    """Parameters, gradients and two moments read, all but the gradients written; no maxima are kept."""
    layer = nn.Linear(64, 64, bias=False)
    optimizer = torch.optim.AdamW(layer.parameters(), fused=True)

    def step(x: torch.Tensor) -> None:
        layer(x).sum().backward()
        optimizer.step()

    kernel = next(k for k in of(step, torch.ones(2, 64)).kernels if k.op == "aten::_fused_adamw_")
    assert (kernel.bytes, kernel.dtype) == (7 * 64 * 64 * 4, "f32")
