"""`python -m fleet_app.adapters.retire`: before a release goes, its RayCluster does, while it still has what it needs.

With GCS fault tolerance KubeRay's operator deletes a RayCluster only after a job in the image of the head has cleaned
up in Redis. Helm deletes Redis, claims and accounts at the same moment, and that job would wait for them for five
minutes. So this is Helm's pre-delete hook. Ends well when the time is over, too: the rest then goes as it can.
"""

from __future__ import annotations

import argparse
import logging
import sys
import time
from collections.abc import Callable

from fleet_app.adapters.kube_client import Kube
from fleet_app.engine.errors import FaultError, FleetError, NotFoundError

log = logging.getLogger("fleet.retire")

EVERY_S = 2.0


def retire(
    kube: Kube, cluster: str, namespace: str, within_s: float, sleep: Callable[[float], None] = time.sleep
) -> bool:
    """Delete a RayCluster and wait until it is gone, or the time is over; return whether it is gone.

    A server that does not answer is asked again. Raises RequestError when it may not be deleted.
    """
    where = ("ray.io", "v1", namespace, "rayclusters", cluster)
    deleted = False
    for _ in range(int(within_s / EVERY_S)):
        try:
            if deleted:
                kube.ask(kube.custom.get_namespaced_custom_object, *where)
            else:
                kube.ask(kube.custom.delete_namespaced_custom_object, *where)
                deleted = True
        except NotFoundError:
            return True
        except FaultError as error:
            log.warning("%s", error)
        sleep(EVERY_S)
    log.warning("%s is still there after %.0f s: not waiting longer", cluster, within_s)
    return False


def main(arguments: list[str] | None = None) -> int:
    """Retire a RayCluster; return 0 also when it is still there, and else the exit code of what is wrong."""
    parser = argparse.ArgumentParser(prog="python -m fleet_app.adapters.retire", description=__doc__)
    parser.add_argument("--cluster", required=True)
    parser.add_argument("--namespace", required=True)
    parser.add_argument("--within", type=float, required=True, help="seconds to wait at most")
    asked = parser.parse_args(arguments)
    logging.basicConfig(level=logging.INFO, stream=sys.stderr, format="%(asctime)s %(levelname)s %(name)s %(message)s")
    try:
        retire(Kube.of_pod(), asked.cluster, asked.namespace, asked.within)
    except FleetError as error:
        sys.stderr.write(f"error: {error}\nWithout this: helm uninstall --no-hooks, then clean up in Redis\n")
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main())
