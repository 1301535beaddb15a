"""Spools runtime-env packages on the head's volume, so that a job that waited, or resumes, still finds its code.

Ray forgets a package when its first job ends, or after ten minutes; the spool keeps it for as long as the fleet may
need it. The first writer of a name wins. Knows names, sizes and files. Does not know jobs, and never opens a package;
who may upload at all is the token's business.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import re
import shutil
import uuid
from collections.abc import AsyncIterator, Mapping
from pathlib import Path

from fleet_app.engine.errors import FaultError, NotFoundError, RequestError
from fleet_app.gateway.body import TooLargeError

MAX_PACKAGE_BYTES = 100 * 1024 * 1024
"""Ray's own limit."""

MIN_FREE_BYTES = 256 * 1024 * 1024
"""What an upload leaves free on the volume: the journal lives there too."""

# Ray names archives after a hash of what is in them, and leaves wheels the name they have.
_ARCHIVE = re.compile(r"_ray_pkg_(?P<digest>[0-9a-f]{16,64})\.(?:zip|tar\.gz|tgz|tar\.xz)")
_WHEEL = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.+-]{0,200}\.whl")
_SHA1_DIGITS = 40


class FullVolumeError(FaultError):
    """The spool's volume has no room for a package: HTTP 507."""

    http_status = 507


class Spool:
    """The directory of packages; every method may be repeated."""

    def __init__(self, folder: Path) -> None:
        """Use `folder`, made when absent, and sweep what interrupted uploads left there."""
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        for leftover in folder.glob(".*.part"):
            leftover.unlink(missing_ok=True)

    def path(self, protocol: str, name: str) -> Path:
        """Return where the package is, or would be. Raises RequestError for a name that Ray's client never makes."""
        if protocol != "gcs":
            raise RequestError(f"packages of {protocol!r} are not kept here", where="package", fix="Use gcs://")
        if not (_ARCHIVE.fullmatch(name) or _WHEEL.fullmatch(name)):
            raise RequestError(
                "the name is not one that Ray gives to a package", where="package", fix="_ray_pkg_<hash>.zip or *.whl"
            )
        return self.folder / name

    def find(self, protocol: str, name: str) -> Path:
        """Return the path of a package that is here, and mark it as wanted now. Raises NotFoundError."""
        path = self.path(protocol, name)
        try:
            os.utime(path)
        except FileNotFoundError:
            # The client only reads the status, a person reads Ray's own words.
            raise NotFoundError(f"Package {protocol}://{name} does not exist") from None
        return path

    async def store(self, protocol: str, name: str, chunks: AsyncIterator[bytes], size: int | None) -> bool:
        """Write a package to disk, whole or not at all; return False when it was here already (and is unchanged).

        `size` is what the client declared, None when it did not. Raises RequestError, FullVolumeError.
        """
        path = self.path(protocol, name)
        self._check_room(size)
        part = self.folder / f".{uuid.uuid4().hex}.part"
        try:
            digest = await _write(part, chunks)
            _check_digest(name, digest)
            return _claim(part, path)
        finally:
            part.unlink(missing_ok=True)

    def prune(self, keep: frozenset[str], unwanted_since: float) -> tuple[str, ...]:
        """Remove packages that `keep` does not name and that nobody asked for since a moment; return their names."""
        gone = []
        for path in sorted(self.folder.iterdir()):
            if path.name not in keep and path.stat().st_mtime < unwanted_since:
                path.unlink()
                gone.append(path.name)
        return tuple(gone)

    def _check_room(self, size: int | None) -> None:
        if size is not None and size > MAX_PACKAGE_BYTES:
            raise _too_large()
        if shutil.disk_usage(self.folder).free - (size or MAX_PACKAGE_BYTES) < MIN_FREE_BYTES:
            raise FullVolumeError("no room for packages", where=str(self.folder), fix="Free space on this volume")


def packages_of(runtime_env: Mapping[str, object]) -> tuple[str, ...]:
    """Return the names of the packages that a runtime environment takes from the spool (its gcs:// URIs)."""
    modules = runtime_env.get("py_modules")
    uris = [runtime_env.get("working_dir"), *(modules if isinstance(modules, list) else [])]
    return tuple(uri.removeprefix("gcs://") for uri in uris if isinstance(uri, str) and uri.startswith("gcs://"))


async def _write(part: Path, chunks: AsyncIterator[bytes]) -> str:
    """Write what comes, flushed to the disk; return its SHA-1 in hex."""
    written, digest = 0, hashlib.sha1(usedforsecurity=False)
    with part.open("xb") as file:
        async for chunk in chunks:
            written += len(chunk)
            if written > MAX_PACKAGE_BYTES:
                raise _too_large()
            digest.update(chunk)
            file.write(chunk)
        file.flush()
        await asyncio.to_thread(os.fsync, file.fileno())
    if written == 0:
        raise RequestError("it is empty", where="package", fix="Send the archive as the request's body")
    return digest.hexdigest()


def _check_digest(name: str, digest: str) -> None:
    """An archive that the user made himself is named after its SHA-1; nobody else may take that name."""
    archive = _ARCHIVE.fullmatch(name)
    if archive and len(archive["digest"]) == _SHA1_DIGITS and archive["digest"] != digest:
        raise RequestError("its content does not match its name", where="package", fix="Upload it with Ray's client")


def _claim(part: Path, path: Path) -> bool:
    try:
        os.link(part, path)  # unlike a rename, it refuses to replace
    except FileExistsError:
        return False
    return True


def _too_large() -> TooLargeError:
    return TooLargeError(f"Maximum request body size {MAX_PACKAGE_BYTES} exceeded")
