"""Every filled field of the table of public kernel names, and that no name of it is written into the package."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

import foretrace.names
from foretrace.names import decode

DATA = Path(__file__).parents[2] / "data"
FIELDS = ("op_class", "arch", "in_dtype", "acc_dtype", "stages", "layout")
TILE = ("tile_m", "tile_n", "tile_k")

# Where the table says more than the name or something else, with what the name says.
BEYOND_THE_NAME = {
    # read off the machine that recorded it; the same form without a tag is blank elsewhere in the table
    ("nvjet_hss_64x8_64x16_1x1_v_bz_splitK_NNT", "arch"): None,
    ("nvjet_tst_192x8_64x8_4x1_v_bz_TNT", "arch"): None,
    # the table's own note says nvfp4 for these two (o = e2m1, K tile of 256 elements = 128 bytes)
    ("nvjet_sm100_oosss_128x256_256x5_2x1_2cta_v_bz_Avec16UE4M3_Bvec16UE4M3_TNT", "in_dtype"): "fp4",
    ("nvjet_sm100_oohsh_128x256_256x5_2x2_2cta_h_bz_Avec16UE4M3_Bvec16UE4M3_TNT", "in_dtype"): "fp4",
}


def rows() -> list[dict[str, str]]:
    """The table, one dict a name."""
    with (DATA / "kernel_names.tsv").open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file, delimiter="\t"))


def test_the_table_is_whole() -> None:
    """The table holds the 103 names that were collected."""
    assert len(rows()) == 103


@pytest.mark.parametrize("row", rows(), ids=lambda row: row["name"][:60])
def test_every_filled_field(row: dict[str, str]) -> None:
    """The decoder gives what the table says, field by field; an empty field or ``-`` is not tested."""
    identity = decode(row["name"])
    said = {field: getattr(identity, field) for field in FIELDS}
    said |= dict(zip(TILE, identity.tile or (None, None, None), strict=True))
    expected = {field: row[field] for field in (*FIELDS, *TILE) if row[field] not in {"", "-", None}}
    for field in expected:
        if (row["name"], field) in BEYOND_THE_NAME:
            expected[field] = str(BEYOND_THE_NAME[row["name"], field])
    assert {field: str(said[field]) for field in expected} == expected


@pytest.mark.parametrize("row", rows(), ids=lambda row: row["name"][:60])
def test_every_name_has_a_family(row: dict[str, str]) -> None:
    """No public name is unknown, and each has a sentence."""
    identity = decode(row["name"])
    assert identity.family != "unknown"
    assert identity.in_words != "no grammar knows this name"


def test_no_name_is_written_into_the_package() -> None:
    """The decoder reads grammars: none of the table's names stands in its source."""
    source = "\n".join(path.read_text("utf-8") for path in Path(foretrace.names.__file__).parent.glob("*.py"))
    # a bare function name that a grammar has to spell out is no decoded name
    names = [row["name"] for row in rows() if any(char.isdigit() for char in row["name"])]
    assert len(names) > 95
    assert [name for name in names if name in source] == []
