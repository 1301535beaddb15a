"""Options of Helm under which the chart is rendered: every example of clusters/, and every switch of values.yaml."""

from __future__ import annotations

KUBERNETES = "clusters/kubernetes"

EXAMPLES: dict[str, tuple[str, ...]] = {
    "what a chart without values makes": (),
    "one machine": ("-f", f"{KUBERNETES}/one-node.yaml", "--set-file", "policy=clusters/small.yaml"),
    "sixteen nodes": (
        *("-f", f"{KUBERNETES}/sixteen-nodes.yaml"),
        *("--set-file", f"policy={KUBERNETES}/sixteen-nodes-policy.yaml"),
        *("--set-file", "serve=serve_configs/chat.yaml"),
    ),
    "256 nodes": ("-f", f"{KUBERNETES}/fleet-2048.yaml", "--set-file", "policy=clusters/fleet-2048.yaml"),
}

SWITCHES: dict[str, tuple[str, ...]] = {
    "an image by digest": ("--set", f"image.digest=sha256:{'0' * 64}", "--set", "image.pullSecrets={one,two}"),
    "node selectors and one class a node": ("--set", "nodes.select=true", "--set", "nodes.separate=true"),
    "time-sliced GPUs": (
        *("--set", "shapes.declared.gpuResource=nvidia.com/gpu.shared", "--set", "shapes.declared.gpuCount=4"),
        *("--set", "shapes.declared.partition=shared", "--set", "shapes.declared.flavor=l4-shared"),
    ),
    "MIG slices": (
        *("--set", r"shapes.declared.gpuResource=nvidia.com/mig-1g\.10gb", "--set", "shapes.declared.gpuCount=7"),
        *("--set", "shapes.declared.partition=mig-1g.10gb", "--set", "shapes.declared.resources.h100-mig-1g=7"),
    ),
    "another grace": ("--set", "workers.terminationGraceSeconds=3600"),
    "volumes of a site's own": (
        *("--set", "workers.volumes[0].name=data", "--set", "workers.volumes[0].persistentVolumeClaim.claimName=data"),
        *("--set", "workers.volumeMounts[0].name=data", "--set", "workers.volumeMounts[0].mountPath=/data"),
        *("--set", "workers.scratch=1Ti", "--set", "workers.sharedMemory=64Gi", "--set", r"workers.limits.rdma/hca=8"),
    ),
    "annotations and environment": (
        *("--set", "classes.serving.podAnnotations.a=b", "--set", "workers.podAnnotations.c=d"),
        *("--set", "env[0].name=A", "--set", "env[0].value=B", "--set", "classes.training.env[0].name=C"),
        *(
            "--set",
            "head.env[0].name=D",
            "--set",
            "head.nodeSelector.e=f",
            "--set",
            "head.tolerations[0].operator=Exists",
        ),
    ),
    "no waves": ("--set", "waves.enabled=false"),
    "images pulled ahead": (
        *("--set", "prepull.images[0].image=other:1", "--set", "prepull.images[0].command={/bin/true}"),
        *("--set", "nodes.select=true"),
    ),
    "no token": ("--set", "auth.enabled=false"),
    "Ray asks for the token too": ("--set", "auth.ray=true", "--set", "auth.token=secret"),
    "a token of a site's own": ("--set", "auth.existingSecret=ours"),
    "nothing kept": ("--set", "journal.enabled=false"),
    "claims of a site's own": (
        *(
            "--set",
            "journal.existingClaim=a",
            "--set",
            "checkpoints.enabled=true",
            "--set",
            "checkpoints.existingClaim=b",
        ),
        *("--set", "weights.enabled=true", "--set", "weights.existingClaim=c"),
    ),
    "claims made here": (
        *("--set", "journal.storageClass=block", "--set", "checkpoints.enabled=true"),
        *("--set", "weights.enabled=true", "--set", "weights.size=1Ti"),
    ),
    "a cache of weights in the pod": ("--set", "weights.enabled=true"),
    "a Redis of its own": ("--set", "redis.enabled=true", "--set", "redis.size=1Gi"),
    "a Redis in memory": ("--set", "redis.enabled=true"),
    "a given Redis": (
        *("--set", "redis.enabled=true", "--set", "redis.address=redis.example.com:6379"),
        *("--set", "redis.existingSecret=ours"),
    ),
    "doors to the world": (
        *("--set", "ingress.serve.enabled=true", "--set", "ingress.serve.host=a.example.com"),
        *("--set", "ingress.gateway.enabled=true", "--set", "ingress.gateway.host=b.example.com"),
        *("--set", "ingress.gateway.tlsSecret=tls", "--set", "ingress.gateway.className=nginx"),
        *("--set", "ingress.gateway.annotations.a=b", "--set", "services.gateway.annotations.a=b"),
        *("--set", "services.serve.type=LoadBalancer", "--set", "services.serve.annotations.a=b"),
    ),
    "doors by the Gateway API": (
        *("--set", "routes.serve.enabled=true", "--set", "routes.serve.parentRefs[0].name=public"),
        *("--set", "routes.gateway.enabled=true", "--set", "routes.gateway.parentRefs[0].name=inside"),
        *("--set", "routes.gateway.hostnames={fleet.example.com}"),
    ),
    "no policies for the network": ("--set", "networkPolicy.enabled=false"),
    "priority classes from elsewhere": ("--set", "priorityClasses.create=false"),
    "monitors and a dashboard": (
        *("--set", "monitoring.enabled=true", "--set", "monitoring.dashboard=true"),
        *("--set", "monitoring.labels.release=prometheus", "--set", "auth.enabled=false"),
    ),
    "what a newer operator knows": ("--set", "rayClusterSpec.enableInTreeAutoscaling=true"),
    "another user": ("--set", "user=20000"),
}

ALL = {**EXAMPLES, **SWITCHES}
