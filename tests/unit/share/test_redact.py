"""Redaction: what goes, what stays, and that nothing which was planted survives."""

from __future__ import annotations

import gzip
import json
from typing import TYPE_CHECKING, Any

import pytest

from foretrace.share.names import HOST, USER, Names
from foretrace.share.redact import Redactor, removed
from foretrace.share.redacted import redact_json, redact_page, redact_trace

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

# each in two halves, so that no scanner takes this file for a leak
TOKENS = {
    "hugging face": "hf_" + "QwErTyUiOpAsDfGhJkLzXcVbNm12345678",
    "github": "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8",
    "github fine-grained": "github_pat_" + "11ABCDEFG0abcdefghij_KLMNOPQRSTuvwxyz0123456789",
    "aws id": "AKIA" + "IOSFODNN7EXAMPLE",
    "aws secret": "wJalrXUtnFEMI/K7MDENG/" + "bPxRfiCYEXAMPLEKEY",
    "google": "AIza" + "SyA-1234567890abcdefghijklmnopqrstu",
    "slack": "xoxb-" + "123456789012-1234567890123-AbCdEfGhIjKlMnOpQrStUvWx",
    "openai": "sk-" + "proj-abcDEF123456ghiJKL789012mnoPQR",
    "anthropic": "sk-" + "ant-api03-abcdefGHIJKL0123456789_-xyz",
    "jwt": "eyJ" + "hbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N_XgL0n3I9P",
    "npm": "npm_" + "abcdefghijklmnopqrstuvwxyz0123456789",
    "gitlab": "glpat-" + "ABCdef123456ghiJKL78",
    "private key": "-----BEGIN RSA PRIVATE " + "KEY-----\nMIIEowIBAAKCAQEA7\nq0q\n-----END RSA PRIVATE KEY-----",
}
NOBODY = Names()


def redactor(**words: str) -> Redactor:
    """A redactor that knows the given hosts and users and none of this machine."""
    names = Names()
    for word, kind in words.items():
        names.add(word.replace("_", "-"), HOST if kind == "host" else USER)
    return Redactor(names)


@pytest.mark.parametrize("kind", TOKENS)
def test_a_token_is_removed_wherever_it_stands(kind: str) -> None:
    """A token goes from the middle of a sentence, from an assignment, a list, a URL and a quoted JSON text."""
    token = TOKENS[kind]
    for text in (
        f"login with {token} now",
        f"X={token}",
        f"['{token}']",
        f"https://a.b/c?t={token}",
        f'{{"t":"{token}"}}',
    ):
        assert token not in redactor().text(text)
        assert redactor().text(text) != ""


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Authorization: Bearer abc.def-123456", "Authorization: [secret] abc.def-123456"),
        ("https://ada:pa55@example.org/x", "https://[credentials]@example.org/x"),
        ("https://a.b/t.json?X-Amz-Signature=0a1b2c&part=1", "https://a.b/t.json?X-Amz-Signature=[secret]&part=1"),
        ("WANDB_API_KEY=0123456789abcdef0123456789abcdef01234567 python t.py", "WANDB_API_KEY=[secret] python t.py"),
        ("python t.py --token s3cr3t-value --dim 768", "python t.py --token [secret] --dim 768"),
        ("db_password: 'hunter22'", "db_password: '[secret]'"),
        ("USER=ada HOME=/home/ada torchrun", "USER=[environment] HOME=[environment] torchrun"),
        ("mail ada@example.org", "mail [user]"),
        ("curl -H 'X-API-Key: abc123def'", "curl -H 'X-API-Key: [secret]'"),
        ("['--hf-token', 'abcdef']", "['--hf-token', '[secret]']"),
        ("AWS_SECRET_ACCESS_KEY=abc/def+ghi", "AWS_SECRET_ACCESS_KEY=[secret]"),
        ("postgres://u:p@db:5432/x", "postgres://[credentials]@db:5432/x"),
        ("store at ip-10-0-3-4.ec2.internal:29500", "store at [host]:29500"),
        ("gpu-node-7.local and node7.lan", "[host] and [host]"),
        ("tcp://10.4.0.17:29500", "tcp://[address]:29500"),
    ],
)
def test_secrets_in_free_text(text: str, expected: str) -> None:
    """Credentials go and what stands around them stays."""
    if text.startswith("Authorization"):
        assert "abc.def-123456" not in redactor().text(text)
    else:
        assert redactor().text(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("/home/ada/venv/lib/python3.12/site-packages/torch/nn/x.py(12): forward", "torch/nn/x.py(12): forward"),
        ("/usr/lib/python3.11/threading.py(982): run", "threading.py(982): run"),
        ("/home/ada/geglu/train.py(3): main", "~/geglu/train.py(3): main"),
        ("/Users/Ada Lovelace/my work/train.py(3): main", "~/my work/train.py(3): main"),
        ("/mnt/nfs/home/ada/train.py", "~/train.py"),
        ("/fsx/acme/run7/train.py(3): main", ".../train.py(3): main"),
        ("file:///root/x/a.py", "~/x/a.py"),
        (r"C:\Users\ada\proj\train.py(3): main", r"~\proj\train.py(3): main"),
        (r"D:\conda\Lib\site-packages\torch\nn\x.py", r"torch\nn\x.py"),
        (r"\\fileserver\ada\run\t.py", ".../t.py"),
        ("/home/ada/p1234/ThreadPoolTaskRunner1234", "~/p1234/ThreadPoolTaskRunner1234"),
        ('{"cwd": "/fsx/acme/run7"}', '{"cwd": ".../run7"}'),
        ("%2Fhome%2Fada%2Fx.py", "~%2Fx.py"),
        ("vscode?path=%2fhome%2fada%2fmy%20code%2fx.py&line=3", "vscode?path=~%2Fmy%20code%2Fx.py&line=3"),
        ("file%3A%2F%2F%2Ffsx%2Facme%2Ftrain.py", "...%2Ftrain.py"),
        ("C%3A%5CUsers%5Cada%5Cx.py", "~%5Cx.py"),
        ("%252Fhome%252Fada%252Fx.py", "~%252Fx.py"),
    ],
)
def test_absolute_paths_are_shortened(text: str, expected: str) -> None:
    """A home becomes ~, a package keeps its own part, of any other path the last part stays; so percent-encoded."""
    assert redactor().text(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "nvjet_sm90_tst_256x128_64x4_1x2_h_bz_coopA_TNT",
        "void at::native::vectorized_elementwise_kernel<4, at::native::(anonymous namespace)::f, std::array<char*, 2>>",
        "triton_poi_fused__unsafe_view_gelu_mul_0",
        "cutlass_80_wmma_tensorop_bf16_s161616gemm_bf16_32x32_32x1_tn_align8",
        "memory bandwidth (GB/s)",
        "num_tokens=8",
        "max_new_tokens: 128",
        "tokenizer: llama",
        "XBLOCK=256, num_warps=4",
        "autograd::engine::evaluate_function: MeanBackward0",
        "torch/nn/modules/linear.py(134): forward",
        "Memcpy DtoD (Device -> Device)",
        "ProfilerStep#2",
        "2.28.9",
        "cuda:nccl",
        "https://pytorch.org/docs/stable/profiler.html",
        "/dev/nvidia0",
        "https%3A%2F%2Fpytorch.org%2fdocs%2Fstable",
        "lib%2Ftorch at 50%2F60 %%2F%2",
        f"%{'25' * 5_000}2F",
        "the next-token prediction",
        "threading.local",
        "a @ b.T",
        "aten::_scaled_dot_product_flash_attention",
    ],
)
def test_what_is_not_private_stays(text: str) -> None:
    """Kernels' names, ops, versions, relative paths and counts of tokens are untouched, even on host `max`."""
    assert redactor(max="host", gpu_node_7="host", poi="user").text(text) == text


def test_hosts_and_users_are_hidden_as_whole_words() -> None:
    """A known host goes where it stands alone, also before a process id; a part of a longer word stays."""
    known = redactor(gpu_node_7="host", ada="user")
    assert known.text("worker gpu-node-7 of ada") == "worker [host] of [user]"
    assert known.text("gpu-node-7_4711") == "[host]_4711"
    assert known.text("gpu-node-71 adam at::ada<ada> ada_kernel") == "gpu-node-71 adam at::ada<ada> ada_kernel"


def test_a_secret_behind_its_flag_in_a_list_of_arguments() -> None:
    """`sys.argv` kept as a list hides what the same command hides as one text; counts and sizes stay."""
    words = ["train.py", "--api-key", "s3cr3t", "--max-tokens", "512", "--hf_token", "hunter2", "--lr", "0.1"]
    redactor = Redactor(Names())
    assert redactor.tree({"argv": words}) == {
        "argv": ["train.py", "--api-key", "[secret]", "--max-tokens", "512", "--hf_token", "[secret]", "--lr", "0.1"]
    }
    assert redactor.counts["token"] == 2


def test_environment_in_a_tree() -> None:
    """Variables go by where they stand, those that say how the code ran stay, secrets go by their own names."""
    tree = {
        "env": {"HF_TOKEN": "short", "EDITOR": "vim", "CUDA_VISIBLE_DEVICES": "0,1", "OMP_NUM_THREADS": 8},
        "environ": ["EDITOR=vim", "NCCL_DEBUG=INFO"],
        "accessToken": "abc",
        "hostname": "gpu-node-7",
        "user": "ada",
        "device": {"name": "NVIDIA H200", "token_count": "5"},
        "note": "ran on gpu-node-7",
    }
    expected = {
        "env": {
            "HF_TOKEN": "[environment]",
            "EDITOR": "[environment]",
            "CUDA_VISIBLE_DEVICES": "0,1",
            "OMP_NUM_THREADS": 8,
        },
        "environ": ["EDITOR=[environment]", "NCCL_DEBUG=INFO"],
        "accessToken": "[secret]",
        "hostname": "[host]",
        "user": "[user]",
        "device": {"name": "NVIDIA H200", "token_count": "5"},
        "note": "ran on [host]",
    }
    one = redactor()
    one.learn(tree)
    assert one.tree(tree) == expected
    assert removed(one.counts) == "1 token or secret, 3 environment variables, 2 host names, 1 user name"


def planted() -> dict[str, Any]:
    """A trace with every token in its metadata, and in the names, arguments and stacks of its events."""
    everything = list(TOKENS.values())
    events: list[dict[str, Any]] = [
        {
            "ph": "X",
            "cat": "cpu_op",
            "name": f"op {token}",
            "pid": 1,
            "tid": 1,
            "ts": 1735632360000123.456 + i,
            "dur": 5.125,
        }
        for i, token in enumerate(everything)
    ]
    for event, token in zip(events, everything, strict=True):
        event["args"] = {
            "External id": 9007199254740993,
            "Input Dims": [[8, 768]],
            "Concrete Inputs": [token],
            "Call stack": f"/home/ada/t.py(1): f {token};/opt/x/site-packages/torch/a.py(2): g",
            "env": {"SOME_TOKEN": token},
            f"key {token}": 1,
        }
    return {
        "schemaVersion": 1,
        "hostname": "gpu-node-7",
        "env": {"HF_TOKEN": everything[0], "HOME": "/home/ada"},
        "notes": everything,
        "nested": {"config": json.dumps({"tokens": everything})},
        "traceEvents": events,
        "traceName": "/home/ada/traces/gpu-node-7_1.json",
    }


def sound(text: str) -> str:
    """As it is."""
    return text


def truncated(text: str) -> str:
    """Cut inside the last event."""
    return text[: text.rindex('"traceName"') - 40]


def malformed(text: str) -> str:
    """With raw control characters in the names of the events."""
    return text.replace('"op ', '"op \x01')


@pytest.mark.parametrize("damage", [sound, truncated, malformed])
def test_no_planted_token_survives_in_a_trace(damage: Callable[[str], str], tmp_path: Path) -> None:
    """Of thirteen tokens in metadata, names, arguments, keys and stacks none is in the copy, sound or repaired."""
    source, copy = tmp_path / "t.json", tmp_path / "copy.json.gz"
    source.write_text(damage(json.dumps(planted())))
    redaction = redact_trace(source, copy)
    text = gzip.decompress(copy.read_bytes()).decode()
    events = json.loads(text)["traceEvents"]
    assert len(events) >= len(TOKENS) - 1
    for token in (*TOKENS.values(), *(json.dumps(token)[1:-1] for token in TOKENS.values()), "gpu-node-7", "ada"):
        assert token not in text
    assert redaction.counts["token"] >= 2 * len(TOKENS)


def test_numbers_in_a_redacted_trace_keep_their_digits(tmp_path: Path) -> None:
    """Times that no double holds, large ids and the frames of a stack are as they were but for what is private."""
    source, copy = tmp_path / "t.json", tmp_path / "copy.json"
    raw = json.dumps(planted()).replace("1735632360000123.5", "1735632360000123.456")
    source.write_text(raw)
    redaction = redact_trace(source, copy)
    event = json.loads(copy.read_text(), parse_float=str)["traceEvents"][0]
    assert event["ts"] == "1735632360000123.456"
    assert event["dur"] == "5.125"
    assert event["args"]["External id"] == 9007199254740993
    assert event["args"]["Call stack"] == "~/t.py(1): f [token];torch/a.py(2): g"
    assert redaction.counts["token"] >= 5 * len(TOKENS)


def test_python_stacks_go_on_request(tmp_path: Path) -> None:
    """`stacks` removes frames' names and whole stacks; modules, which readings use, keep theirs."""
    events = [
        {
            "ph": "X",
            "cat": "python_function",
            "name": "acme/secret_sauce.py(7): stir",
            "pid": 1,
            "tid": 1,
            "ts": 1,
            "dur": 9,
        },
        {"ph": "X", "cat": "python_function", "name": "nn.Module: Linear_0", "pid": 1, "tid": 1, "ts": 2, "dur": 3},
        {
            "ph": "X",
            "cat": "cpu_op",
            "name": "aten::t",
            "pid": 1,
            "tid": 1,
            "ts": 2,
            "dur": 1,
            "args": {"Call stack": "a;b"},
        },
    ]
    source, kept, without = tmp_path / "t.json", tmp_path / "kept.json", tmp_path / "without.json"
    source.write_text(json.dumps({"schemaVersion": 1, "traceEvents": events}))
    redact_trace(source, kept)
    assert json.loads(kept.read_text())["traceEvents"] == events
    redaction = redact_trace(source, without, stacks=True)
    found = json.loads(without.read_text())["traceEvents"]
    assert [event["name"] for event in found] == ["[python frame]", "nn.Module: Linear_0", "aten::t"]
    assert found[2]["args"] == {"Call stack": "[stack]"}
    assert redaction.counts == {"stack": 2}


def test_files_beside_a_trace(tmp_path: Path) -> None:
    """An environment file and an HTML report lose their secrets; a script's regular expressions stay as they are."""
    beside, page = tmp_path / "t.env.json", tmp_path / "t.html"
    beside.write_text(json.dumps({"command": f"t.py --token {TOKENS['npm']}", "unprofiled": {"host_ns": 249000}}))
    redact_json(beside, tmp_path / "out.json")
    assert json.loads((tmp_path / "out.json").read_text()) == {
        "command": "t.py --token [token]",
        "unprofiled": {"host_ns": 249000},
    }
    page.write_text(f"<p>{TOKENS['jwt']} /home/ada/x/y.py</p><a></a><script>s.replace(/a/g, '/b/c/')</script>")
    redact_page(page, tmp_path / "out.html")
    assert (tmp_path / "out.html").read_text() == (
        "<p>[token] ~/x/y.py</p><a></a><script>s.replace(/a/g, '/b/c/')</script>"
    )


def test_the_same_trace_gives_the_same_bytes(tmp_path: Path) -> None:
    """Two copies of one trace are equal, so that a bucket does not get the same file twice."""
    source = tmp_path / "t.json"
    source.write_text(json.dumps(planted()))
    redact_trace(source, tmp_path / "a.json.gz")
    redact_trace(source, tmp_path / "b.json.gz")
    assert (tmp_path / "a.json.gz").read_bytes() == (tmp_path / "b.json.gz").read_bytes()
