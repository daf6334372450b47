from __future__ import annotations

import importlib.util
import json
import logging
import os
import subprocess
import sys
from pathlib import Path

import pytest

from paceline import platform
from paceline.errors import SettingsError
from paceline.platform import MemoryLimit, find_blas, memory_limit

GIB = 1 << 30
linux_only = pytest.mark.skipif(sys.platform != "linux", reason="a BLAS is loaded on Linux only")


def put(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


def names_found(root: Path, *, machine: str = "x86_64", ldconfig: str = "") -> list[str]:
    found = find_blas(
        root=root,
        prefix=root / "venv",
        packages=[root / "venv/site-packages"],
        machine=machine,
        ldconfig=ldconfig,
    )
    return [str(blas.path.relative_to(root)) for blas in found]


MKL = {"venv/lib/libmkl_rt.so.3": "", "venv/lib/libmkl_core.so.3": ""}
PTHREAD = "usr/lib/x86_64-linux-gnu/openblas-pthread/libopenblas.so.0"
OPENMP = "usr/lib/x86_64-linux-gnu/openblas-openmp/libopenblas.so.0"
SERIAL = "usr/lib/x86_64-linux-gnu/openblas-serial/libopenblas.so.0"
WHEEL = "venv/site-packages/opencv_python.libs/libopenblasp-r0-e3ea6fd1.3.15.so"


# --- which library -----------------------------------------------------------------------------------


def test_mkl_comes_before_the_systems_openblas_before_the_wheels_before_a_serial_one(tmp_path: Path) -> None:
    put(tmp_path, {**MKL, WHEEL: "", SERIAL: "", OPENMP: "", PTHREAD: ""})
    assert names_found(tmp_path) == ["venv/lib/libmkl_rt.so.3", PTHREAD, OPENMP, WHEEL, SERIAL]


def test_mkl_is_tried_on_x86_only_and_only_with_its_kernels(tmp_path: Path) -> None:
    put(tmp_path, {"venv/lib/libmkl_rt.so.3": ""})
    assert names_found(tmp_path) == []
    put(tmp_path, MKL)
    assert names_found(tmp_path) == ["venv/lib/libmkl_rt.so.3"]
    assert names_found(tmp_path, machine="aarch64") == []


def test_reference_blas_and_libraries_with_other_names_or_integers_are_never_candidates(
    tmp_path: Path,
) -> None:
    put(
        tmp_path,
        {
            "usr/lib/x86_64-linux-gnu/libblas.so.3": "",
            "usr/lib/x86_64-linux-gnu/openblas64-pthread/libopenblas64.so.0": "",
            "usr/lib64/libopenblas64_.so.0": "",
            "usr/lib64/libopenblasp64.so.0": "",
            "venv/site-packages/numpy.libs/libscipy_openblas64_-7220728c.so": "",
            "venv/site-packages/scipy.libs/libscipy_openblas-c5a9b014.so": "",
        },
    )
    assert names_found(tmp_path, ldconfig="\tlibblas.so.3 (libc6,x86-64) => /lib/libblas.so.3\n") == []


def test_fedoras_threaded_openblas_is_told_by_its_name(tmp_path: Path) -> None:
    put(tmp_path, {f"usr/lib64/libopenblas{kind}.so.0": "" for kind in ("", "o", "p")})
    assert names_found(tmp_path) == [f"usr/lib64/libopenblas{kind}.so.0" for kind in ("p", "o", "")]


def test_the_loaders_cache_is_asked_and_links_are_followed_to_see_what_they_hide(tmp_path: Path) -> None:
    put(tmp_path, {SERIAL: "", WHEEL: "", "opt/lib/libopenblas.so": ""})
    link = tmp_path / "lib/libopenblas.so.0"
    link.parent.mkdir()
    link.symlink_to(tmp_path / SERIAL)
    ldconfig = f"""2 libs found in cache `/etc/ld.so.cache'
\tlibopenblas.so.0 (libc6,x86-64) => {link}
\tlibopenblas.so (libc6,x86-64) => {tmp_path}/opt/lib/libopenblas.so
"""
    found = names_found(tmp_path, ldconfig=ldconfig)
    assert found[:2] == ["opt/lib/libopenblas.so", WHEEL]
    assert len(found) == 3  # the link and the serial library behind it are one


# --- what it reads when it is loaded -----------------------------------------------------------------


def environment(
    name: str, env: dict[str, str], *, flags: str = "avx2 avx512f", machine: str = "x86_64"
) -> dict[str, str]:
    platform.blas_environment(name, env, cpuinfo=f"flags\t\t: fpu {flags}\n", machine=machine, cpus=6)
    return env


def test_openblas_gets_the_usable_cores_and_the_kernels_for_avx512() -> None:
    assert environment("OpenBLAS", {}) == {"OPENBLAS_NUM_THREADS": "6", "OPENBLAS_CORETYPE": "SKYLAKEX"}


def test_without_avx512_openblas_chooses_its_own_kernels() -> None:
    assert environment("OpenBLAS", {}, flags="avx2 avx512") == {"OPENBLAS_NUM_THREADS": "6"}
    assert environment("OpenBLAS", {}, machine="aarch64") == {"OPENBLAS_NUM_THREADS": "6"}


@pytest.mark.parametrize("variable", ["OPENBLAS_NUM_THREADS", "GOTO_NUM_THREADS", "OMP_NUM_THREADS"])
def test_what_the_user_set_is_left_alone(variable: str) -> None:
    given = {variable: "1", "OPENBLAS_CORETYPE": "HASWELL"}
    assert environment("OpenBLAS", dict(given)) == given


def test_mkl_gets_its_own_variable() -> None:
    assert environment("MKL", {}) == {"MKL_NUM_THREADS": "6"}


# --- loading it --------------------------------------------------------------------------------------


def test_no_library_at_all_is_a_warning_that_says_what_to_do() -> None:
    report = platform.load_first([])
    assert report.warning
    assert report.path is None
    assert "libopenblas0-pthread" in report.line()


@linux_only
def test_a_file_that_does_not_load_is_passed_over_and_named(tmp_path: Path) -> None:
    broken = put(tmp_path, {"libopenblas.so.0": "no library"}) / "libopenblas.so.0"
    report = platform.load_first([platform.Blas("OpenBLAS", broken)])
    assert report.warning
    assert str(broken) in report.line()


@linux_only
def test_a_library_that_the_user_named_must_load(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"--blas: cannot use .*/missing.so"):
        platform.load_named(tmp_path / "missing.so")


@linux_only
def test_a_library_without_plain_cblas_names_is_refused() -> None:
    with pytest.raises(SettingsError, match="has no plain cblas_sgemm"):
        platform.load_named(Path("libm.so.6"))


def in_a_fresh_process(code: str) -> dict[str, object]:
    """What `code` leaves in `result`; MLX must not have been imported yet."""
    script = f"import json, sys\nfrom paceline import platform\nresult = {{}}\n{code}\nprint(json.dumps(result))"
    env = {k: v for k, v in os.environ.items() if not k.endswith("_NUM_THREADS")}
    output = subprocess.run([sys.executable, "-c", script], env=env, capture_output=True, text=True, check=True)
    answer: dict[str, object] = json.loads(output.stdout)
    return answer


def test_importing_the_module_does_not_import_mlx() -> None:
    assert in_a_fresh_process("result['mlx'] = 'mlx.core' in sys.modules") == {"mlx": False}


@linux_only
def test_once_mlx_is_imported_it_is_too_late_and_the_report_says_so() -> None:
    found = in_a_fresh_process(
        "import mlx.core\nplatform.has_cuda_build = lambda: False\n"
        "report = platform.prepare()\nresult = {'warning': report.warning, 'line': report.line()}"
    )
    assert found["warning"] is True
    assert "imported before" in str(found["line"])


@pytest.mark.parametrize("warning", [False, True])
def test_only_the_first_call_does_anything_and_it_logs_what_it_did(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, warning: bool
) -> None:
    monkeypatch.setattr(platform, "_report", None)
    monkeypatch.setattr(platform, "_prepare", lambda blas: platform.BlasReport(f"as {blas}", warning=warning))
    with caplog.at_level(logging.INFO, "paceline"):
        first = platform.prepare("none")
        assert platform.prepare("/another.so") is first
    logged = [(record.levelname, record.getMessage()) for record in caplog.records]
    assert logged == [("WARNING" if warning else "INFO", "BLAS: as none")]


@pytest.mark.slow
def test_a_thread_that_used_mlx_lm_does_not_end_the_process_with_an_abort() -> None:
    code = """
import threading
from paceline import platform
platform.prepare("none")
garbage = [[object()] for _ in range(400_000)]  # makes the interpreter's end slow enough for the race
def work():
    import mlx.core as mx
    mx.random.normal((3,))
thread = threading.Thread(target=work)
thread.start()
thread.join()
"""
    for _ in range(5):
        process = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
        assert (process.returncode, process.stderr) == (0, "")


@linux_only
def test_on_cuda_a_server_may_meet_any_number_of_shapes_and_what_the_user_has_set_stays(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    environment = {"HOME": "/home/me", "MLX_CUDA_SDPA_CACHE_SIZE": "7"}
    monkeypatch.setattr(os, "environ", environment)
    monkeypatch.setattr(platform, "has_cuda_build", lambda: True)
    platform._prepare(None)
    assert environment["MLX_ENABLE_CACHE_THRASHING_CHECK"] == "0"
    assert (environment["MLX_CUDA_GRAPH_CACHE_SIZE"], environment["MLX_CUDA_SDPA_CACHE_SIZE"]) == ("4096", "7")


@linux_only
def test_mlx_has_the_switch_for_its_check_of_shapes() -> None:
    mlx = importlib.util.find_spec("mlx")
    assert mlx is not None and mlx.submodule_search_locations is not None
    [header] = [file for place in mlx.submodule_search_locations for file in Path(place).glob("**/cuda/lru_cache.h")]
    assert "MLX_ENABLE_CACHE_THRASHING_CHECK" in header.read_text()


@linux_only
def test_what_is_found_on_this_machine_does_mlx_products() -> None:
    if not find_blas() or platform.has_cuda_build():
        pytest.skip("this machine has no BLAS to load, or needs none")
    found = in_a_fresh_process(
        "report = platform.prepare()\n"
        "import mlx.core as mx\n"
        "a = mx.ones((512, 512))\n"
        "result = {'warning': report.warning, 'threads': report.threads, 'right': (a @ a)[0, 0].item()}\n"
        "result['loaded'] = report.path.resolve().name in open('/proc/self/maps').read()"
    )
    assert found["warning"] is False
    assert found["loaded"] is True
    assert found["right"] == 512
    assert isinstance(found["threads"], int) and found["threads"] >= 1


# --- memory ------------------------------------------------------------------------------------------


def test_metals_limit_is_its_recommended_working_set() -> None:
    info = {"max_recommended_working_set_size": 96 * GIB, "memory_size": 128 * GIB}
    assert memory_limit("metal", info) == MemoryLimit(96 * GIB, "Metal's recommended working set")


def test_without_that_metals_limit_is_a_share_of_its_memory() -> None:
    assert memory_limit("metal", {"memory_size": 128 * GIB}).bytes == 96 * GIB


def test_cudas_limit_is_what_is_free() -> None:
    info: dict[str, str | int] = {
        "free_memory": 100 * GIB,
        "total_memory": 140 * GIB,
        "architecture": "sm_90",
    }
    assert memory_limit("cuda", info) == MemoryLimit(100 * GIB, "CUDA's free memory")


def test_without_that_cudas_limit_is_a_share_of_its_memory() -> None:
    assert memory_limit("cuda", {"total_memory": 140 * GIB}).bytes == 126 * GIB


def test_a_device_that_reports_no_size_is_given_the_hosts_and_says_so(tmp_path: Path) -> None:
    put(tmp_path, {"proc/meminfo": "MemTotal:       33554432 kB\nMemAvailable:   16777216 kB\n"})
    info: dict[str, str | int] = {"device_name": "new", "free_memory": 0, "total_memory": "?"}
    limit = memory_limit("cuda", info, tmp_path)
    assert limit.bytes == 16 * GIB
    assert "reports no size" in limit.source


def test_on_cpu_the_limit_is_what_is_free_not_what_is_installed(tmp_path: Path) -> None:
    put(tmp_path, {"proc/meminfo": "MemTotal:       33554432 kB\nMemFree:  1 kB\nMemAvailable:   16777216 kB\n"})
    assert memory_limit("cpu", root=tmp_path) == MemoryLimit(16 * GIB, "free RAM")


def test_without_proc_the_limit_is_ram_as_the_system_tells_it(tmp_path: Path) -> None:
    assert memory_limit("cpu", root=tmp_path).bytes == os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def test_this_machines_own_limit_is_a_sensible_number() -> None:
    assert memory_limit("cpu").bytes > 256 << 20


@pytest.mark.parametrize(
    ("group", "where"),
    [
        ("0::/job", "sys/fs/cgroup/job/memory.max"),
        ("0::/job/step", "sys/fs/cgroup/job/memory.max"),  # a group above binds too
        ("0::/outside/of/the/container", "sys/fs/cgroup/memory.max"),
        ("0::/", "sys/fs/cgroup/unified/memory.max"),
        ("4:memory:/job", "sys/fs/cgroup/memory/job/memory.limit_in_bytes"),
        ("4:memory:/docker/0123", "sys/fs/cgroup/memory/memory.limit_in_bytes"),
    ],
)
def test_a_cgroup_with_less_memory_than_ram_is_the_limit(tmp_path: Path, group: str, where: str) -> None:
    put(
        tmp_path,
        {
            "proc/meminfo": "MemTotal:       33554432 kB\nMemAvailable:   16777216 kB\n",
            "proc/self/cgroup": f"9:name=systemd:/\n{group}\n",
            where: f"{4 * GIB}\n",
        },
    )
    limit = memory_limit("cpu", root=tmp_path)
    assert limit.bytes == 4 * GIB
    assert where in limit.source


def test_of_a_cgroups_limit_counts_what_it_has_not_used_yet(tmp_path: Path) -> None:
    group = "sys/fs/cgroup/job"
    put(
        tmp_path,
        {
            "proc/meminfo": "MemAvailable:   16777216 kB\n",
            "proc/self/cgroup": "0::/job\n",
            f"{group}/memory.max": f"{4 * GIB}\n",
            f"{group}/memory.current": f"{3 * GIB}\n",
            f"{group}/memory.stat": f"anon {2 * GIB}\ninactive_file {GIB}\n",  # files can be read again
        },
    )
    assert memory_limit("cpu", root=tmp_path).bytes == 2 * GIB


@pytest.mark.parametrize("text", ["max\n", "9223372036854771712\n", ""])
def test_a_cgroup_without_a_limit_changes_nothing(tmp_path: Path, text: str) -> None:
    put(
        tmp_path,
        {
            "proc/meminfo": "MemTotal:       33554432 kB\nMemAvailable:   16777216 kB\n",
            "proc/self/cgroup": "0::/job\n",
            "sys/fs/cgroup/job/memory.max": text,
        },
    )
    assert memory_limit("cpu", root=tmp_path) == MemoryLimit(16 * GIB, "free RAM")


# --- cores -------------------------------------------------------------------------------------------


def cpus(monkeypatch: pytest.MonkeyPatch, root: Path, affinity: int, files: dict[str, str]) -> int:
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(affinity)), raising=False)
    return platform.usable_cpus(put(root, files))


def test_the_usable_cores_are_those_of_the_affinity(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert cpus(monkeypatch, tmp_path, 8, {}) == 8


@pytest.mark.parametrize(
    ("quota", "expected"),
    [("300000 100000", 3), ("50000 100000", 1), ("max 100000", 8), ("9900000 100000", 8)],
)
def test_a_cpu_quota_cuts_them(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, quota: str, expected: int) -> None:
    files = {"proc/self/cgroup": "0::/job\n", "sys/fs/cgroup/job/cpu.max": f"{quota}\n"}
    assert cpus(monkeypatch, tmp_path, 8, files) == expected


@pytest.mark.parametrize(("quota", "expected"), [("200000", 2), ("-1", 8)])
def test_so_does_a_quota_of_the_old_kind(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, quota: str, expected: int
) -> None:
    files = {
        "proc/self/cgroup": "2:cpu,cpuacct:/job\n",
        "sys/fs/cgroup/cpu,cpuacct/job/cpu.cfs_quota_us": f"{quota}\n",
        "sys/fs/cgroup/cpu,cpuacct/job/cpu.cfs_period_us": "100000\n",
    }
    assert cpus(monkeypatch, tmp_path, 8, files) == expected


# --- the device --------------------------------------------------------------------------------------


def test_the_kind_of_device_is_the_one_mlx_computes_on() -> None:
    import mlx.core as mx

    kind = platform.device_kind()
    assert (kind == "cpu") == (mx.default_device().type == mx.DeviceType.cpu)
    assert (kind == "metal") == (kind != "cpu" and mx.metal.is_available())


@linux_only
def test_without_a_backend_of_mlx_a_start_says_what_to_install(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert platform.has_backend()
    assert not platform.has_backend([tmp_path])
    monkeypatch.setattr(platform, "_report", None)
    monkeypatch.setattr(platform, "has_cuda_build", lambda: False)
    monkeypatch.setattr(platform, "has_backend", lambda: False)
    with pytest.raises(SettingsError, match=r"pip install 'mlx\[cpu\]'"):
        platform.prepare()


@pytest.mark.slow
def test_transformers_does_without_a_pytorch_that_is_installed(tmp_path: Path) -> None:
    package = tmp_path / "torch"
    package.mkdir()
    (package / "__init__.py").write_text("raise SystemExit('PyTorch was imported')")
    (tmp_path / "torch-2.9.0.dist-info").mkdir()
    (tmp_path / "torch-2.9.0.dist-info" / "METADATA").write_text("Metadata-Version: 2.1\nName: torch\nVersion: 2.9.0\n")
    code = """
from paceline.platform import without_torch
without_torch()
import sys, transformers
from transformers import AutoTokenizer
assert not transformers.is_torch_available()
assert "torch" not in sys.modules
"""
    environment = {**os.environ, "PYTHONPATH": f"{tmp_path}{os.pathsep}{Path(__file__).parents[1]}"}
    subprocess.run([sys.executable, "-c", code], env=environment, check=True)
