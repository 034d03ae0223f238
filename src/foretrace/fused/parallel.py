"""The gated MLP under tensor parallelism: fused on each rank's shards, one all-reduce for the output.

Gate and up are sharded by rows (``ColwiseParallel``) and down by columns (``RowwiseParallel``) of a one-dimensional
mesh, as ``parallelize_module`` leaves them; every rank then holds a smaller gated MLP whose outputs sum to the whole.
Under FSDP2 the parameters are plain tensors while the layer runs, and nothing here is needed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from torch.distributed.tensor import DTensor, Partial, Placement, Replicate, Shard

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import Tensor

_EXPECTED: tuple[tuple[str, Placement], ...] = (
    ("gate weight", Shard(0)),
    ("up weight", Shard(0)),
    ("down weight", Shard(1)),
    ("gate bias", Shard(0)),
    ("up bias", Shard(0)),
    ("down bias", Replicate()),
)


def gated_mlp(
    function: Callable[..., Tensor], x: Tensor, weights: tuple[Tensor | None, ...], *, activation: str
) -> Tensor:
    """``function`` (the plain gated MLP) on local shards, summed over the mesh.

    Args:
        function: Called with local tensors and without down's bias.
        x: The same rows on every rank: a plain tensor, or a ``DTensor`` that is gathered first.
        weights: Gate, up, down and their biases, as ``DTensor`` where they are given.
        activation: One of ``ACTIVATIONS``.

    Returns:
        The output on every rank: a ``DTensor`` if ``x`` was one.

    Raises:
        NotImplementedError: The parameters are sharded in another way.
    """
    mesh = _checked_mesh(weights)
    rows = x if isinstance(x, DTensor) else DTensor.from_local(x, mesh, [Replicate()], run_check=False)
    # each rank's gradient of x covers its own hidden features: their sum is the whole
    local_x = rows.redistribute(placements=[Replicate()]).to_local(grad_placements=[Partial()])
    *inner, down_bias = (None if w is None else _local(w) for w in weights)
    part = function(local_x, *inner, activation=activation)
    whole: Any = DTensor.from_local(part, mesh, [Partial()], run_check=False).redistribute(placements=[Replicate()])
    y: Tensor = whole if isinstance(x, DTensor) else whole.to_local()
    bias = weights[-1] if isinstance(x, DTensor) else down_bias
    return y if bias is None else y + bias


def _local(weight: Tensor) -> Tensor:
    assert isinstance(weight, DTensor)
    return weight.to_local()


def _checked_mesh(weights: tuple[Tensor | None, ...]) -> Any:  # noqa: ANN401 - torch's DeviceMesh
    for (name, placement), weight in zip(_EXPECTED, weights, strict=True):
        if weight is None:
            continue
        found = weight.placements if isinstance(weight, DTensor) else "not at all"
        if found != (placement,):
            msg = (
                f"the {name} is sharded as {found}: the fused gated MLP serves gate and up sharded by rows "
                "(ColwiseParallel) and down by columns (RowwiseParallel) of a one-dimensional mesh"
            )
            raise NotImplementedError(msg)
    gate = weights[0]
    assert isinstance(gate, DTensor)
    return gate.device_mesh
