"""The package endpoints as Ray's client uses them: found or not, stored whole or not at all, the first writer wins."""

from __future__ import annotations

import asyncio
import hashlib
import io
import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from fleet_app.engine.errors import RequestError
from fleet_app.gateway.packages import MAX_PACKAGE_BYTES, Spool, packages_of
from tests.surface.bench import bench, eventually

NAME = "_ray_pkg_0123456789abcdef.zip"
URL = f"/api/packages/gcs/{NAME}"


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


@pytest.mark.anyio
async def test_a_package_is_missing_then_stored_then_found(tmp_path: Path) -> None:
    async with bench(tmp_path) as gateway:
        assert (await gateway.get(URL)).status == 404
        assert (await gateway.put(URL, data=b"zip bytes")).status == 200
        assert (await gateway.get(URL)).status == 200
    assert (tmp_path / "packages" / NAME).read_bytes() == b"zip bytes"


@pytest.mark.anyio
async def test_the_first_writer_of_a_name_wins_and_the_second_is_told_it_is_there(tmp_path: Path) -> None:
    async with bench(tmp_path) as gateway:
        assert (await gateway.put(URL, data=b"first")).status == 200
        assert (await gateway.put(URL, data=b"second")).status == 200
    assert (tmp_path / "packages" / NAME).read_bytes() == b"first"


HOSTILE = {
    "a path upwards": "/api/packages/gcs/..%2f..%2fx.zip",
    "a path upwards in Ray's dress": "/api/packages/gcs/_ray_pkg_..%2f..%2f0123456789abcdef.zip",
    "a hidden file": "/api/packages/gcs/.hidden.whl",
    "no package at all": "/api/packages/gcs/journal.db",
    "another store": f"/api/packages/s3/{NAME}",
    "a hash that is none": "/api/packages/gcs/_ray_pkg_0123456789abcdeX.zip",
    "a name of a thousand letters": f"/api/packages/gcs/{'a' * 1000}.whl",
    "a line break": "/api/packages/gcs/a%0a.whl",
}


@pytest.mark.anyio
@pytest.mark.parametrize("path", HOSTILE.values(), ids=HOSTILE)
async def test_a_name_that_ray_never_gives_is_refused_and_nothing_is_written(tmp_path: Path, path: str) -> None:
    async with bench(tmp_path) as gateway:
        assert (await gateway.get(path)).status == 400
        assert (await gateway.put(path, data=b"x")).status == 400
    assert names(tmp_path / "packages") == []


GOOD = {
    "a directory": NAME,
    "a wheel keeps its name": "my_pkg-1.0+local-py3-none-any.whl",
    "a tarball": f"_ray_pkg_{hashlib.sha1(b'x').hexdigest()}.tar.gz",
}


@pytest.mark.anyio
@pytest.mark.parametrize("name", GOOD.values(), ids=GOOD)
async def test_a_name_that_ray_gives_is_taken(tmp_path: Path, name: str) -> None:
    async with bench(tmp_path) as gateway:
        assert (await gateway.put(f"/api/packages/gcs/{name}", data=b"x")).status == 200


@pytest.mark.anyio
async def test_a_name_that_is_the_hash_of_something_else_is_refused(tmp_path: Path) -> None:
    async with bench(tmp_path) as gateway:
        path = f"/api/packages/gcs/_ray_pkg_{hashlib.sha1(b'mine').hexdigest()}.zip"
        assert (await gateway.put(path, data=b"theirs")).status == 400
        assert (await gateway.put(path, data=b"mine")).status == 200


@pytest.mark.anyio
async def test_a_package_over_the_limit_is_refused_in_rays_words(tmp_path: Path) -> None:
    async with bench(tmp_path) as gateway:
        answer = await gateway.put(URL, data=io.BytesIO(bytes(MAX_PACKAGE_BYTES + 1)))
        assert (answer.status, await answer.text()) == (413, "Maximum request body size 104857600 exceeded")
    assert names(tmp_path / "packages") == []


@pytest.mark.anyio
async def test_a_package_that_does_not_say_its_size_is_cut_at_the_limit(tmp_path: Path) -> None:
    async def endless() -> AsyncIterator[bytes]:
        for _ in range(MAX_PACKAGE_BYTES // (1 << 20) + 1):
            yield bytes(1 << 20)

    async with bench(tmp_path) as gateway:
        assert (await gateway.put(URL, data=endless())).status == 413
    assert names(tmp_path / "packages") == []


@pytest.mark.anyio
async def test_an_upload_that_breaks_off_leaves_nothing(tmp_path: Path) -> None:
    broke = asyncio.Event()

    async def half() -> AsyncIterator[bytes]:
        yield bytes(1 << 20)
        broke.set()
        await asyncio.Event().wait()

    async with bench(tmp_path) as gateway:
        upload = asyncio.create_task(gateway.put(URL, data=half()))
        await broke.wait()
        upload.cancel()
        with pytest.raises(asyncio.CancelledError):
            await upload
        await eventually(lambda: names(tmp_path / "packages") == [])
        assert (await gateway.get(URL)).status == 404


@pytest.mark.anyio
async def test_an_empty_package_is_refused(tmp_path: Path) -> None:
    async with bench(tmp_path) as gateway:
        assert (await gateway.put(URL, data=b"")).status == 400


def test_what_interrupted_uploads_left_is_swept_at_the_start(tmp_path: Path) -> None:
    (tmp_path / ".0.part").write_bytes(b"half")
    Spool(tmp_path)
    assert names(tmp_path) == []


def test_only_packages_that_nobody_needs_or_asked_for_lately_are_pruned(tmp_path: Path) -> None:
    spool = Spool(tmp_path)
    for number, age in enumerate([100, 100, 10]):
        path = tmp_path / f"_ray_pkg_{number:016x}.zip"
        path.write_bytes(b"x")
        os.utime(path, (1000 - age, 1000 - age))
    gone = spool.prune(frozenset({"_ray_pkg_0000000000000000.zip"}), unwanted_since=950)
    assert gone == ("_ray_pkg_0000000000000001.zip",)


def test_packages_of_a_runtime_environment_are_its_uploaded_ones() -> None:
    environment = {
        "working_dir": "gcs://_ray_pkg_1.zip",
        "py_modules": ["gcs://a.whl", "s3://bucket/b.zip", 7],
        "pip": ["gcs://no"],
    }
    assert packages_of(environment) == ("_ray_pkg_1.zip", "a.whl")


def test_a_size_beyond_the_limit_is_refused_before_a_byte_is_read(tmp_path: Path) -> None:
    async def never() -> AsyncIterator[bytes]:
        raise AssertionError("read")
        yield b""

    with pytest.raises(RequestError, match="exceeded"):
        asyncio.run(Spool(tmp_path).store("gcs", NAME, never(), MAX_PACKAGE_BYTES + 1))
