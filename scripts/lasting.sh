# Runs the script that sources it in a work tree outside of this checkout, which keeps its build folder from run to run: only what
# has changed is compiled. Sourced after common.sh, not run.
#
#   SLUICE_CHECK_DIR   where the work tree is; by default below the user's cache folder. Empty: run in the checkout itself.

lasting_directory() {
    if [ -n "${SLUICE_CHECK_DIR+set}" ]; then
        printf '%s\n' "$SLUICE_CHECK_DIR"
    elif [ -n "${XDG_CACHE_HOME:-${HOME:-}}" ]; then
        printf '%s/sluice/check\n' "${XDG_CACHE_HOME:-$HOME/.cache}"
    fi
}

# Prints a commit that has the files of the checkout as they are, whether they are committed or not. What git ignores is left out.
snapshot() {
    local index tree
    if [ -z "$(git -C "$root" status --porcelain)" ]; then
        git -C "$root" rev-parse HEAD
        return
    fi
    index=$(mktemp)
    cp -- "$(cd "$root" && git rev-parse --path-format=absolute --git-path index)" "$index"
    GIT_INDEX_FILE=$index git -C "$root" add --all
    tree=$(GIT_INDEX_FILE=$index git -C "$root" write-tree)
    rm -f -- "$index"
    GIT_AUTHOR_NAME=check GIT_AUTHOR_EMAIL=check@localhost GIT_COMMITTER_NAME=check GIT_COMMITTER_EMAIL=check@localhost \
        git -C "$root" commit-tree -p HEAD -m 'The files as they are' "$tree"
}

# Sets `arguments` to those given, with the revision of --changed as a commit that the lasting work tree has.
pass_revision() {
    local revision
    arguments=()
    while [ $# -gt 0 ]; do
        arguments+=("$1")
        if [ "$1" = --changed ]; then
            revision=HEAD
            if [ $# -ge 2 ] && [[ $2 != -* ]]; then
                revision=$2
                shift
            fi
            revision=$(git -C "$root" merge-base HEAD "$revision") || fail "--changed: there is no revision $revision here"
            arguments+=("$revision")
        fi
        shift
    done
}

# What the build folder was made with: another compiler cannot use it.
toolchain() {
    readlink -f "$(command -v "$SWIFT")"
    "$SWIFT" -print-target-info 2>/dev/null
}

# Makes the work tree equal to a commit. Files that do not change keep their times; what git does not know is removed, except for the
# build folders and the virtual environment.
update_lasting_tree() {
    local tree=$1 commit=$2 stamp
    if [ ! -e "$tree/.git/sluice-check" ]; then
        if [ -e "$tree" ] && [ -n "$(ls -A -- "$tree")" ]; then
            fail "$tree is not a work tree of this script: empty it, or set SLUICE_CHECK_DIR to another folder."
        fi
        mkdir -p -- "$tree"
        git -c init.defaultBranch=check init -q "$tree"
        : >"$tree/.git/sluice-check"
    fi
    rm -f -- "$tree/.git/index.lock"
    git -C "$tree" -c protocol.version=2 fetch -q --no-tags --force "$root" "$commit"
    git -C "$tree" -c advice.detachedHead=false checkout -q --force --detach "$commit"
    git -C "$tree" reset -q --hard "$commit"
    git -C "$tree" clean -ffdxq --exclude '/.build*' --exclude '/fuzz/.build' --exclude '/benchmarks/.build*' --exclude /.venv
    stamp=$(toolchain)
    if [ "$(cat -- "$tree/.git/sluice-toolchain" 2>/dev/null)" != "$stamp" ]; then
        rm -rf -- "$tree"/.build* "$tree/fuzz/.build" "$tree"/benchmarks/.build*
        printf '%s\n' "$stamp" >"$tree/.git/sluice-toolchain"
    fi
}

# Runs a script of the project in the lasting work tree, and exits with its status. Returns if the script is to run where it is.
#
#   in_lasting_tree commit|files SCRIPT [ARGUMENT ...]
#
# `commit`: what is committed; `files`: the files as they are. Takes the options --here (run in the checkout) and --clean (start from
# nothing) out of the arguments, which are in `remaining` if it returns.
in_lasting_tree() {
    local what=$1 script=$2 tree commit clean=0 here=0 argument lock child status=0
    shift 2
    remaining=()
    for argument in "$@"; do
        case $argument in
            --clean) clean=1 ;;
            --here) here=1 ;;
            *) remaining+=("$argument") ;;
        esac
    done
    tree=$(lasting_directory)
    # Where it already is, or where it cannot be.
    if [ "$here" -eq 1 ] || [ -z "$tree" ] || [ -e "$root/.git/sluice-check" ] || ! git -C "$root" rev-parse -q --verify HEAD >/dev/null 2>&1; then
        return 0
    fi
    case $tree in /*) ;; *) fail "SLUICE_CHECK_DIR is $tree: use an absolute path." ;; esac
    check_swift
    mkdir -p -- "$(dirname "$tree")"
    # One run at a time. The descriptor is not passed on: what a test leaves running would keep the lock.
    exec {lock}>"$tree.lock"
    if ! flock -n "$lock"; then
        printf 'waiting for the run that uses %s\n' "$tree"
        flock "$lock"
    fi
    if [ "$clean" -eq 1 ] && [ -e "$tree/.git/sluice-check" ]; then rm -rf -- "$tree"; fi
    if [ "$what" = commit ]; then
        commit=$(git -C "$root" rev-parse HEAD)
        if [ -n "$(git -C "$root" status --porcelain)" ]; then
            printf 'warning: this tests what is committed; these files are not, and are left out:\n'
            git -C "$root" status --short | head -n 20
        fi
    else
        commit=$(snapshot)
    fi
    update_lasting_tree "$tree" "$commit"
    heading "testing $(git -C "$tree" describe --always --tags "$commit") in $tree"
    # In a process group of its own: otherwise all that it starts would ignore SIGINT.
    set -m
    bash "$tree/$script" "${remaining[@]}" {lock}>&- </dev/null &
    child=$!
    set +m
    trap 'kill -INT -- "-$child" 2>/dev/null' INT
    trap 'kill -TERM -- "-$child" 2>/dev/null' TERM
    while :; do
        status=0
        wait "$child" || status=$?
        # A signal to this shell ends the wait early.
        kill -0 "$child" 2>/dev/null || break
    done
    exit "$status"
}
