#!/bin/sh
# weft's TaskProlog: tells every task of a job what weft decided about it. Slurm runs it as the job's user before each
# task, and takes its "export" lines as the task's environment. Whatever fails here must not keep a job from running.
here=@HERE@
python=@PYTHON@

note=$(timeout 5 scontrol --oneliner show job "$SLURM_JOB_ID" 2>/dev/null | sed -n 's/.* AdminComment=weft:\([^ ]*\).*/\1/p')
[ -n "$note" ] || exit 0
job= attempt= resume=0 iterations=0 dir= shift=
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
    esac
done
IFS=$old
echo "unset WEFT_DESCRIPTION"
echo "export WEFT_JOB=$job"
echo "export WEFT_ATTEMPT=$attempt"
echo "export WEFT_RESUME_STEP=$resume"
echo "export WEFT_ITERATIONS=$iterations"
echo "export WEFT_SHIFT=$shift"

# One relay for each job on each node; it ends with the step that starts it.
own=/tmp/weft-$(id -u)
mkdir -m 700 "$own" 2>/dev/null
[ -O "$own" ] && [ ! -L "$own" ] || exit 0
socket=$own/$job.$attempt.${SLURMD_NODENAME:-node}
if [ "${SLURM_LOCALID:-0}" = 0 ]; then
    step=$(sed 's/.*) //' "/proc/$PPID/stat" 2>/dev/null | cut -d ' ' -f 2)
    timeout 10 "$python" -I -S "$here/relay.py" "$socket" "$dir/jobs/$job/$attempt" "${step:-$PPID}" \
        </dev/null >/dev/null 2>&1
fi
for _ in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do
    [ -S "$socket" ] && break
    sleep 0.1
done
echo "export WEFT_PROGRESS_SOCKET=$socket"
exit 0
