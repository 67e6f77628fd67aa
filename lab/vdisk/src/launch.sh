# Records its process in a file, then becomes another program, so that the guardian, which ends the
# processes in that file, ends this one as well. Arguments: the file, the owner's process id, the
# program and its arguments.
file=$1 owner=$2
shift 2

# Fields of /proc/PID/stat after the name.
read_fields() {
    local stat
    read -r stat < "/proc/$$/stat"
    read -r -a fields <<< "${stat##*) }"
}

read_fields
echo "$$ ${fields[19]}" >> "$file" || exit 1
# If the owner died before the record was written, the guardian may have finished already. If it
# dies later, the guardian reads the file after the record was written.
read_fields
[[ ${fields[1]} == "$owner" ]] || exit 1
exec "$@"
