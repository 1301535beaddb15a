"""What each reader makes of a small file of its format: jobs, what is malformed, and what is left aside."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from fleet_app.engine.errors import RequestError
from fleet_app.engine.values import Shape
from fleet_app.twin.readers.azure import azure, digitized, scaled
from fleet_app.twin.readers.dlrm import dlrm
from fleet_app.twin.readers.helios import helios
from fleet_app.twin.readers.helios_state import Sampled, helios_state
from fleet_app.twin.readers.itp import itp
from fleet_app.twin.readers.kueue import kueue
from fleet_app.twin.readers.openb import openb_nodes, openb_pods
from fleet_app.twin.readers.philly import philly
from fleet_app.twin.readers.reading import gathered, read
from fleet_app.twin.readers.row import Row
from fleet_app.twin.readers.samples import Sample, samples
from fleet_app.twin.readers.slurm import sacct
from fleet_app.twin.readers.swf import swf

TRACES = Path(__file__).parents[4] / "clusters" / "traces"


def lines(text: str) -> list[str]:
    return [f"{line}\n" for line in text.strip().splitlines()]


PHILLY = """
timestamp,duration,num_gpus,cluster
1970-01-01 00:01:00,120,8,7f04ca
1970-01-01 00:02:00,soon,8,7f04ca
1970-01-01 00:03:00,120,0,7f04ca
1970-01-01 00:04:00,120
"""


def test_philly():
    reading = gathered(lines(PHILLY), philly, "p.csv")
    want = Row(name="philly-000002", team="7f04ca", submitted_at=60.0, run_s=120.0, gpus=8)
    assert reading.found == (want,)
    assert [(one.line, one.why) for one in reading.malformed] == [
        (3, "duration is soon, not a number of seconds"),
        (4, "num_gpus is 0"),
        (5, "2 cells, not 4"),
    ]


def test_itp():
    reading = gathered(lines("cluster,submission_time,duration,num_gpu\ncluster04,5810,288476,16"), itp, "i.csv")
    assert reading.found == (Row(name="itp-000002", team="cluster04", submitted_at=5810.0, run_s=288_476.0, gpus=16),)


HELIOS = """
job_id,user,vc,gpu_num,cpu_num,node_num,state,submit_time,start_time,end_time,duration,queue
7,u1,vc6YE,16,64,2,TIMEOUT,1970-01-01 00:01:00,1970-01-01 00:02:00,1970-01-01 00:12:00,600,60
8,u1,vc6YE,0,4,1,COMPLETED,1970-01-01 00:01:00,1970-01-01 00:01:00,1970-01-01 00:02:00,60,0
9,u2,vcpDC,1,4,1,COMPLETED,1970-01-01 00:01:00,None,1970-01-01 00:02:00,60,0
"""


def test_helios():
    reading = gathered(lines(HELIOS), helios, "cluster_log.csv")
    want = Row(
        name="helios-7",
        team="vc6YE",
        submitted_at=60.0,
        started_at=120.0,
        run_s=600.0,
        gpus=16,
        nodes=2,
        failed=True,
    )
    assert reading.found == (want,)
    assert reading.aside == (("jobs without GPUs", 1),)
    assert [(one.line, one.why) for one in reading.malformed] == [(4, "start_time is None, not a time")]


DLRM = """
instance_sn,role,app_name,cpu_request,gpu_request,memory_request,creation_time,scheduled_time,deletion_time
i0,HN,app_0,12,1,120.5,,,
i1,HN,app_0,12,1,120.5,60.0,90.0,600.0
i2,CN,app_0,12,0,120.5,60.0,90.0,600.0
i3,HN,app_0,12,1,much,60.0,90.0,600.0
"""


def test_dlrm():
    reading = gathered(lines(DLRM), dlrm, "instances.csv")
    shape = Shape(gpus=1, cpu_milli=12_000, memory_mib=123_392)
    assert [(one.name, one.service, one.shape) for one in reading.found] == [
        ("i0", "app_0", shape),
        ("i1", "app_0", shape),
    ]
    assert [(one.created_at, one.scheduled_at, one.deleted_at) for one in reading.found] == [
        (None, None, None),
        (60.0, 90.0, 600.0),
    ]
    assert reading.aside == (("replicas without GPUs", 1),)
    assert [one.line for one in reading.malformed] == [5]


def test_samples():
    reading = gathered(lines("t_s,container,value,type\n57,c001,0.5,x\n114,,1.5,x\n171,c001,,x"), samples, "qps.csv")
    assert reading.found == (Sample(at=57.0, container="c001", value=0.5), Sample(at=114.0, container="", value=1.5))
    assert [one.line for one in reading.malformed] == [4]


STATE = """
time,running_gpujob_num,pending_gpujob_num,total_gpu_num,running_gpu_num,pending_gpu_num
1970-01-01 00:10:00,2,1,64,9,8
1970-01-01 00:20:00,2,1,64,-1,8
"""


def test_helios_state():
    reading = gathered(lines(STATE), helios_state, "state.csv")
    assert reading.found == (Sampled(at=600.0, running=2, running_gpus=9, pending=1, pending_gpus=8, gpus=64),)
    assert [one.line for one in reading.malformed] == [3]


SACCT = """
JobID|Account|Partition|Submit|Start|ElapsedRaw|State|NNodes|AllocTRES|TimelimitRaw
101|bio|gpu|2026-01-01T00:00:00|2026-01-01T00:10:00|3600|COMPLETED|2|billing=16,cpu=64,gres/gpu=16,gres/gpu:h100=16|120
101.batch|bio||2026-01-01T00:10:00|2026-01-01T00:10:00|3600|COMPLETED|1|cpu=32,gres/gpu=8|
102|bio|gpu|2026-01-01T00:00:00|Unknown|0|CANCELLED by 1000|1||60
103|bio|cpu|2026-01-01T00:00:00|2026-01-01T00:00:00|5|COMPLETED|1|cpu=4|UNLIMITED
104|phys|gpu|2026-01-01T00:00:00|2026-01-01T00:00:05|5|FAILED|1|cpu=4,gres/gpu:a100=2|UNLIMITED
105|phys|gpu|yesterday|2026-01-01T00:00:05|5|FAILED|1|cpu=4,gres/gpu=2|UNLIMITED
106|phys|gpu|2026-01-01T00:00:00|2026-01-01T00:00:05|5|RUNNING|1|cpu=4,gres/gpu=2|UNLIMITED
"""
NEW_YEAR = 1_767_225_600.0


def test_sacct():
    reading = gathered(lines(SACCT), sacct, "sacct.txt")
    assert reading.found == (
        Row(
            name="slurm-101",
            team="bio",
            submitted_at=NEW_YEAR,
            started_at=NEW_YEAR + 600.0,
            run_s=3600.0,
            gpus=16,
            nodes=2,
            limit_s=7200.0,
            queue="gpu",
        ),
        Row(
            name="slurm-104",
            team="phys",
            submitted_at=NEW_YEAR,
            started_at=NEW_YEAR + 5.0,
            run_s=5.0,
            gpus=2,
            nodes=1,
            queue="gpu",
            failed=True,
        ),
    )
    assert reading.malformed[0].why == "Submit is yesterday, not a time"
    assert reading.aside == (
        ("jobs that have not ended", 1),
        ("jobs that never started", 1),
        ("jobs without GPUs", 1),
        ("steps of jobs", 1),
    )


def test_a_table_without_a_column_is_malformed_as_a_whole():
    reading = gathered(lines("JobID|Account\n1|a"), sacct, "sacct.txt")
    assert reading.found == ()
    assert "has no column AllocTRES" in reading.malformed[0].why


SWF = """
; UnixStartTime: 1000
;  MaxProcs: 128
1 10 5 100 4 -1 -1 4 200 -1 1 3 7 -1 2 -1 -1 -1
2 20 -1 100 -1 -1 -1 2 -1 -1 0 3 7 -1 2 -1 -1 -1
3 30 -1 -1 -1 -1 -1 2 -1 -1 5 3 7 -1 2 -1 -1 -1
4 40 1 2 3
"""


def test_swf():
    reading = gathered(lines(SWF), swf, "a.swf")
    same = {"team": "group-7", "run_s": 100.0, "queue": "queue-2"}
    assert reading.found == (
        Row(name="swf-1", submitted_at=1010.0, started_at=1015.0, gpus=4, limit_s=200.0, **same),
        Row(name="swf-2", submitted_at=1020.0, gpus=2, failed=True, **same),
    )
    assert [one.line for one in reading.malformed] == [6]
    assert reading.aside == (("jobs whose run time is not known, or that never ran", 1),)


def workload(name: str, *conditions: str, gpus: str = "8", count: int = 2) -> dict:
    moments = {"Admitted": "2026-01-01T00:10:00Z", "Finished": "2026-01-01T01:10:00Z"}
    return {
        "metadata": {"name": name, "namespace": "bio", "creationTimestamp": "2026-01-01T00:00:00Z"},
        "spec": {
            "queueName": "main",
            "podSets": [
                {
                    "count": count,
                    "template": {"spec": {"containers": [{"resources": {"requests": {"nvidia.com/gpu": gpus}}}]}},
                }
            ],
        },
        "status": {
            "conditions": [{"type": one, "status": "True", "lastTransitionTime": moments[one]} for one in conditions]
        },
    }


def test_kueue():
    items = [workload("a", "Admitted", "Finished"), workload("b", "Admitted"), workload("c", gpus="0"), {"spec": {}}]
    reading = gathered(lines(json.dumps({"kind": "List", "items": items}, indent=1)), kueue, "w.json")
    assert reading.found == (
        Row(
            name="kueue-bio-a",
            team="bio",
            submitted_at=NEW_YEAR,
            started_at=NEW_YEAR + 600.0,
            run_s=3600.0,
            gpus=16,
            nodes=2,
            queue="main",
        ),
    )
    assert reading.aside == (("workloads that have not finished", 1), ("workloads without GPUs", 1))
    assert [one.line for one in reading.malformed] == [4]


def test_what_is_no_list_of_workloads_is_malformed():
    assert "not a list of Workloads" in gathered(["no"], kueue, "w.json").malformed[0].why


def test_azure():
    reading = gathered(
        lines("time_utc,requests_per_minute\n1970-01-01T00:01:00Z,120\n1970-01-01T00:02:00Z,x"), azure, "a"
    )
    assert reading.found == ((60.0, 2.0),)
    assert len(reading.malformed) == 1


def test_azure_as_it_was_read_off_the_figure():
    text = "time_utc,req_per_min_low,req_per_min_mid,req_per_min_high\n1970-01-01T00:01:00Z,60,120,180"
    assert gathered(lines(text), digitized, "a").found == ((60.0, 2.0),)


def test_rates_are_scaled_to_a_peak():
    assert scaled([(0.0, 1.0), (1.0, 4.0)], 100.0) == ((0.0, 25.0), (1.0, 100.0))
    assert scaled([], 100.0) == ()


def test_openb():
    text = "sn,cpu_milli,memory_mib,gpu,model\nn0,32000,262144,0,\nn1,64000,262144,8,A10"
    reading = gathered(lines(text), openb_nodes, "n")
    assert [(one.name, one.capacity, one.accelerator) for one in reading.found] == [
        ("n1", Shape(gpus=8, cpu_milli=64_000, memory_mib=262_144), "A10")
    ]
    assert reading.aside == (("nodes without GPUs", 1),)
    head = (
        "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,deletion_time,scheduled_time"
    )
    text = f"{head}\np0,12000,16384,1,460,T4|A10,LS,Running,5,100,\np1,1000,1,0,0,,LS,Running,6,100,7.5"
    first, second = gathered(lines(text), openb_pods, "p").found
    assert (first.models, first.gpu_milli, first.whole, first.scheduled_at) == (("T4", "A10"), 460, False, None)
    assert (second.whole, second.scheduled_at) == (True, 7.5)


def test_a_malformed_line_is_refused_when_that_is_asked_for():
    with pytest.raises(RequestError, match="duration is soon") as raised:
        gathered(lines(PHILLY), philly, "p.csv", strict=True)
    assert raised.value.where == "p.csv:3"


def test_what_was_not_read_is_said(tmp_path):
    path = tmp_path / "p.csv.gz"
    path.write_bytes(gzip.compress(PHILLY.strip().encode()))
    assert read(path, philly).sentences() == [
        f"{path}: 1 read",
        f"{path}: 3 malformed and skipped",
        f"{path}:3: duration is soon, not a number of seconds",
        f"{path}:4: num_gpus is 0",
        f"{path}:5: 2 cells, not 4",
    ]


def test_what_is_left_aside_is_said():
    assert gathered(lines(SACCT), sacct, "s").sentences()[1] == "s: 1 left aside: jobs that have not ended"


def test_a_file_that_is_not_there_is_said(tmp_path):
    with pytest.raises(RequestError, match="cannot be read"):
        read(tmp_path / "none.csv", philly)


KEPT = {
    "philly_oct.csv.gz": (philly, 47_192),
    "itp04.csv.gz": (itp, 15_802),
    "azure_llm_2024_conv_week.csv": (azure, 1_396),
    "azure_llm_2024_code_week.csv": (azure, 1_396),
    "helios_earth_vc6YE_state_10min.csv.gz": (helios_state, 4_464),
    "helios_earth_vcpDC_state_10min.csv.gz": (helios_state, 4_464),
    "helios_earth_vc3sl_state_10min.csv.gz": (helios_state, 4_464),
}


@pytest.mark.parametrize("name", KEPT)
def test_every_trace_of_the_repository_is_read_without_a_malformed_line(name):
    reader, want = KEPT[name]
    reading = read(TRACES / name, reader, strict=True)
    assert len(reading.found) == want
