"""The catalogue of ceilings: what is found, what is not, and what its figures are."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

import foretrace.devices.catalogue
from foretrace.devices import all_devices, find, load_spec, resolve
from foretrace.errors import InputError

H200 = {
    "id": 0,
    "name": "NVIDIA H200",
    "totalGlobalMem": 150_109_880_320,
    "computeMajor": 9,
    "computeMinor": 0,
    "numSms": 132,
}


def test_the_recorded_device_has_its_ceilings() -> None:
    """An H200: 989.4 TFLOP/s dense bf16, 4.8 TB/s, 60 MiB of L2, 132 SMs, the ridge at 206 FLOP/B."""
    device = find("NVIDIA H200", H200)
    assert device is not None
    assert device.peak("bf16") == 989.4e12
    assert device.peak("f32") == 66.9e12
    assert device.peak("tf32") == 494.7e12
    assert device.memory_bytes_per_s == 4.8e12
    assert device.l2_bytes == 62_914_560
    assert (device.sms, device.compute_capability, device.vendor) == (132, "9.0", "NVIDIA")
    assert device.link_bytes_per_s == 64e9
    assert device.peer_link_bytes_per_s == 450e9
    assert device.ridge("bf16") == pytest.approx(206.125)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("NVIDIA H200", "NVIDIA H200"),
        ("NVIDIA H200 NVL", "NVIDIA H200 NVL"),
        ("NVIDIA A100-SXM4-80GB", "NVIDIA A100 SXM4 80GB"),
        ("NVIDIA A100-SXM4-40GB", "NVIDIA A100 SXM4 40GB"),
        ("A100-SXM-80GB", "NVIDIA A100 SXM4 80GB"),
        ("NVIDIA A100-PCIE-40GB", "NVIDIA A100 PCIe 40GB"),
        ("NVIDIA A100 80GB PCIe", "NVIDIA A100 PCIe 80GB"),
        ("NVIDIA H100 80GB HBM3", "NVIDIA H100 SXM5"),
        ("NVIDIA H100 PCIe", "NVIDIA H100 PCIe"),
        ("NVIDIA H100 NVL", "NVIDIA H100 NVL"),
        ("NVIDIA GH200 480GB", "NVIDIA GH200 96GB"),
        ("NVIDIA GH200 144G HBM3e", "NVIDIA GH200 144GB"),
        ("NVIDIA B200", "NVIDIA B200"),
        ("NVIDIA GB200", "NVIDIA GB200"),
        ("NVIDIA B300 SXM6 AC", "NVIDIA B300"),
        ("Tesla T4", "NVIDIA T4"),
        ("Tesla V100-SXM2-16GB", "NVIDIA V100 SXM2 16GB"),
        ("Tesla V100-SXM2-32GB", "NVIDIA V100 SXM2 32GB"),
        ("Tesla V100-PCIE-16GB", "NVIDIA V100 PCIe 16GB"),
        ("Tesla V100S-PCIE-32GB", "NVIDIA V100S PCIe"),
        ("NVIDIA L4", "NVIDIA L4"),
        ("NVIDIA L40", "NVIDIA L40"),
        ("NVIDIA L40S", "NVIDIA L40S"),
        ("NVIDIA A10", "NVIDIA A10"),
        ("NVIDIA A10G", "NVIDIA A10G"),
        ("NVIDIA GeForce RTX 3090", "NVIDIA GeForce RTX 3090"),
        ("NVIDIA GeForce RTX 4090", "NVIDIA GeForce RTX 4090"),
        ("rtx 4090", "NVIDIA GeForce RTX 4090"),
        ("NVIDIA RTX PRO 6000 Blackwell Workstation Edition", "NVIDIA RTX PRO 6000 Blackwell Workstation Edition"),
        ("AMD Instinct MI300X", "AMD Instinct MI300X"),
        ("AMD Instinct MI300X OAM", "AMD Instinct MI300X"),
        ("AMD Instinct MI250X", "AMD Instinct MI250X (one of two dies)"),
        ("Intel(R) Data Center GPU Max 1550", "Intel Data Center GPU Max 1550"),
        ("HL-325L", "Intel Gaudi 3"),
    ],
)
def test_names_of_traces_are_found_by_their_words(name: str, expected: str) -> None:
    """Brand, form and capacity may stand in any order or be missing where one device is meant anyway."""
    device = find(name)
    assert device is not None
    assert device.name == expected


@pytest.mark.parametrize(
    "name",
    [
        "",
        "CPU",
        "NVIDIA GeForce GTX 1080",
        "NVIDIA H20",
        "NVIDIA H100 MIG 1g.10gb",
        "NVIDIA A100-SXM4-40GB MIG 3g.20gb",
        "NVIDIA A100-SXM-64GB",
        "NVIDIA A40-48Q",
        "GRID T4-16Q",
        "NVIDIA GeForce RTX 4090 Laptop GPU",
        "NVIDIA GeForce RTX 4090 D",
        "NVIDIA GeForce RTX 3090 Ti",
        "NVIDIA RTX PRO 6000 Blackwell Server Edition",
        "NVIDIA RTX PRO 6000 Blackwell Max-Q Workstation Edition",
        "Quadro RTX 6000",
        "Tesla V100-FHHL-16GB",
        "Tesla P100-SXM2-16GB",
        "H100",  # three forms with different ceilings
        "A100",
        "AMD Instinct MI250X / MI250",
    ],
)
def test_parts_relatives_and_strangers_are_unknown(name: str) -> None:
    """A slice, a share, a namesake, an unlisted device and an ambiguous name have no ceilings."""
    assert find(name) is None


@pytest.mark.parametrize(
    ("name", "properties", "expected"),
    [
        ("NVIDIA H100", {"numSms": 114, "totalGlobalMem": 85_021_163_520}, "NVIDIA H100 PCIe"),
        ("NVIDIA H100", {"numSms": 132, "totalGlobalMem": 84_929_937_408}, "NVIDIA H100 SXM5"),
        ("NVIDIA H100", {"numSms": 132, "totalGlobalMem": 100_000_000_000}, "NVIDIA H100 NVL"),
        ("NVIDIA H100 80GB HBM3", {"numSms": 16}, None),  # a slice under the whole name
        ("NVIDIA H200", {"numSms": 132, "computeMajor": 8, "computeMinor": 0}, None),
        ("NVIDIA A100-SXM4", {"totalGlobalMem": 42_505_273_344}, "NVIDIA A100 SXM4 40GB"),
        ("NVIDIA A100-SXM4", {"totalGlobalMem": 84_987_740_160}, "NVIDIA A100 SXM4 80GB"),
        ("AMD Instinct MI250X / MI250", {"numSms": 110}, "AMD Instinct MI250X (one of two dies)"),
        ("AMD Instinct MI250X / MI250", {"numSms": 104}, "AMD Instinct MI250 (one of two dies)"),
        (
            "Tesla T4",
            {"numSms": 40, "totalGlobalMem": 15_642_329_088, "computeMajor": 7, "computeMinor": 5},
            "NVIDIA T4",
        ),
        (
            "Intel(R) Data Center GPU Max 1550",
            {"totalGlobalMem": 68_719_476_736},
            "Intel Data Center GPU Max 1550 (one of two stacks)",
        ),
        ("NVIDIA H200", {"numSms": "132", "totalGlobalMem": None}, "NVIDIA H200"),  # useless properties
    ],
)
def test_properties_tell_variants_apart(name: str, properties: dict[str, object], expected: str | None) -> None:
    """Multiprocessors, memory and compute capability choose among forms, and contradict a wrong name."""
    device = find(name, properties)
    assert (device.name if device else None) == expected


@pytest.mark.parametrize(
    ("spelling", "peak"),
    [
        ("c10::BFloat16", 989.4e12),
        ("torch.bfloat16", 989.4e12),
        ("c10::Half", 989.4e12),
        ("float", 66.9e12),
        ("tf32", 494.7e12),
        ("double", 66.9e12),
        ("c10::Float8_e4m3fn", 1978.9e12),
        ("e5m2", 1978.9e12),
        ("signed char", 1978.9e12),
        ("f4", None),
        ("long int", None),
        ("", None),
        (None, None),
    ],
)
def test_peaks_take_every_spelling_of_a_type(spelling: str | None, peak: float | None) -> None:
    """Kineto's, PyTorch's and kernels' names of a type mean the same peak; full f32 and TF32 are kept apart."""
    device = find("NVIDIA H200")
    assert device is not None
    assert device.peak(spelling) == peak
    assert (device.ridge(spelling) is None) == (peak is None)


def test_devices_without_a_type_have_no_peak_for_it() -> None:
    """A V100 has no bf16 and no TF32: unknown, not zero and not another type's rate."""
    device = find("Tesla V100-SXM2-16GB")
    assert device is not None
    assert device.peak("f16") == 125e12
    assert device.peak("bf16") is None
    assert device.peak("tf32") is None


@pytest.mark.parametrize("device", all_devices(), ids=lambda device: device.name)
def test_every_listed_device_is_whole_and_sourced(device: foretrace.devices.Device) -> None:
    """Each entry has a peak, a bandwidth, a capacity and a source for them, and is found by its own name."""
    assert find(device.name) is device
    assert device.peak_flops
    assert device.memory_bytes_per_s
    assert device.memory_bytes
    assert all(device.source(figure) for figure in ("peaks", "memory", "l2", "link", "sms"))
    assert device.ridge("bf16") or device.ridge("f16")


def test_sixteen_bit_peaks_are_dense() -> None:
    """A rate with structured sparsity would double the ratios that the architectures fix: bf16 is twice TF32."""
    for device in all_devices():
        bf16, tf32 = device.peak("bf16"), device.peak("tf32")
        if bf16 and tf32:
            assert 1.95 < bf16 / tf32 < 2.1, device.name


def test_every_source_is_used() -> None:
    """The list of sources holds nothing that no figure rests on."""
    text = Path(foretrace.devices.catalogue.__file__).with_name("catalogue.toml").read_text("utf-8")
    content = tomllib.loads(text)
    cited = {key for device in content["device"] for key in device["sources"].values()}
    assert cited == set(content["sources"])


def test_a_device_of_ones_own(tmp_path: Path) -> None:
    """A file with the catalogue's keys makes a device; what it leaves out is unknown."""
    path = tmp_path / "mine.toml"
    path.write_text('name = "Mine"\nmemory_gb_s = 1000\nl2_mib = 8\npeak_tflops = { bf16 = 100, float32 = 10.5 }\n')
    device = load_spec(path)
    assert (device.name, device.memory_bytes_per_s, device.l2_bytes) == ("Mine", 1e12, 8_388_608)
    assert (device.peak("bf16"), device.peak("f32"), device.ridge("bf16")) == (100e12, 10.5e12, 100)
    assert (device.sms, device.memory_bytes, device.link_bytes_per_s) == (None, None, None)
    assert device.source("peaks") == f"given in {path}"
    assert resolve(str(path)) == device


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("name = ", "is not a TOML file"),
        ("", "a device needs a `name`"),
        ("name = 3", "`name` must be text"),
        ('name = "x"\nbandwidth = 3', "`bandwidth` is no key of a device"),
        ('name = "x"\nmemory_gb_s = "fast"', "`memory_gb_s` must be a number above zero"),
        ('name = "x"\nmemory_gb_s = -1', "`memory_gb_s` must be a number above zero"),
        ('name = "x"\nmemory_gb_s = nan', "`memory_gb_s` must be a number above zero"),
        ('name = "x"\nsms = true', "`sms` must be a number above zero"),
        ('name = "x"\nmemory_gib = 1e300', "`memory_gib` is far from what any device has"),
        ('name = "x"\nmemory_gb_s = 1e-300', "`memory_gb_s` is far from what any device has"),
        (f'name = "x"\nsms = 1{"0" * 400}', "`sms` is far from what any device has"),
        ('name = "x"\npeak_tflops = 3', "`peak_tflops` must be a table"),
        ('name = "x"\npeak_tflops = { int64 = 3 }', "`int64` in `peak_tflops` is no type"),
        ('name = "x"\npeak_tflops = { bf16 = 0 }', "`peak_tflops.bf16` must be a number above zero"),
    ],
)
def test_a_wrong_device_file_is_refused_in_words(content: str, message: str, tmp_path: Path) -> None:
    """Every fault of a device file names the file, the key and what to write instead."""
    path = tmp_path / "wrong.toml"
    path.write_text(content)
    with pytest.raises(InputError) as refused:
        load_spec(path)
    assert message in refused.value.message
    assert str(path) in refused.value.message
    assert refused.value.hint


def test_a_missing_or_binary_device_file_is_refused_in_words(tmp_path: Path) -> None:
    """No traceback for a path that is not there, a folder, or bytes that are no text."""
    binary = tmp_path / "binary.toml"
    binary.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(InputError, match="cannot read the device file"):
        resolve(str(tmp_path / "missing.toml"))
    with pytest.raises(InputError, match="cannot read the device file"):
        load_spec(tmp_path)
    with pytest.raises(InputError, match="is not a TOML file"):
        load_spec(binary)


def test_an_ambiguous_or_unknown_device_is_refused_in_words() -> None:
    """An option that fits several devices lists them; one that fits none points to the list."""
    with pytest.raises(InputError) as ambiguous:
        resolve("h100")
    assert ambiguous.value.message == "`h100` can be any of 3 devices"
    assert ambiguous.value.hint == "say which: `NVIDIA H100 SXM5`, `NVIDIA H100 PCIe`, `NVIDIA H100 NVL`"
    with pytest.raises(InputError) as unknown:
        resolve("abacus")
    assert unknown.value.hint == "`foretrace devices` lists those that are; in its place a TOML file can describe one"
    assert unknown.value.message == "no ceilings are known for the device `abacus`"
    # the option is called otherwise by `read` and by `guess`
    assert unknown.value.hint == "`foretrace devices` lists those that are; in its place a TOML file can describe one"
    assert resolve("H200").name == "NVIDIA H200"
