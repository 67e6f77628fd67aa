# Becomes another program, after noting its process in a file, so that whoever ends the processes in
# that file ends this one too; joins a control group and a network before, if they are named.
#
# Arguments: the file; the owner's process id; what the process is, `disk` or `other`; a folder of a
# control group, or nothing; a process whose network to use, or nothing; the program and its arguments.
file=$1 owner=$2 kind=$3 group=$4 network=$5
shift 5

# Fields of /proc/PID/stat behind the name: the second is the parent, the 20th the start.
look() {
    read -r line < "/proc/$$/stat"
    # shellcheck disable=SC2086 # the fields are words
    set -- ${line##*) }
    parent=$2 start=${20}
}

look
echo "$$ $start $kind" >> "$file" || exit 125
# If the owner died before that, nobody may ever look into the file again. If it dies from here on,
# they look after this note was made.
look
[ "$parent" = "$owner" ] || exit 125
[ -z "$group" ] || echo $$ > "$group/cgroup.procs" || exit 125
# Thousands of viewers; as many as are allowed.
ulimit -n 65536 2> /dev/null || ulimit -n "$(ulimit -H -n)"
if [ -n "$network" ]; then
    exec nsenter "--net=/proc/$network/ns/net" -- "$@"
fi
exec "$@"
