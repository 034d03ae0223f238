"""Links into Perfetto: encoding, clocks, and what they open on."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest

from foretrace.errors import InputError
from foretrace.run import Run, read
from foretrace.share import perfetto
from foretrace.share.perfetto import Focus, link

EAGER = Path(__file__).parents[2] / "data" / "h200" / "mlp_64x128x768x3072_eager.json.gz"


@pytest.fixture(scope="module")
def run() -> Run:
    """The recorded eager MLP."""
    return read(EAGER)


def parameters(address: str) -> dict[str, str]:
    """What Perfetto's page reads after `#!/?`."""
    fragment = urlsplit(address).fragment
    assert fragment.startswith("!/?")
    return {key: values[0] for key, values in parse_qs(fragment[3:], strict_parsing=True).items()}


def test_everything_in_a_link_is_percent_encoded() -> None:
    """Spaces, slashes, quotes and non-ASCII in an address or a query never end a parameter, and + is no space."""
    url = "https://example.org/a b/ü&c=d#e+f.json"
    address = link(url, Focus("k", 1000, 10, 5, "select '100%' & 1 + 1"))
    assert address.isascii()
    assert " " not in address
    assert "+" not in address
    assert parameters(address) == {
        "url": url,
        "visStart": "995",
        "visEnd": "1015",
        "ts": "1000",
        "dur": "10",
        "query": "select '100%' & 1 + 1",
    }


def test_a_link_to_another_perfetto() -> None:
    """A Perfetto of one's own is used instead of the public one, with or without a slash at its end."""
    assert link("http://a/b", perfetto="http://localhost:10000/") == "http://localhost:10000/#!/?url=http%3A%2F%2Fa%2Fb"


def test_a_kernel_is_found_on_the_clock_of_the_file(run: Run) -> None:
    """The longest of three gelus is written at 5110376738953.216 µs for 33.44 µs; case does not matter."""
    found = perfetto.kernel(run, "gelu")
    assert "GeluCUDAKernelImpl" in found.what
    assert (found.ts_ns, found.dur_ns, found.around_ns) == (5110376738953216, 33440, 4 * 33440)
    assert found.query == f"select id, ts, dur, name from slice where name = '{found.what}' order by dur desc"


def test_a_whole_name_comes_before_a_part(run: Run) -> None:
    """The longest nvjet kernel with the 192×128 tile is 51.263 µs long, although longer ones share its beginning."""
    assert perfetto.kernel(run, "nvjet_sm90_tst_192x128_64x5_1x2_h_bz_coopB_TNT").dur_ns == 51263
    assert perfetto.kernel(run, "nvjet").dur_ns == 56511


def test_a_step_is_found_by_its_number(run: Run) -> None:
    """ProfilerStep#2 is written in the file at 5110376737681.993 for 570.863 µs, and is the slowest."""
    found = perfetto.step(run, 2)
    assert (found.what, found.ts_ns, found.dur_ns) == ("ProfilerStep#2", 5110376737681993, 570863)
    assert found.around_ns == 28543
    assert perfetto.slowest_step(run) == found


def test_what_is_not_there_is_an_error_that_says_what_is(run: Run) -> None:
    """An unknown kernel lists some that ran, an unknown step all that were recorded."""
    with pytest.raises(InputError) as error:
        perfetto.kernel(run, "flash")
    assert (error.value.hint or "").startswith("it has `")
    with pytest.raises(InputError) as error:
        perfetto.step(run, 9)
    assert error.value.hint == "its steps are 2, 3, 4"


def test_quotes_in_a_name_stay_inside_the_query(tmp_path: Path) -> None:
    """A kernel whose name ends a SQL text is looked for as it is."""
    path = tmp_path / "t.json"
    path.write_text(
        '{"schemaVersion": 1, "traceEvents": [{"ph": "X", "cat": "kernel", "name": "k\'; drop table slice; --",'
        ' "pid": 0, "tid": 7, "ts": 3, "dur": 2, "args": {"stream": 7, "device": 0, "correlation": 1}}]}'
    )
    found = perfetto.kernel(read(path), "drop")
    assert found.query == (
        "select id, ts, dur, name from slice where name = 'k''; drop table slice; --' order by dur desc"
    )
    assert (found.ts_ns, found.around_ns) == (3000, 8000)
