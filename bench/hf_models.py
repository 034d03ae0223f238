"""Guesses at Hugging Face models built from their configurations, without weights; on a GPU, held against a trace.

python bench/hf_models.py guess                    # every model: kernels, seconds
python bench/hf_models.py compile                  # the same, compiled
python bench/hf_models.py record llama gpt2 bert   # on the device: guess, profile, check
"""

from __future__ import annotations

import datetime as dt
import functools
import json
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import torch
import transformers
from guess_accuracy import score, table

import foretrace
from foretrace.capture import Target, capture_target
from foretrace.guess import guess_built
from foretrace.verdict import check

if TYPE_CHECKING:
    from collections.abc import Callable

    from foretrace.verdict import Guess

HERE = Path(__file__).parent
DEVICE = "NVIDIA H200"
SIZES = {"hidden_size": 1024, "num_hidden_layers": 4, "num_attention_heads": 16, "vocab_size": 32000}
DECODER = {**SIZES, "intermediate_size": 2816, "num_key_value_heads": 4}
CONFIGS: dict[str, Callable[[], Any]] = {
    "llama": lambda: transformers.LlamaConfig(**DECODER),
    "gemma": lambda: transformers.GemmaConfig(**DECODER, head_dim=64, hidden_activation="gelu_pytorch_tanh"),
    "qwen": lambda: transformers.Qwen2Config(**DECODER),
    "mixtral": lambda: transformers.MixtralConfig(**DECODER, num_local_experts=4),
    "gpt2": lambda: transformers.GPT2Config(n_embd=1024, n_layer=4, n_head=16, vocab_size=32000),
    "bert": lambda: transformers.BertConfig(**SIZES, intermediate_size=4096),
    "vit": lambda: transformers.ViTConfig(hidden_size=1024, num_hidden_layers=4, num_attention_heads=16),
}
"""Four layers of width 1024: one shape of block, whatever the model."""

Built = tuple[torch.nn.Module, tuple[torch.Tensor, ...], dict[str, Any]]


def build(name: str, device: str = "cpu") -> Built:
    """The model in bf16 and a batch of 4 × 512 tokens (or four 224 × 224 pictures)."""
    with torch.device(device):
        config = CONFIGS[name]()
        model = transformers.AutoModel.from_config(config).to(torch.bfloat16).eval()
        if name == "vit":
            return model, (torch.randn(4, 3, 224, 224, dtype=torch.bfloat16),), {}
        tokens = torch.randint(0, 32000, (4, 512))
    return model, (tokens,), {} if name == "bert" else {"use_cache": False}


def stated(name: str, variant: Literal["eager", "compile"] = "eager") -> tuple[Guess, float]:
    """The guess, and the seconds that it took."""
    began = time.perf_counter()
    made = guess_built(functools.partial(build, name), name=name, on=DEVICE, variant=variant)
    return made, time.perf_counter() - began


def guess(names: list[str], variant: Literal["eager", "compile"] = "eager") -> int:
    """State every guess and say how long each took."""
    for name in names or list(CONFIGS):
        made, seconds = stated(name, variant)
        print(f"{name:8}{len(made.kernels):>5} kernels  {seconds:5.1f} s  {made.sentence}", flush=True)
    return 0


def record(names: list[str]) -> int:
    """Guess, profile on this machine, check, and write the scores."""
    rows = {}
    with tempfile.TemporaryDirectory() as folder:
        for name in names or list(CONFIGS):
            made, seconds = stated(name)
            target = Target(f"bench/hf_models.py:{name}", functools.partial(build, name, "cuda"))
            (captured,) = capture_target(target, out=folder, name=name, region=name, scopes=False, unprofiled=False)
            if captured.error is not None:
                rows[name] = {"failed": captured.error.message}
                print(f"{name:8}{captured.error.message}", flush=True)
                continue
            run = foretrace.read(captured.files.trace)
            held = check(made, run)
            scores = table(score(made, run))
            odd = [f"{row.verdict}: {row.why}" for row in held.rows if row.verdict in {"broken", "unknown"}]
            rows[name] = {"seconds": round(seconds, 2), "sentence": held.sentence, "odd": odd[:12], **scores}
            print(f"{name:8}{seconds:5.1f} s  {held.sentence}  {scores['all']}", flush=True)
    result = {
        "date": dt.datetime.now(dt.UTC).isoformat(timespec="seconds"),
        "command": " ".join(["python", *sys.argv]),
        "device": torch.cuda.get_device_name(),
        "versions": {"torch": str(torch.__version__), "transformers": transformers.__version__},
        "models": rows,
    }
    (HERE / "results" / "hf_models_h200.json").write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(
        {"guess": guess, "compile": functools.partial(guess, variant="compile"), "record": record}[sys.argv[1]](
            sys.argv[2:]
        )
    )
