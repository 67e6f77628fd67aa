# Waits until the process at the other end of standard input has ended, then removes a scratch
# directory and all resources outside of a process that depend on it, from the inside out:
# processes, file systems on loop devices, the loop devices, the file systems of their files. Prints
# what it did. Touches only resources that this directory names or contains, or on its loop devices.
#
# Arguments: the directory; the process id of its owner, if it may still be alive.

trap '' HUP INT QUIT TERM PIPE
exec 2>&1
export LC_ALL=C PATH="$PATH:/usr/sbin:/sbin"
directory=$1
owner=$2

# PF_EXITING among the flags of a process (include/linux/sched.h).
exiting=4

# Whether the owner was killed but cannot end, because one of its threads waits in the kernel for a
# disk that the same process emulated: then it never closes the pipe by itself.
is_dying() {
    [[ -r /proc/$owner/status ]] || return 1
    local key value rest stat fields
    while read -r key value rest; do
        case $key in
            State:) [[ $value == [ZX] ]] && return 0 ;;
            SigPnd:) (( 16#$value & 1 << 8 )) && return 0 ;;
        esac
    done < "/proc/$owner/status"
    # A thread that has taken the signal has none pending, and may wait for the disk while it closes
    # files.
    read -r stat 2> /dev/null < "/proc/$owner/stat" || return 1
    read -r -a fields <<< "${stat##*) }"
    (( fields[6] & exiting ))
}

wait_for_owner() {
    # Nothing is ever written to the pipe: read ends at its end or at the timeout (a status above
    # 128).
    while read -r -t 2; (( $? > 128 )); do
        is_dying && return
    done
}

# The recorded processes that still run; a process id may have been reused since.
living_processes() {
    local pid start stat fields
    living=()
    [[ -r $directory/processes ]] || return
    while read -r pid start; do
        stat=
        read -r stat 2> /dev/null < "/proc/$pid/stat" || continue
        read -r -a fields <<< "${stat##*) }"
        [[ ${fields[0]} != [ZX] && ${fields[19]} == "$start" ]] && living+=("$pid")
    done < "$directory/processes"
}

end_processes() {
    local living pid round
    for (( round = 0; round < 200; round++ )); do
        living_processes
        (( ${#living[@]} )) || return
        for pid in "${living[@]}"; do
            (( round )) || echo "killed process $pid"
            kill -KILL "$pid"
        done
        sleep 0.05
    done
    echo "cannot end ${living[*]}"
}

# Mount points at or below the directory, and all mounts of its loop devices, the last mounted
# first: `outer` those of FUSE, `inner` the others.
find_mounts() {
    local point rest kind device
    inner=() outer=()
    while read -r _ _ _ _ point rest; do
        # The kernel writes space, tab, newline and backslash as three octal digits.
        printf -v point "${point//%/%%}"
        kind=${rest#* - }
        device=${kind#* } device=${device%% *}
        [[ $point == "$directory" || $point == "$directory"/* ]] ||
            { [[ $device == /dev/loop* ]] && is_ours "${device#/dev/}"; } || continue
        case $kind in
            fuse*) outer=("$point" "${outer[@]}") ;;
            *) inner=("$point" "${inner[@]}") ;;
        esac
    done < /proc/self/mountinfo
}

# Whether a loop device (`loopN`) has its file below the directory.
is_ours() {
    local file=
    read -r file 2> /dev/null < "/sys/block/$1/loop/backing_file"
    [[ $file == "$directory"/* ]]
}

unmount_lazily() {
    if umount --internal-only --no-canonicalize --lazy "$1"; then
        echo "unmounted $1"
    fi
}

detach() {
    local round
    # Only the holder of the lock detaches, so the device cannot have been detached and reused since
    # it was found to belong to this directory.
    if is_ours "$1" && losetup --detach "/dev/$1"; then
        echo "detached /dev/$1"
    fi
    # If it is still open elsewhere, it is detached with the last close.
    for (( round = 0; round < 200; round++ )); do
        is_ours "$1" || return
        sleep 0.05
    done
    echo "/dev/$1 is still held open"
}

clean_up() {
    local inner outer point entry
    end_processes
    find_mounts
    # A disk whose process is dying does not answer: abort it first, or the next steps wait for it.
    # A disk in use stays mounted, as it should.
    for point in "${outer[@]}"; do
        umount --internal-only --no-canonicalize --force "$point" 2> /dev/null
    done
    for point in "${inner[@]}"; do
        unmount_lazily "$point"
    done
    for entry in /sys/block/loop*; do
        is_ours "${entry##*/}" && detach "${entry##*/}"
    done
    find_mounts
    for point in "${outer[@]}"; do
        unmount_lazily "$point"
    done
    find_mounts
    # Never delete through a mount.
    (( ${#inner[@]} + ${#outer[@]} )) || rm -rf "$directory"
}

wait_for_owner
[[ -d $directory ]] || exit 0
# One at a time: the sweep of a later run may meet the guardian.
exec 9< "$directory" || exit 0
flock --wait 60 9
clean_up
