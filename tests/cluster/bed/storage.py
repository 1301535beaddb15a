"""Volumes for claims: folders of the run, which all nodes see. Does not know what is kept there."""

from __future__ import annotations

from pathlib import Path

from tests.cluster.bed.client import Cluster

VOLUMES = 24
NAME = "bed"


def provide(cluster: Cluster, folder: Path) -> None:
    """Make a default StorageClass, and volumes enough for a test run: nothing makes more."""
    documents: list[dict[str, object]] = [
        {
            "apiVersion": "storage.k8s.io/v1",
            "kind": "StorageClass",
            "metadata": {"name": NAME, "annotations": {"storageclass.kubernetes.io/is-default-class": "true"}},
            "provisioner": "kubernetes.io/no-provisioner",
        }
    ]
    for number in range(VOLUMES):
        path = folder / f"{NAME}-{number}"
        path.mkdir(parents=True)
        path.chmod(0o777)  # nobody gives a folder to the group that a pod asks for
        documents.append(
            {
                "apiVersion": "v1",
                "kind": "PersistentVolume",
                "metadata": {"name": path.name},
                "spec": {
                    "capacity": {"storage": "2Ti"},
                    "accessModes": ["ReadWriteOnce", "ReadWriteMany"],
                    "storageClassName": NAME,
                    "persistentVolumeReclaimPolicy": "Retain",
                    "hostPath": {"path": str(path)},
                },
            }
        )
    cluster.apply(*documents)
