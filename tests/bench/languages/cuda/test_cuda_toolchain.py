from __future__ import annotations

from pathlib import Path

import pytest

from kforecast.bench.languages.cuda import toolchain as room
from kforecast.bench.languages.cuda.pool import CompilePool
from kforecast.bench.languages.cuda.toolchain import find_toolchain
from kforecast.store.errors import DeviceError


def touch(path: Path, content: str = "") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content)
    return path


def test_the_installed_toolchain_is_whole() -> None:
    found = find_toolchain()
    assert found.identity.startswith("nvrtc ")
    assert len(found.version.split(".")) == 3
    for header in ("cuda_fp16.h", "crt/mma.h", "cuda/std/cstdint"):
        assert any((folder / header).is_file() for folder in found.include_dirs), header
    assert "CUDA_VERSION=" in found.headers
    assert "CCCL_VERSION=" in found.headers


def test_cuda_home_goes_first_and_its_own_headers_with_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    touch(tmp_path / "lib64/libnvrtc.so.13.0.88")
    (tmp_path / "lib64/libnvrtc.so.13").symlink_to("libnvrtc.so.13.0.88")
    (tmp_path / "lib64/libnvrtc.so").symlink_to("libnvrtc.so.13")
    touch(tmp_path / "lib64/libnvrtc.alt.so.99")
    touch(tmp_path / "lib64/libnvrtc-builtins.so.13.0")
    touch(tmp_path / "include/cuda_fp16.h")
    touch(tmp_path / "include/cccl/cuda/std/cstdint")
    touch(tmp_path / "bin/nvdisasm").chmod(0o755)
    monkeypatch.setenv("CUDA_HOME", str(tmp_path))
    found = find_toolchain()
    assert found.identity == "nvrtc 13.0.88"
    assert found.builtins == tmp_path / "lib64/libnvrtc-builtins.so.13.0"
    assert found.include_dirs[0] == tmp_path / "include"
    assert tmp_path / "include/cccl" in found.include_dirs
    assert found.nvdisasm == tmp_path / "bin/nvdisasm"


def test_versions_come_from_a_wheels_metadata_or_a_toolkits_manifest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wheel = tmp_path / "site" / "nvidia" / "cu13"
    touch(wheel / "lib/libnvrtc.so.13")
    touch(wheel / "lib/libnvrtc-builtins.so.13.5")
    (tmp_path / "site/nvidia_cuda_nvrtc-13.5.37.dist-info").mkdir()
    monkeypatch.setenv("CUDA_HOME", str(wheel))
    assert find_toolchain().version == "13.5.37"
    kit = tmp_path / "kit"
    touch(kit / "lib64/libnvrtc.so.13")
    touch(kit / "lib64/libnvrtc-builtins.so.13.1")
    touch(kit / "version.json", '{"cuda_nvrtc": {"name": "CUDA NVRTC", "version": "13.1.80"}}')
    monkeypatch.setenv("CUDA_HOME", str(kit))
    assert find_toolchain().version == "13.1.80"


def test_no_compiler_says_how_to_get_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(room, "_roots", lambda home, path: [tmp_path])
    monkeypatch.setenv("CUDA_HOME", str(tmp_path / "nothing"))
    with pytest.raises(DeviceError, match=r"pip install 'kforecast\[cuda-compile\]'"):
        find_toolchain()
    touch(tmp_path / "lib/libnvrtc.so.13")
    monkeypatch.setenv("CUDA_HOME", str(tmp_path / "nothing else"))
    with pytest.raises(DeviceError, match="libnvrtc-builtins"):
        find_toolchain()


def test_a_library_that_does_not_load_is_an_error_of_the_machinery(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    touch(tmp_path / "lib64/libnvrtc.so.13.0.88")
    touch(tmp_path / "lib64/libnvrtc-builtins.so.13.0")
    monkeypatch.setenv("CUDA_HOME", str(tmp_path))
    with CompilePool(workers=1) as pool, pytest.raises(DeviceError, match="compile worker failed"):
        pool.warm()
    with CompilePool(workers=1) as pool:  # and the pool stays usable: it fails again instead of waiting for ever
        for _ in range(3):
            with pytest.raises(DeviceError, match="compile worker failed"):
                pool.run([["true"]], files={}, deadline_s=1.0)
