"""Keys, certificates and kubeconfigs of a cluster, made by openssl. Does not know who uses which."""

from __future__ import annotations

import base64
import json
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

DAYS = "7"
CURVE = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes")


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """A certificate and its key."""

    certificate: Path
    key: Path


class Authority:
    """A certificate authority in a folder, and what it has signed there."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        self._folder = folder
        self.own = self._pair("ca", "/CN=fleet-bed", ())

    def sign(self, name: str, subject: str, names: Sequence[str] = ()) -> Pair:
        """Return a certificate for a subject such as `/O=group/CN=user`, and names such as `IP:127.0.0.1`."""
        signed = ("-CA", str(self.own.certificate), "-CAkey", str(self.own.key), "-addext", "basicConstraints=CA:FALSE")
        also = ("-addext", f"subjectAltName={','.join(names)}") if names else ()
        return self._pair(name, subject, (*signed, *also))

    def kubeconfig(self, name: str, subject: str, server: str) -> Path:
        """Return a kubeconfig, complete in itself, for a user of that subject."""
        user = self.sign(name, subject)
        document = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [
                {
                    "name": "bed",
                    "cluster": {"server": server, "certificate-authority-data": _encoded(self.own.certificate)},
                }
            ],
            "users": [
                {
                    "name": name,
                    "user": {
                        "client-certificate-data": _encoded(user.certificate),
                        "client-key-data": _encoded(user.key),
                    },
                }
            ],
            "contexts": [{"name": "bed", "context": {"cluster": "bed", "user": name}}],
            "current-context": "bed",
        }
        path = self._folder / f"{name}.kubeconfig"
        path.write_text(json.dumps(document), encoding="utf-8")
        path.chmod(0o600)
        return path

    def _pair(self, name: str, subject: str, more: Sequence[str]) -> Pair:
        pair = Pair(certificate=self._folder / f"{name}.crt", key=self._folder / f"{name}.key")
        command = ["openssl", "req", "-x509", *CURVE, "-days", DAYS, "-subj", subject, *more]
        command += ["-out", str(pair.certificate), "-keyout", str(pair.key)]
        subprocess.run(command, check=True, capture_output=True, timeout=60)
        return pair


def _encoded(path: Path) -> str:
    return base64.b64encode(path.read_bytes()).decode()
