"""TARGETs and the arguments behind ``--``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import pytest
import torch

from foretrace.capture import Script, Target, parse_target
from foretrace.capture.arguments import parse_arguments
from foretrace.errors import InputError

if TYPE_CHECKING:
    from pathlib import Path


def _target(text: str, *arguments: str) -> Target:
    target = parse_target(text, arguments)
    assert isinstance(target, Target)
    return target


def test_a_factory_in_a_file_gets_its_arguments(targets: Path) -> None:
    """`file.py:factory -- --dim 24` builds with that keyword; the other parameters keep their defaults."""
    target = _target(f"{targets / 'mlp.py'}:geglu", "--dim", "24", "--rows=5")
    workload = target.build()

    assert target.name == "geglu"
    assert target.arguments == {"dim": 24, "rows": 5}
    assert workload.args[0].shape == (5, 24)
    assert workload.kwargs == {}


def test_a_factory_may_give_keyword_arguments(targets: Path) -> None:
    """The third item of the tuple is passed by name."""
    workload = _target(f"{targets / 'mlp.py'}:scaled", "--factor", "3").build()

    assert workload.kwargs == {"by": 3.0}
    assert torch.equal(torch.as_tensor(workload.call(*workload.args, **workload.kwargs)), torch.full((8,), 3.0))


def test_each_build_is_fresh(targets: Path) -> None:
    """Two builds share no module."""
    target = _target(f"{targets / 'mlp.py'}:geglu")

    assert target.build().call is not target.build().call


def test_a_factory_in_a_package_is_found_from_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`package.module:Class.factory` is looked up from the current directory, attribute by attribute."""
    package = tmp_path / "some_package_of_models"
    package.mkdir()
    (package / "__init__.py").touch()
    code = (
        "import torch\nclass Small:\n    @staticmethod\n    def make():\n        return torch.relu, (torch.ones(2),)\n"
    )
    (package / "small.py").write_text(code, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)

    target = _target("some_package_of_models.small:Small.make")

    assert target.name == "make"
    assert target.build().call is torch.relu


def test_a_file_may_bear_the_name_of_a_module(tmp_path: Path) -> None:
    """A target in `random.py` does not replace the standard library's module."""
    (tmp_path / "random.py").write_text("def make():\n    return abs, (1,)\n", encoding="utf-8")

    assert _target(f"{tmp_path / 'random.py'}:make").build().call is abs
    import random  # noqa: PLC0415 - after the target

    assert hasattr(random, "Random")


def test_a_file_without_a_factory_is_a_script(targets: Path) -> None:
    """What follows `--` is the script's own business."""
    path = targets / "script.py"

    assert parse_target(str(path), ["--anything", "1"]) == Script(path, ("--anything", "1"))


@pytest.mark.parametrize(
    ("text", "message", "hint"),
    [
        ("missing.py:make", "`missing.py` does not exist", "path/to/file.py:factory"),
        ("missing.py", "`missing.py` does not exist", "path/to/file.py:factory"),
        ("no_such_package.models:make", "no module `no_such_package.models` can be found", "current directory"),
        ("json", "`json` names no factory", "package.module:factory"),
        ("json:dmups", "`json` has no `dmups`", "did you mean `json:dumps`?"),
    ],
)
def test_a_target_that_is_not_there_is_an_error_in_words(text: str, message: str, hint: str) -> None:
    """The message names what is missing, the hint what to write."""
    with pytest.raises(InputError) as caught:
        parse_target(text)

    assert caught.value.message == message
    assert hint in str(caught.value.hint)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("failing", "raised RuntimeError: no checkpoint here"),
        ("not_a_tuple", "returned (Linear, Tensor), not `(module_or_callable, args_tuple[, kwargs_dict])`"),
    ],
)
def test_a_factory_that_builds_no_workload_is_named(targets: Path, name: str, message: str) -> None:
    """The user's error, or what was returned instead, is in the message."""
    target = _target(f"{targets / 'mlp.py'}:{name}")
    with pytest.raises(InputError) as caught:
        target.build()

    assert caught.value.message == f"`{target.text}` {message}"


def test_a_factory_that_wants_a_gpu_is_told_what_works_without(tmp_path: Path) -> None:
    """The hint names the way to choose a device, and the question that needs none."""
    file = tmp_path / "wants.py"
    file.write_text(
        "def model():\n    raise AssertionError('Torch not compiled with CUDA enabled')\n", encoding="utf-8"
    )
    with pytest.raises(InputError) as caught:
        _target(f"{file}:model").build()
    assert caught.value.hint == (
        f"without a GPU let the factory choose its device, or `foretrace guess {file}:model --on h200`"
    )


def test_a_file_that_reads_arguments_reads_none_of_foretrace_s(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A script may have a factory beside its own command line."""
    monkeypatch.setattr("sys.argv", ["foretrace", "profile", "--odd"])
    file = tmp_path / "script.py"
    file.write_text(
        "import argparse\nargparse.ArgumentParser().parse_args()\ndef model(): return print, ()\n", encoding="utf-8"
    )
    assert _target(f"{file}:model").build().call is print


def test_what_cannot_be_called_is_no_factory(targets: Path) -> None:
    """A number by that name is refused."""
    with pytest.raises(InputError, match="cannot be called: it is of type int"):
        parse_target(f"{targets / 'mlp.py'}:not_callable")


def test_a_file_that_fails_to_import_is_named(tmp_path: Path) -> None:
    """A package that is missing inside the target is not mistaken for the target."""
    broken = tmp_path / "broken.py"
    broken.write_text("import not_a_package_anybody_has\n", encoding="utf-8")

    with pytest.raises(InputError, match="imports `not_a_package_anybody_has`, which is not installed"):
        parse_target(f"{broken}:make")


def _annotated(
    dim: int,
    scale: float = 1.0,
    name: str = "x",
    bias: bool = True,  # noqa: FBT001, FBT002 - as users write factories
    limit: int | None = 3,
    act: Literal["gelu", "silu"] = "gelu",
) -> None:
    del dim, scale, name, bias, limit, act


def _plain(a, b=None, **rest) -> None:  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN003
    del a, b, rest


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["--dim", "768"], {"dim": 768}),
        (["--dim=-3", "--scale", "2"], {"dim": -3, "scale": 2.0}),
        (["--dim", "1", "--scale", "-1e-3"], {"dim": 1, "scale": -0.001}),
        (["--dim", "1", "--name", "16"], {"dim": 1, "name": "16"}),
        (["--dim", "1", "--no-bias"], {"dim": 1, "bias": False}),
        (["--dim", "1", "--bias"], {"dim": 1, "bias": True}),
        (["--dim", "1", "--bias", "off"], {"dim": 1, "bias": False}),
        (["--dim", "1", "--limit", "none"], {"dim": 1, "limit": None}),
        (["--dim", "1", "--limit", "4"], {"dim": 1, "limit": 4}),
        (["--dim", "1", "--act", "silu"], {"dim": 1, "act": "silu"}),
    ],
)
def test_annotations_decide_what_a_value_is(words: list[str], expected: dict[str, object]) -> None:
    """Int, float, bool, str, optionals and literals are read as the factory asks for them."""
    assert parse_arguments(words, _annotated) == expected


def test_values_without_annotations_are_read_as_what_they_look_like() -> None:
    """Int before float before bool before none before text; unknown names go to `**rest`."""
    words = ["--a", "8", "--b", "0.5", "--c-d", "true", "--e", "none", "--f", "bf16", "--g"]

    assert parse_arguments(words, _plain) == {"a": 8, "b": 0.5, "c_d": True, "e": None, "f": "bf16", "g": True}


@pytest.mark.parametrize(
    ("words", "message", "hint"),
    [
        ([], "`_annotated` needs --dim", "give them after `--`: `-- --dim VALUE`"),
        (["--dim", "x"], "`--dim` takes int, not `x`", None),
        (["--dim"], "`--dim` needs a value", "write `--dim VALUE`"),
        (["--dmi", "1"], "`_annotated` has no parameter for `--dmi`", "did you mean `--dim`?"),
        (["--dim", "1", "--act", "relu"], "`--act` takes one of gelu, silu, not `relu`", None),
        (["768"], "`768` is no argument of the form `--name value`", "named"),
    ],
)
def test_arguments_that_do_not_fit_are_errors_in_words(words: list[str], message: str, hint: str | None) -> None:
    """A wrong name, value or number of arguments says what the factory takes."""
    with pytest.raises(InputError) as caught:
        parse_arguments(words, _annotated)

    assert caught.value.message == message
    assert caught.value.hint is None if hint is None else hint in str(caught.value.hint)
