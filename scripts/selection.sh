# What the gate leaves out in the work tree that lasts (lasting.sh), because it has passed there with the same code. Sourced after
# common.sh, not run. CONTRIBUTING.md, "What runs when".

# If it leaves something out: since which commit, the modules of unit tests that run, and the files of acceptance tests.
since=
gate_modules=
gate_files=()

# The commit whose tests have all passed in this work tree, and what they ran on. Only a work tree that lasts has it.
passed=$root/.git/sluice-passed
machine() {
    cat -- "$root/.git/sluice-toolchain"
    if command -v dpkg-query >/dev/null 2>&1; then dpkg-query -W; fi
}
remember_pass() {
    [ -e "$root/.git/sluice-toolchain" ] || return 0
    printf '%s %s\n' "$(git rev-parse HEAD)" "$(machine | sha256sum | cut -d ' ' -f 1)" >"$passed"
}
# Leaves out what has passed with the same code, on the same machine, in the last seven days.
select_tests() {
    local commit ran_on affected
    [ -e "$root/.git/sluice-toolchain" ] && [ -n "$(find "$passed" -mtime -7 2>/dev/null)" ] || return 0
    read -r commit ran_on <"$passed"
    [ "$ran_on" = "$(machine | sha256sum | cut -d ' ' -f 1)" ] || return 0
    git rev-parse -q --verify "$commit^{commit}" >/dev/null || return 0
    mapfile -t affected < <(SWIFT=$SWIFT "$root/scripts/affected" --gate "$commit")
    # Without an answer everything runs.
    case ${affected[0]-} in
        all:*) printf 'everything runs: %s differs from %s\n' "${affected[0]#all:}" "${commit:0:12}" ;;
        swift:*)
            gate_modules=${affected[0]#swift:}
            read -r -a gate_files <<<"${affected[1]#acceptance:}"
            gate_files=("${gate_files[@]/#/$root/acceptance/}")
            since=$commit
            ;;
    esac
}
