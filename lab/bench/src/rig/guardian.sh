# Waits for the end of whoever holds the other end of standard input, then ends what was started for
# a bench, the inner before the outer: recorded processes with what they started, everything in its
# control groups, the groups, emulated drives (which clean up after themselves), the folder. Touches nothing that is not
# named in that folder.
#
# Argument: the folder.

trap '' HUP INT QUIT TERM PIPE
export LC_ALL=C PATH="$PATH:/usr/sbin:/sbin"
folder=$1

# Recorded processes of this kind that still run: a number may have been given to another one since.
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

# Sends a signal to all of a kind until none is left, or so many twentieths of a second have passed.
end_all() {
    round=0
    while [ "$round" -lt "$3" ]; do
        living "$1"
        [ -n "$found" ] || return 0
        for pid in $found; do
            # Once is enough for a request, and no harm for an order.
            if [ "$2" = KILL ] || [ "$round" -eq 0 ]; then
                kill "-$2" "$pid" 2> /dev/null
            fi
            # Each leads a group of its own; a drive's has the process in it that cleans up.
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

# Takes off what servers read the titles on: the process that does so for a mount whose daemon is
# killed was in the group.
take_off_mounts() {
    while read -r _ _ _ _ point _; do
        case $point in "$folder"/*/mounted) umount -l "$point" 2> /dev/null ;; esac
    done < /proc/self/mountinfo
}

# Whether something is still mounted below the folder.
is_mounted() {
    while read -r _ _ _ _ point _; do
        case $point in "$folder"/*) return 0 ;; esac
    done < /proc/self/mountinfo
    return 1
}

# Nothing is ever written to it: it ends with its owner.
cat > /dev/null
[ -d "$folder" ] || exit 0
end_all other KILL 200
end_groups
take_off_mounts
# Their own guardians clean up if they have to be killed.
end_all disk TERM 600 || end_all disk KILL 200
round=0
while is_mounted && [ "$round" -lt 600 ]; do
    sleep 0.05
    round=$((round + 1))
done
# Never delete through a mount.
is_mounted || rm -rf --one-file-system "$folder"
