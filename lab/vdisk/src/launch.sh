# Becomes another program, after noting its process in a file, so that whoever ends the processes in
# that file ends this one too. Arguments: the file, the owner's process id, the program and its
# arguments.
file=$1 owner=$2
shift 2

# Fields of /proc/PID/stat, counted behind the name.
read_fields() {
    local stat
    read -r stat < "/proc/$$/stat"
    read -r -a fields <<< "${stat##*) }"
}

read_fields
echo "$$ ${fields[19]}" >> "$file" || exit 1
# If the owner died before that, nobody may ever look into the file again. If it dies from here on,
# they look after this note was made.
read_fields
[[ ${fields[1]} == "$owner" ]] || exit 1
exec "$@"
