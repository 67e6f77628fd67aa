# Records its process in a file, from which the guardian ends it, optionally joins a control group
# and a network namespace, then executes a program.
#
# Arguments: the file; the owner's process id; the kind of process, `disk` or `other`; the folder of
# a control group or an empty string; a process whose network to join or an empty string; the
# program and its arguments.
file=$1 owner=$2 kind=$3 group=$4 network=$5
shift 5

# Reads /proc/PID/stat. After the name, the second field is the parent and the 20th the start
# time.
look() {
    read -r line < "/proc/$$/stat"
    # shellcheck disable=SC2086 # the fields are words
    set -- ${line##*) }
    parent=$2 start=${20}
}

look
echo "$$ $start $kind" >> "$file" || exit 125
# If the owner died before the record was written, the guardian may already have read the file. If
# it dies later, the guardian reads the record.
look
[ "$parent" = "$owner" ] || exit 125
[ -z "$group" ] || echo $$ > "$group/cgroup.procs" || exit 125
# Thousands of viewers need descriptors; use the hard limit if that many are not allowed.
ulimit -n 65536 2> /dev/null || ulimit -n "$(ulimit -H -n)"
if [ -n "$network" ]; then
    exec nsenter "--net=/proc/$network/ns/net" -- "$@"
fi
exec "$@"
