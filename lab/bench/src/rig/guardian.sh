# Waits until standard input is closed, which happens when the bench ends, then ends everything that
# was started for it, inner parts first: recorded processes with their children, the processes in
# its control groups, the groups, emulated drives (which clean up after themselves), the folder.
# Touches nothing that is not recorded in that folder.
#
# Argument: the folder.

trap '' HUP INT QUIT TERM PIPE
export LC_ALL=C PATH="$PATH:/usr/sbin:/sbin"
folder=$1

# Finds running processes of a kind. The start time is compared, because a process id may be
# reused.
living() {
    found=
    [ -r "$folder/processes" ] || return 0
    while read -r pid start kind; do
        [ "$kind" = "$1" ] || continue
        line=
        read -r line 2> /dev/null < "/proc/$pid/stat" || continue
        # shellcheck disable=SC2086 # the fields are words
        set -- "$1" ${line##*) }
        case $2 in [ZX]) continue ;; esac
        [ "${21}" = "$start" ] && found="$found $pid"
    done < "$folder/processes"
}

# Signals all processes of a kind until none is left, or for the given number of 50 ms rounds.
end_all() {
    round=0
    while [ "$round" -lt "$3" ]; do
        living "$1"
        [ -n "$found" ] || return 0
        for pid in $found; do
            # SIGTERM is sent once, SIGKILL in every round.
            if [ "$2" = KILL ] || [ "$round" -eq 0 ]; then
                kill "-$2" "$pid" 2> /dev/null
            fi
            # Each process leads its own group, except that a drive's group contains its own
            # guardian.
            if [ "$1" = other ]; then
                kill "-$2" -- "-$pid" 2> /dev/null
            fi
        done
        sleep 0.05
        round=$((round + 1))
    done
    return 1
}

end_groups() {
    [ -r "$folder/groups" ] || return 0
    round=0
    while [ "$round" -lt 200 ]; do
        left=
        while read -r group; do
            [ -d "$group" ] || continue
            while read -r pid; do
                kill -KILL "$pid" 2> /dev/null
            done < "$group/cgroup.procs"
            rmdir "$group" 2> /dev/null || left=yes
        done < "$folder/groups"
        [ -n "$left" ] || return 0
        sleep 0.05
        round=$((round + 1))
    done
}

# Unmounts the mounts that servers read from: their own cleanup process was in the control group and
# was killed with it.
take_off_mounts() {
    while read -r _ _ _ _ point _; do
        case $point in "$folder"/*/mounted) umount -l "$point" 2> /dev/null ;; esac
    done < /proc/self/mountinfo
}

# Whether anything is still mounted below the folder.
is_mounted() {
    while read -r _ _ _ _ point _; do
        case $point in "$folder"/*) return 0 ;; esac
    done < /proc/self/mountinfo
    return 1
}

# Blocks until the bench ends: nothing is ever written to the pipe.
cat > /dev/null
[ -d "$folder" ] || exit 0
end_all other KILL 200
end_groups
take_off_mounts
# A killed drive is cleaned up by its own guardian.
end_all disk TERM 600 || end_all disk KILL 200
round=0
while is_mounted && [ "$round" -lt 600 ]; do
    sleep 0.05
    round=$((round + 1))
done
# Never delete through a mount.
is_mounted || rm -rf --one-file-system "$folder"
