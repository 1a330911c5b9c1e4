#!/bin/sh
# weft's TaskProlog, and TaskEpilog (below): tells every task of a job what weft decided about it. Slurm runs it as the
# job's user before each task, and takes its "export" lines as the task's environment. Whatever fails here must not keep a
# job from running.
here=@HERE@
python=@PYTHON@

# As Slurm's TaskEpilog, after each task. A controller that was killed may have forgotten that the job runs. It would
# ignore the end of the script, and the node would refuse the next start of the job, which drains the node. So the script
# ends once the node has told the controller what it runs: that ends the job properly.
if [ "$SLURM_SCRIPT_CONTEXT" = epilog_task ]; then
    command -v scontrol >/dev/null 2>&1 || exit 0
    left=120
    while [ "${SLURM_PROCID:-0}" = 0 ] && [ "$left" -gt 0 ]; do
        case $(timeout 5 scontrol --oneliner show job "$SLURM_JOB_ID" 2>&1) in
            *JobState=PENDING* | *"Invalid job id"*)
                node=$(timeout 5 scontrol --oneliner show node "$SLURMD_NODENAME" 2>/dev/null)
                case $node in *SlurmdStartTime=[0-9]*) break ;; esac ;;
            *JobState=*) break ;;
            "" | *"nable to contact"*) ;;  # it is away
            *) left=$((left - 20)) ;;  # it may not come back: the job has another configuration, say
        esac
        sleep 1
        left=$((left - 1))
    done
    exit 0
fi

note=
for pause in 1 2 4 0; do  # the controller may be away for a moment
    told=$(timeout 5 scontrol --oneliner show job "$SLURM_JOB_ID" 2>/dev/null)
    [ -z "$told" ] || break
    sleep $pause
done
note=$(printf '%s\n' "$told" | sed -n 's/.* AdminComment=weft:\([^ ]*\).*/\1/p')
[ -n "$note" ] || exit 0
job= attempt= resume=0 iterations=0 dir= shift= shape=
old=$IFS
IFS=,
for pair in $note; do
    case $pair in
        job=*) job=${pair#job=} ;;
        attempt=*) attempt=${pair#attempt=} ;;
        resume=*) resume=${pair#resume=} ;;
        iterations=*) iterations=${pair#iterations=} ;;
        dir=*) dir=${pair#dir=} ;;
        shift=*) shift=${pair#shift=} ;;
        shape=*) shape=${pair#shape=} ;;
    esac
done
IFS=$old
echo "unset WEFT_DESCRIPTION"
# What sbatch had put there by the request; the placement may be of another shape, and srun would believe the old one.
if [ "$shape" = free ]; then
    echo "unset SLURM_NTASKS_PER_NODE"
    echo "unset SLURM_GPUS_PER_NODE"
fi
echo "export WEFT_JOB=$job"
echo "export WEFT_ATTEMPT=$attempt"
echo "export WEFT_RESUME_STEP=$resume"
echo "export WEFT_ITERATIONS=$iterations"
echo "export WEFT_SHIFT=$shift"

# One relay for each job on each node; it ends with the step that starts it. Its socket is in a folder that is ours alone:
# in /tmp, or, if somebody else has made one of that name there, in the folder that weft made for this start.
attempt_dir=$dir/jobs/$job/$attempt
name=$job.$attempt.${SLURMD_NODENAME:-node}
local_dir=/tmp/weft-$(id -u)
mkdir -m 700 "$local_dir" 2>/dev/null
own=$attempt_dir/s
if [ -O "$local_dir" ] && [ -d "$local_dir" ] && [ ! -L "$local_dir" ]; then
    chmod 700 "$local_dir" && own=$local_dir
fi
if [ "${SLURM_LOCALID:-0}" = 0 ]; then
    step=$(sed 's/.*) //' "/proc/$PPID/stat" 2>/dev/null | cut -d ' ' -f 2)
    timeout 10 "$python" -I -S "$here/relay.py" "$own/$name" "$attempt_dir" "${step:-$PPID}" </dev/null >/dev/null 2>&1
fi
for _ in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do
    for own in "$local_dir" "$attempt_dir/s"; do
        if [ -S "$own/$name" ] && [ -O "$own/$name" ]; then
            echo "export WEFT_PROGRESS_SOCKET=$own/$name"
            exit 0
        fi
    done
    sleep 0.1
done
exit 0
