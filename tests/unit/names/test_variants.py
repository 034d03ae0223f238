"""Other names of each grammar: tiles, types, architectures, clusters and flags replaced by others decode as well.

The expected fields are the parts that the name was put together from.
"""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from foretrace.names import decode

SIDE = st.sampled_from([8, 16, 24, 32, 48, 64, 80, 96, 128, 144, 160, 176, 192, 208, 256, 320, 512])
K = st.sampled_from([8, 16, 32, 64, 128, 256])
STAGES = st.integers(1, 20)
TRANSPOSES = st.text("nt", min_size=2, max_size=2)
NVJET_TYPES = {
    "tst": ("bf16", "f32", "bf16"),
    "tss": ("bf16", "f32", "f32"),
    "hsh": ("f16", "f32", "f16"),
    "hhh": ("f16", "f16", "f16"),
    "hss": ("f16", "f32", "f32"),
    "sss": ("f32", "f32", "f32"),
    "qqtst": ("fp8", "f32", "bf16"),
    "qqhsh": ("fp8", "f32", "f16"),
    "ootst": ("fp4", "f32", "bf16"),
    "rrsss": ("fp8", "f32", "f32"),
}


@given(
    types=st.sampled_from(sorted(NVJET_TYPES)),
    arch=st.sampled_from(["sm90", "sm100", "sm103", "sm110", "sm120"]),
    tile=st.tuples(SIDE, SIDE, K),
    stages=STAGES,
    cluster=st.tuples(st.sampled_from([1, 2, 4, 8]), st.sampled_from([1, 2, 4])),
    raster=st.sampled_from("hv"),
    beta=st.sampled_from(["bz", "badd"]),
    coop=st.sampled_from(["", "_coopA", "_coopB"]),
    bias=st.booleans(),
    split=st.booleans(),
    layout=st.text("NT", min_size=3, max_size=3),
)
def test_nvjet(types, arch, tile, stages, cluster, raster, beta, coop, bias, split, layout) -> None:  # type: ignore[no-untyped-def] # noqa: ANN001
    """Every part of an nvjet name lands in its field."""
    (m, n, k), (c1, c2) = tile, cluster
    flags = f"{raster}_{beta}{coop}{'_bias' if bias else ''}{'_splitK' if split else ''}"
    identity = decode(f"nvjet_{arch}_{types}_{m}x{n}_{k}x{stages}_{c1}x{c2}_{flags}_{layout}")
    assert (identity.family, identity.op_class, identity.arch) == ("nvjet", "gemm", arch)
    assert (identity.in_dtype, identity.acc_dtype, identity.out_dtype) == NVJET_TYPES[types]
    assert (identity.tile, identity.stages, identity.cluster) == (tile, stages, cluster)
    assert (identity.layout, identity.split_k) == (layout, split)
    assert ("bias" in (identity.epilogue or "")) is bias
    assert ("add" in (identity.epilogue or "").split("+")) is (beta == "badd")


@given(
    cc=st.sampled_from([70, 75, 80]),
    out=st.sampled_from(["", "f16_", "bf16_", "f32_"]),
    operand=st.sampled_from(["f16", "bf16"]),
    relu=st.booleans(),
    tile=st.tuples(SIDE, SIDE, K),
    stages=STAGES,
    layout=TRANSPOSES,
    align=st.sampled_from([1, 2, 4, 8]),
    wrapped=st.booleans(),
)
def test_cutlass_2(cc, out, operand, relu, tile, stages, layout, align, wrapped) -> None:  # type: ignore[no-untyped-def] # noqa: ANN001
    """Every part of a CUTLASS 2 name lands in its field, plain or as the argument of its kernel template."""
    m, n, k = tile
    slot = "_relu" if relu else ""
    bare = f"cutlass_{cc}_tensorop_{out}s16816gemm{slot}_{operand}_{m}x{n}_{k}x{stages}_{layout}_align{align}"
    identity = decode(f"void cutlass::Kernel2<{bare}>({bare}::Params)" if wrapped else bare)
    assert (identity.family, identity.op_class, identity.arch) == ("cutlass", "gemm", f"sm{cc}")
    assert (identity.in_dtype, identity.acc_dtype) == (operand, "f32")
    assert identity.out_dtype == (out.rstrip("_") or "f32")
    assert (identity.tile, identity.stages, identity.layout) == (tile, stages, layout)
    assert (identity.align, identity.mma, identity.epilogue) == (align, (16, 8, 16), None)


@given(
    arch=st.sampled_from(["sm90", "sm100", "sm120"]),
    mma=st.sampled_from(["", "s64x128x16", "s64x256x16"]),
    operand=st.sampled_from([("bf16", "bf16"), ("f16", "f16"), ("e4m3", "fp8"), ("e5m2", "fp8"), ("e2m1", "fp4")]),
    scaled=st.booleans(),
    out=st.sampled_from([("bf16", "bf16"), ("f16", "f16"), ("f32", "f32"), ("e4m3", "fp8")]),
    tile=st.tuples(SIDE, SIDE, K),
    cluster=st.tuples(*[st.sampled_from([1, 2, 4])] * 3),
    stages=st.integers(0, 12),
    layout=st.text("nt", min_size=3, max_size=3),
    tail=st.sampled_from(["", "_warpspecialized_pingpong_epi_tma", "_bias_bf16_relu", "_2sm"]),
)
def test_cutlass_3(arch, mma, operand, scaled, out, tile, cluster, stages, layout, tail) -> None:  # type: ignore[no-untyped-def] # noqa: ANN001
    """Every part of a CUTLASS 3 name lands in its field; stages 0 are chosen by the library, so unknown."""
    (m, n, k), (c1, c2, c3) = tile, cluster
    a = f"{'1x128f32x' if scaled else ''}{operand[0]}"
    types = f"{a}_{a}_f32_void_{out[0]}"
    name = f"cutlass3x_{arch}_tensorop_{mma}gemm_{types}_{m}x{n}x{k}_{c1}x{c2}x{c3}_{stages}_{layout}_align16{tail}"
    identity = decode(name)
    assert (identity.family, identity.arch, identity.op_class) == ("cutlass", arch, "gemm")
    assert (identity.in_dtype, identity.acc_dtype, identity.out_dtype) == (operand[1], "f32", out[1])
    assert (identity.tile, identity.cluster, identity.stages) == (tile, cluster, stages or None)
    assert (identity.layout, identity.align) == (layout, 16)
    assert identity.mma == (tuple(int(side) for side in mma[1:].split("x")) if mma else None)
    assert identity.epilogue is None  # bias and relu name slots


@given(
    arch=st.sampled_from([("volta", "sm70"), ("turing", "sm75"), ("ampere", "sm80")]),
    owner=st.sampled_from([("", "cuBLAS"), ("trt_", "TensorRT")]),
    operand=st.sampled_from([("bf16", "bf16"), ("fp16", "f16")]),
    tile=st.tuples(SIDE, SIDE),
    sliced=st.sampled_from(["", "_sliced1x2"]),
    pipeline=st.sampled_from([None, (32, 6), (64, 3)]),
    layout=TRANSPOSES,
)
def test_sass(arch, owner, operand, tile, sliced, pipeline, layout) -> None:  # type: ignore[no-untyped-def] # noqa: ANN001
    """Every part of a SASS name lands in its field; without ``stages`` the K tile is unknown."""
    stages = f"_stages_{pipeline[0]}x{pipeline[1]}" if pipeline else ""
    word = operand[0]
    name = f"{owner[0]}{arch[0]}_{word}_s1688gemm_{word}_{tile[0]}x{tile[1]}{sliced}_ldg8_f2f{stages}_{layout}"
    identity = decode(name)
    assert (identity.library, identity.arch, identity.op_class) == (owner[1], arch[1], "gemm")
    assert (identity.in_dtype, identity.acc_dtype, identity.out_dtype) == (operand[1], "f32", operand[1])
    assert identity.tile == (*tile, pipeline[0] if pipeline else None)
    assert identity.stages == (pipeline[1] if pipeline else None)
    assert (identity.mma, identity.layout, identity.split_k) == ((16, 8, 8), layout, False)


@given(
    arch=st.sampled_from(["sm75", "sm80", "sm86", "sm90"]),
    types=st.sampled_from(
        [
            ("bf16bf16_bf16f32_f32", "bf16", "f32", "bf16"),
            ("f16f16_f16f16_f16", "f16", "f16", "f16"),
            ("f16f32_f16f32_f32", "f16", "f32", "f32"),
            ("f32f32_tf32f32_f32", "tf32", "f32", "f32"),
            ("f32f32_f32f32_f32", "f32", "f32", "f32"),
            ("i8i8_i8i32_f32", "int8", "int32", "int8"),
            ("e4m3bf16_e4m3f32_f32", "fp8", "f32", "bf16"),
            ("i8f32_i8i32_f32", "int8", "int32", "f32"),
        ]
    ),
    tile=st.tuples(SIDE, SIDE, K),
    stages=STAGES,
    layout=TRANSPOSES,
    split=st.booleans(),
)
def test_xmma(arch, types, tile, stages, layout, split) -> None:  # type: ignore[no-untyped-def] # noqa: ANN001
    """Every part of an XMMA GEMM's name lands in its field."""
    m, n, k = tile
    words = f"stage{stages}_warpsize2x2x1_tensor16x8x16_execute{'_split_k' if split else ''}_kernel"
    identity = decode(f"{arch}_xmma_gemm_{types[0]}_{layout}_n_tilesize{m}x{n}x{k}_{words}")
    assert (identity.family, identity.arch, identity.op_class) == ("xmma", arch, "gemm")
    assert (identity.in_dtype, identity.acc_dtype, identity.out_dtype) == types[1:]
    assert (identity.tile, identity.stages, identity.mma) == (tile, stages, (16, 8, 16))
    assert (identity.layout, identity.split_k) == (f"{layout}_n", split)


@given(
    a=st.sampled_from([("Ailk", "N"), ("Alik", "T")]),
    b=st.sampled_from([("Bljk", "N"), ("Bjlk", "T")]),
    types=st.sampled_from(
        [
            ("BBS_BH", "bf16", "f32", "bf16"),
            ("HHS_BH", "f16", "f32", "f16"),
            ("HSS_BH", "f16", "f32", "f32"),
            ("SB", "f32", "f32", "f32"),
            ("DB", "f64", "f64", "f64"),
            ("F8BS_BH", "fp8", "f32", "bf16"),
        ]
    ),
    tile=st.tuples(SIDE, SIDE, K),
    isa=st.sampled_from(["90a", "908", "942", "950", "1100", "1201"]),
    split=st.sampled_from([None, 0, 1, 4, 16]),
    lt=st.booleans(),
)
def test_tensile(a, b, types, tile, isa, split, lt) -> None:  # type: ignore[no-untyped-def] # noqa: ANN001
    """Every part of a Tensile name lands in its field; split-K is unknown without GSU."""
    m, n, k = tile
    words = f"{'Bias_HA_S_SAV_UserArgs_' if lt else ''}MT{m}x{n}x{k}_MI16x16x1_SN"
    gsu = f"_GSU{split}" if split is not None else ""
    identity = decode(f"Cijk_{a[0]}_{b[0]}_{types[0]}_{words}{gsu}_ISA{isa}_IU1")
    assert (identity.family, identity.arch, identity.op_class) == ("tensile", f"gfx{isa}", "gemm")
    assert identity.library == ("hipBLASLt" if lt else "rocBLAS")
    assert (identity.in_dtype, identity.acc_dtype, identity.out_dtype) == types[1:]
    assert (identity.tile, identity.layout) == (tile, a[1] + b[1])
    assert identity.split_k == (None if split is None else split > 1)


@given(
    collective=st.sampled_from(["AllReduce", "ReduceScatter", "Reduce"]),
    op=st.sampled_from(["Sum", "Max", "PreMulSum"]),
    dtype=st.sampled_from([("bf16", "bf16"), ("f16", "f16"), ("f32", "f32"), ("u8", "uint8"), ("f8e4m3", "fp8")]),
    algorithm=st.sampled_from(["RING_LL", "TREE_LL128", "NVLS_SIMPLE"]),
)
def test_nccl(collective: str, op: str, dtype: tuple[str, str], algorithm: str) -> None:
    """A reducing collective says its type."""
    identity = decode(f"ncclDevKernel_{collective}_{op}_{dtype[0]}_{algorithm}(ncclDevKernelArgsStorage<4096ul>)")
    assert (identity.family, identity.op_class, identity.in_dtype) == ("nccl", "collective", dtype[1])


@given(st.sampled_from(["AllGather", "Broadcast", "SendRecv"]), st.sampled_from(["int8_t", "float"]))
def test_nccl_placeholders(collective: str, dtype: str) -> None:
    """A collective that moves bytes carries a placeholder type, which is not given out."""
    identity = decode(f"ncclKernel_{collective}_RING_SIMPLE_Sum_{dtype}(ncclWorkElem)")
    assert (identity.op_class, identity.in_dtype) == ("collective", None)


KINDS = {"poi": "pointwise", "red": "reduction", "per": "reduction"}
OPS = st.lists(
    st.sampled_from(
        [
            *("add", "mul", "silu", "gelu", "gelu_backward", "_to_copy", "_unsafe_view", "native_layer_norm", "mean"),
            *(
                "native_layer_norm_backward",
                "_log_softmax",
                "index_put",
                "constant_pad_nd",
                "_foreach_add",
                "view",
                "t",
            ),
        ]
    ),
    min_size=1,
    max_size=8,
    unique=True,
).map(sorted)


@given(st.sampled_from(sorted(KINDS)), OPS, st.integers(0, 999))
def test_inductor(kind: str, ops: list[str], number: int) -> None:
    """An Inductor name is taken apart into the ops that it was joined from, private and compound ones too."""
    identity = decode(f"triton_{kind}_fused_{'_'.join(ops)}_{number}")
    assert (identity.family, identity.op_class) == ("inductor", KINDS[kind])
    assert identity.fused_ops == tuple(ops)
    assert identity.short == f"triton_{kind}_fused_{'_'.join(ops)}"


CPP = st.sampled_from([("float", "f32"), ("c10::BFloat16", "bf16"), ("c10::Half", "f16"), ("double", "f64")])


@given(
    namespace=st.sampled_from(["flash", "pytorch_flash", "vllm::flash"]),
    dtype=st.sampled_from([("cutlass::bfloat16_t", "bf16"), ("cutlass::half_t", "f16")]),
    head=st.sampled_from([32, 64, 96, 128, 192, 256]),
    tile=st.tuples(SIDE, SIDE),
)
def test_flash(namespace: str, dtype: tuple[str, str], head: int, tile: tuple[int, int]) -> None:
    """FlashAttention-2's traits say head dimension, tile and type."""
    traits = f"Flash_fwd_kernel_traits<{head}, {tile[0]}, {tile[1]}, 4, false, false, {dtype[0]}>"
    identity = decode(f"void {namespace}::flash_fwd_kernel<{traits}, false, true>({namespace}::Flash_fwd_params)")
    assert (identity.family, identity.op_class) == ("flash-attention", "attention")
    assert (identity.in_dtype, identity.acc_dtype, identity.tile) == (dtype[1], "f32", (*tile, None))
    assert f"head dimension up to {head};" in f"{identity.in_words};"


@given(CPP, st.sampled_from(["Mul", "Div", "Add"]), st.sampled_from([1, 2, 4, 8]))
def test_aten_binary(dtype: tuple[str, str], op: str, width: int) -> None:
    """An ATen binary functor says its op, its types and the width of a load."""
    types = f"{dtype[0]}, {dtype[0]}, {dtype[0]}"
    functor = f"at::native::BinaryFunctor<{types}, at::native::binary_internal::{op}Functor<float> >"
    identity = decode(f"void at::native::vectorized_elementwise_kernel<{width}, {functor}, x>(int, {functor}, x)")
    assert (identity.family, identity.op_class) == ("aten", "pointwise")
    assert (identity.in_dtype, identity.acc_dtype, identity.out_dtype) == (dtype[1], "f32", dtype[1])
    assert identity.short == f"elementwise {op.lower()}"
    assert f"{width} elements a load" in identity.in_words


@given(
    CPP, st.sampled_from(["cos", "rsqrt", "silu", "tanh", "sigmoid", "exp"]), st.sampled_from(["_cuda", "_impl", ""])
)
def test_aten_lambda(dtype: tuple[str, str], op: str, suffix: str) -> None:
    """An ATen lambda functor says its op and the type that it takes."""
    chain = "{lambda()#2}::operator()() const::{lambda()#1}::operator()() const"
    functor = f"at::native::{op}_kernel{suffix}(at::TensorIteratorBase&)::{chain}::{{lambda({dtype[0]})#1}}"
    identity = decode(f"void at::native::vectorized_elementwise_kernel<4, {functor}, x>(int, {functor}, x)")
    assert (identity.short, identity.in_dtype, identity.out_dtype) == (f"elementwise {op}", dtype[1], None)


@given(CPP, st.sampled_from([("Mean", "mean"), ("NormTwo", "norm_two"), ("ArgMax", "arg_max")]))
def test_aten_reduce(dtype: tuple[str, str], op: tuple[str, str]) -> None:
    """An ATen reduction says its op and what goes in and out."""
    reduce = f"at::native::ReduceOp<{dtype[0]}, at::native::{op[0]}Ops<float, float>, unsigned int, {dtype[0]}, 4, 4>"
    identity = decode(f"void at::native::reduce_kernel<512, 1, {reduce} >({reduce})")
    assert (identity.op_class, identity.short) == ("reduction", f"reduction {op[1]}")
    assert (identity.in_dtype, identity.out_dtype) == (dtype[1], dtype[1])
