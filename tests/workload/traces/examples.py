"""Hand-written rows of every format: what a file looks like, the jobs in it, and the rows that are none."""

import json
from dataclasses import dataclass, field

from weft.workload.traces.rows import TraceJob

__all__ = ["EXAMPLES", "Example"]


@dataclass(frozen=True)
class Example:
    """A small file, its jobs, and (line, field, left out) of the rows that are reported."""

    format: str
    name: str
    text: str
    jobs: list[TraceJob]
    reported: list[tuple[int, str, bool]] = field(default_factory=list)
    start: str = ""


def job(
    job_id: str, submit_s: float, gpus: int, duration_s: float | None = None, iterations: int | None = None,
    model: str | None = None, user: str = "", vc: str = "", status: str = "", batch: int | None = None, line: int = 0,
    wait_s: float | None = None,
) -> TraceJob:  # fmt: skip
    """A job with the unknowns of the schema as defaults."""
    return TraceJob(job_id, submit_s, gpus, duration_s, iterations, model, user, vc, status, batch, line, wait_s)


PLAIN = """\
gpus,submit_s,job_id,duration_s,iterations,model,user
4,10.5,a,100,,vgg16,ann
8.0,0,b,,500,,"bob, jr"
0,1,c,100,,,
x,2,d,100,,,
2,3,e,,,,
2,-1,f,5,,,
"""
PHILLY_CSV = """\
timestamp,duration,num_gpus,gpu_time,cluster
2017-10-09 07:01:55,66.0,1,66.0,vc1
2017-10-09 06:01:55,100.0,8,800.0,vc2
2017-13-09 06:01:55,100.0,8,800.0,vc2

2017-10-09 06:01:55,1e400,8,800.0,vc2
"""
PHILLY = json.dumps(
    [
        {
            "status": "Pass", "vc": "v", "jobid": "a1", "user": "u", "submitted_time": "2017-10-07 01:11:39",
            "attempts": [
                {"start_time": "2017-10-07 01:12:00", "end_time": "2017-10-07 01:13:00",
                 "detail": [{"ip": "m1", "gpus": ["gpu0", "gpu1"]}]},
                {"start_time": "2017-10-07 02:00:00", "end_time": "2017-10-07 02:10:00",
                 "detail": [{"ip": "m1", "gpus": ["gpu0"]}, {"ip": "m2", "gpus": ["gpu0", "gpu1"]}]},
                {"start_time": "2017-10-07 03:00:00", "end_time": None, "detail": []},
            ],
        },
        {"status": "Killed", "vc": "v", "jobid": "a2", "user": "u", "submitted_time": "2017-10-07 01:11:39",
         "attempts": []},
        {"status": "Killed", "vc": "v", "jobid": "a3", "user": "u", "submitted_time": "None", "attempts": []},
        {"status": "Killed", "vc": "v", "jobid": "a4", "user": "u", "submitted_time": "2017-10-07 01:11:39",
         "attempts": 7},
        {"status": "Failed", "vc": "v", "jobid": "a5", "user": "u", "submitted_time": "2017-10-07 01:11:39",
         "attempts": [{"start_time": "None", "end_time": "None", "detail": [{"ip": "m", "gpus": ["gpu3"]}]}]},
    ],
    indent=1,
)  # fmt: skip
HELIOS = """\
job_id,user,vc,gpu_num,cpu_num,node_num,state,submit_time,start_time,end_time,duration,queue
11,u1,vcA,4,16,1,FAILED,2020-06-09 18:41:27,2020-06-09 18:42:00,2020-06-09 18:45:00,180,33
12,u2,vcB,0,16,1,COMPLETED,2020-06-09 18:41:27,2020-06-09 18:42:00,2020-06-09 18:45:00,180,33
13,u2,vcB,1,16,1,COMPLETED,2020-06-09 18:41:27,2020-06-09 18:42:00,2020-06-09 18:41:00,180,33
14,u2,vcB,1,16,1,SUSPENDED,2020-06-09 18:41:27,2020-06-09 18:42:00,,180,33
"""
CONVERTED = "job_id,arrival_s,service_sec,gpu_count\r\n7#0,0.0,172800.0,32\r\n8#2,5.0,60.0,1\r\n9#3,6.0,,1\r\n"
PAI = "job_id,arrival_s,service_sec,gpu_count\r\nali-x-worker#1,16.0,100.0,8\r\n"
KALOS = """\
job_id,user,node_num,gpu_num,cpu_num,mem_per_pod_GB,shared_mem_per_pod,type,state,submit_time,start_time,end_time,\
fail_time,stop_time,duration,queue,gpu_time
k1,u,8,64,960,1000,100.0,Other,FAILED,2023-05-17 11:00:00+00:00,2023-05-17 11:00:10+00:00,2023-05-17 11:01:10+00:00,\
,,70,10.0,1.0
k2,u,8,0,960,1000,100.0,Other,FAILED,2023-05-17 11:00:00+00:00,2023-05-17 11:00:10+00:00,2023-05-17 11:01:10+00:00,\
,,70,1,1
k3,u,8,8,960,1000,100.0,Other,RUNNING,2023-05-17 11:00:00+00:00,2023-05-17 11:00:10+00:00,,,,70,10.0,1152.0
"""
SEREN = """\
job_id,user,node_num,gpu_num,cpu_num,type,state,submit_time,start_time,end_time,duration,queue,gpu_time
5,u1,1,8,128,Other,COMPLETED,2023-03-01 00:18:22+08:00,2023-03-01 00:18:54+08:00,2023-03-01 00:20:51+08:00,117,32,936.0
6,u1,1,8,128,Other,COMPLETED,2023-03-01 00:18:23+08:00,2023-03-01 00:18:54+08:00,2023-03-01 00:20:51,117,32,936.0
"""
ACME_CONVERTED = """\
job_id,arrival_time,num_iteration,iteration_computing_time,iteration_networking_time,gpu_workers,ps,gpu_per_worker,\
cpu_per_gpu_worker,cpu_per_ps_worker,tensorsizes,profiled_network
0,313.0,208,0.5,0.25,8,0,8.0,15.0,15.0,10.0,500
1,314.0,208,0.5,0.25,8,0,0.5,15.0,15.0,10.0,500
"""
EF_SIM = """\
job_id,submission_time,num_iteration,model_name,deadline,batch_size,num_gpu,duration
96-a,1932025,45775,resnet50,1933904,256,64,2429"""
EF_INPUT = """\
job_id,submit_time,iteration,model_name,ddl,batch_size,num_gpu,duration,best_effort
0,2811,94898,resnet50_cifar10,9179,256,1,4830,0
1,2811,9489x,resnet50_cifar10,9179,256,1,4830,0
"""
OPENB = """\
name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,deletion_time,scheduled_time
p0,12000,16384,1,460,,LS,Running,100,900,300
p1,12000,16384,0,0,,LS,Running,100,900,300
p2,12000,16384,1,1000,,BE,Pending,100,900,
p3,12000,16384,2,1000,,BE,Failed,100,200,300
"""
OPENB_SET = "name,cpu_milli,memory_mib,num_gpu,gpu_milli\np0,12000,16384,4,1000\n"
GAVEL_SHORT = (
    "Transformer (batch size 128)\tcd %s && python3 train.py \"quoted -batch_size 128\t-step\t1\t95121\t6.5\t4\n"
    "A3C\tcd %s\t-step\t1\t10\t7\t1\n"
    "A3C\tcd %s\t-step\t1\t10\t7\n"
)  # fmt: skip
GAVEL_LONG = "LM (batch size 20)\tpython3 main.py\tlm\t--steps\t1\t2931\t2\t1\t-1.000000\t55\n"
SHOCKWAVE = "ResNet-18 (batch size 32)\tpython3 main.py\tdir\t--num_steps\t1\t143450\t2\taccordion\t1\t-1.0\t3338\t55\n"
MURI = """\
job_id,num_gpu,submit_time,iterations,model_name,batch_size,duration,interval,iteration_time,resource_time_0,\
resource_time_1,resource_time_2,priority
0,8,1500,1000,gpt2,4,5095000,91000,437,0.6,419,49,0
"""
CHRONUS = """\
job_id,user,num_gpu,submit_time,iterations,model_name,duration,interval,expect_time_list,expect_value_list,best_effort,job_type
0,vc_a,4,10,5049,vgg16,747,14,159-189,10-8,0,soft
1,vc_a,0,10,5049,vgg16,747,14,1105,10,0,strict
"""
TIRESIAS = "job_id,num_gpu,submit_time,iterations,model_name,duration,interval\r\n0,8,30,133,vgg11,147,23\r\n"
TIRESIAS_TOY = """\
job_id,num_gpu,submit_time,start_time,duration,model_size,aggr_interval,model_name,model_scale
10,12,11,14,20,400,0,vgg19,1"""
THEMIS = """\
experiment-id,job-id,start-time,run-time,num-gpus
1781, app_75, 2018-06-16 04:51:49, 7953.0, 2
1781, app_76, 2018-06-16 04:50:49, 3309.0, 1
"""
THEMIS_PROCESSED = ",experiment_id,start_time,running_time,num_gpus\n20771,1665,5,143,1\n"
POLLUX = "name,time,application,num_replicas,batch_size\ncifar10-0,107.5,cifar10,6,2048\n"
DALLY = json.dumps(
    [
        {"job_id": "39", "user": "u", "state": "COMPLETED", "start_time": "-1", "duration": "633257", "model": "BERT",
         "batchsize": "32", "total_iterations": "826085656", "max_parallelism": "4", "arrival_time": "84725"},
        {"job_id": "40", "user": "u", "state": "COMPLETED", "start_time": "7", "duration": "10", "model": "VGG",
         "batchsize": "64", "total_iterations": "20", "max_parallelism": "1"},
        {"job_id": "41", "user": "u", "state": "COMPLETED", "start_time": "-1", "duration": "10", "model": "VGG",
         "batchsize": "64", "total_iterations": "20", "max_parallelism": "1"},
        ["not", "a", "job"],
    ],
    indent=4,
)  # fmt: skip
SLURM = """\
JobID|JobIDRaw|User|Account|Partition|Submit|Start|End|ElapsedRaw|State|ReqTRES|AllocTRES
7|7|ann|lab|gpu|2024-01-02T03:04:05|2024-01-02T03:05:05|2024-01-02T04:05:05|3600|COMPLETED|cpu=8,gres/gpu=4|\
billing=8,cpu=8,gres/gpu:a100=4,gres/gpu=4,mem=64G,node=1
7.batch|7.batch|||||2024-01-02T03:05:05|2024-01-02T04:05:05|3600|COMPLETED||cpu=8,gres/gpu:a100=4,mem=64G,node=1
8_1|9|bob|lab|gpu|2024-01-02T03:04:15|2024-01-02T03:05:05|2024-01-02T03:06:05|60|CANCELLED by 1000|gres/gpu:a100=2|\
cpu=8,gres/gpu:a100=2,gres/gpu:v100=1,node=2
10|10|bob|lab|cpu|2024-01-02T03:04:15|2024-01-02T03:05:05|2024-01-02T03:06:05|60|COMPLETED|cpu=1|cpu=1,node=1
11|11|bob|lab|gpu|2024-01-02T03:04:15|Unknown|Unknown|0|PENDING|cpu=1,gres/gpu=2|
12|12|bob|lab|gpu|2024-01-02T03:04:15|None|2024-01-02T03:06:05|0|CANCELLED by 7|cpu=1,gres/gpu=2|
13|13|bob|lab|gpu|2024-01-02 03:04:15|2024-01-02T03:05:05|2024-01-02T03:06:05|60|COMPLETED||gres/gpu=1
14|14|bob|lab|gpu|2024-01-02T03:04:15|2024-01-02T03:05:05|2024-01-02T03:06:05|60|COMPLETED||gres/gpu=many
"""
SLURM_ELAPSED = """\
JobID|Submit|Elapsed|State|ReqTRES
1|2024-01-02T00:00:00|1-02:03:04|COMPLETED|gres/gpu=1
2|2024-01-02T00:00:00|02:03|COMPLETED|gres/gpu=1
"""
SLURM_SECONDS = "JobID|Submit|Start|End|AllocTRES\n1|1704164645|1704164646|1704164656|gres/gpu=16\n"
SPOT = """\
job_name,organization,gpu_model,cpu_request,gpu_request,worker_num,submit_time,duration,job_type
437260,57,A100,15,1,16,95,41060,Spot
437261,57,A100,15,0.5,3,95,41060,Spot
"""
DLRM = """\
instance_sn,role,app_name,cpu_request,gpu_request,creation_time,scheduled_time,deletion_time
i0,HN,app_0,12,1,,,
i1,HN,app_0,12,1,5,10,30
i2,CN,app_0,12,0,5,10,30
"""
CRUX = """\
#job id,arrival time (sec),topology,shape,size,duration (sec)
0,0.0,CLOS,48,48,720.0
1,5040.0,CLOS,8,8,0.0
2,5100.0,CLOS,8,many,60.0"""

EXAMPLES = [
    Example("plain", "jobs.csv", PLAIN,
            [job("a", 10.5, 4, 100.0, model="vgg16", user="ann", line=2),
             job("b", 0.0, 8, None, 500, user="bob, jr", line=3),
             job("e", 3.0, 2, line=6)],
            [(4, "gpus", True), (5, "gpus", False), (7, "submit_s", False)]),
    Example("philly-csv", "philly.csv", PHILLY_CSV,
            [job("0", 3600.0, 1, 66.0, vc="vc1", line=2), job("1", 0.0, 8, 100.0, vc="vc2", line=3)],
            [(4, "timestamp", False), (6, "duration", False)], "2017-10-09 06:01:55"),
    Example("philly", "cluster_job_log", PHILLY,
            [job("a1", 0.0, 3, 660.0, user="u", vc="v", status="Pass", line=2)],
            [(48, "gpus", True), (56, "submitted_time", False), (64, "attempts", False), (72, "attempts", True)],
            "2017-10-07 01:11:39"),
    Example("helios", "cluster_log.csv", HELIOS,
            [job("11", 0.0, 4, 180.0, user="u1", vc="vcA", status="FAILED", line=2, wait_s=33.0)],
            [(3, "gpu_num", True), (4, "end_time", False), (5, "end_time", True)], "2020-06-09 18:41:27"),
    Example("helios-converted", "venus.csv", CONVERTED,
            [job("7#0", 0.0, 32, 172800.0, line=2), job("8#2", 5.0, 1, 60.0, line=3)], [(4, "service_sec", False)]),
    Example("pai", "pai.csv", PAI, [job("ali-x-worker#1", 16.0, 8, 100.0, line=2)]),
    Example("acme", "trace_kalos.csv", KALOS,
            [job("k1", 0.0, 64, 60.0, user="u", status="FAILED", line=2, wait_s=10.0)],
            [(3, "gpu_num", True), (4, "end_time", True)], "2023-05-17 11:00:00"),
    Example("acme", "trace_seren.csv", SEREN,
            [job("5", 0.0, 8, 117.0, user="u1", status="COMPLETED", line=2, wait_s=32.0)],
            [(3, "end_time", False)], "2023-02-28 16:18:22"),
    Example("acme-converted", "kalos.csv", ACME_CONVERTED, [job("0", 313.0, 64, 104.0, status="COMPLETED", line=2)],
            [(3, "gpu_per_worker", False)]),
    Example("elasticflow-raw", "cluster07.csv", "job_id,submission_time,duration,num_gpu\nfb-1,2000581,1532,2\n",
            [job("fb-1", 2000581.0, 2, 1532.0, vc="cluster07", line=2)]),
    Example("elasticflow-sim", "cluster01.csv", EF_SIM,
            [job("96-a", 1932025.0, 64, 2429.0, 45775, "resnet50", vc="cluster01", batch=256, line=2)]),
    Example("elasticflow-input", "resnet.csv", EF_INPUT,
            [job("0", 2811.0, 1, 4830.0, 94898, "resnet50_cifar10", vc="resnet", batch=256, line=2)],
            [(3, "iteration", False)]),
    Example("openb", "pods.csv", OPENB, [job("p0", 100.0, 1, 600.0, status="Running", line=2)],
            [(3, "num_gpu", True), (4, "scheduled_time", True), (5, "deletion_time", False)]),
    Example("openb", "multigpu.csv", OPENB_SET, [job("p0", 0.0, 4, line=2)]),
    Example("gavel", "0e4a51.trace", GAVEL_SHORT,
            [job("0", 6.5, 4, None, 95121, "Transformer", vc="0e4a51", batch=128, line=1),
             job("1", 7.0, 1, None, 10, "A3C", vc="0e4a51", line=2)], [(3, "", False)]),
    Example("gavel", "small.trace", GAVEL_LONG, [job("0", 55.0, 2, None, 2931, "LM", batch=20, line=1)]),
    Example("shockwave", "120.trace", SHOCKWAVE, [job("0", 55.0, 2, 3338.0, 143450, "ResNet-18", batch=32, line=1)]),
    Example("muri", "trace1.csv", MURI, [job("0", 1.5, 8, 5095.0, 1000, "gpt2", batch=4, line=2)]),
    Example("chronus", "mix.csv", CHRONUS, [job("0", 600.0, 4, 44820.0, 5049, "vgg16", vc="vc_a", line=2)],
            [(3, "num_gpu", True)]),
    Example("tiresias", "60_job.csv", TIRESIAS, [job("0", 30.0, 8, 147.0, 133, "vgg11", line=2)]),
    Example("tiresias", "tf_job.csv", TIRESIAS_TOY, [job("10", 11.0, 12, 20.0, None, "vgg19", line=2)]),
    Example("themis", "hyperdrive.csv", THEMIS,
            [job("app_75", 60.0, 2, 7953.0, user="1781", line=2), job("app_76", 0.0, 1, 3309.0, user="1781", line=3)],
            [], "2018-06-16 04:50:49"),
    Example("themis-processed", "processed.csv", THEMIS_PROCESSED, [job("20771", 5.0, 1, 143.0, user="1665", line=2)]),
    Example("pollux", "workload-1.csv", POLLUX, [job("cifar10-0", 107.5, 6, model="cifar10", batch=2048, line=2)]),
    Example("dally", "sense.json", DALLY,
            [job("39", 84725.0, 4, 633257.0, 826085656, "BERT", "u", status="COMPLETED", batch=32, line=2),
             job("40", 7.0, 1, 10.0, 20, "VGG", "u", status="COMPLETED", batch=64, line=14)],
            [(25, "submit", False), (36, "", False)]),
    Example("slurm", "sacct.txt", SLURM,
            [job("7", 0.0, 4, 3600.0, user="ann", vc="gpu", status="COMPLETED", line=2, wait_s=60.0),
             job("9", 10.0, 3, 60.0, user="bob", vc="gpu", status="CANCELLED", line=4, wait_s=50.0)],
            [(3, "JobID", True), (5, "AllocTRES", True), (6, "State", True), (7, "Start", True), (8, "Submit", False),
             (9, "AllocTRES", False)], "2024-01-02 03:04:05"),
    Example("slurm", "elapsed.txt", SLURM_ELAPSED, [job("1", 0.0, 1, 93784.0, status="COMPLETED", line=2)],
            [(3, "Elapsed", False)], "2024-01-02 00:00:00"),
    Example("slurm", "seconds.txt", SLURM_SECONDS,
            [job("1", 0.0, 16, 10.0, line=2, wait_s=1.0)], [], "2024-01-02 03:04:05"),
    Example("spot", "job_info_df.csv", SPOT,
            [job("437260", 95.0, 16, 41060.0, vc="57", line=2), job("437261", 95.0, 3, 41060.0, vc="57", line=3)]),
    Example("dlrm", "dlrm.csv", DLRM,
            [job("i0", 0.0, 1, None, model="dlrm", vc="app_0", line=2),
             job("i1", 5.0, 1, 20.0, model="dlrm", vc="app_0", line=3)],
            [(4, "gpu_request", True)]),
    Example("crux", "crux.csv", CRUX, [job("0", 0.0, 48, 720.0, line=2)],
            [(3, "duration (sec)", True), (4, "size", False)]),
]  # fmt: skip
