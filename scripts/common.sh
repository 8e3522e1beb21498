# Shared by the scripts beside it; sourced, not run.

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
SWIFT=${SWIFT:-swift}

heading() { printf '\n== %s\n' "$*"; }

fail() {
    printf 'error: %s\n' "$*" >&2
    exit 1
}

# The toolchain must be Swift 6.2 or later; another program named `swift` (OpenStack's client) is recognised as such.
check_swift() {
    command -v "$SWIFT" >/dev/null 2>&1 ||
        fail "no '$SWIFT' command: install Swift 6.2 or later (https://www.swift.org/install), or set SWIFT to its path."
    local text version
    text=$("$SWIFT" --version 2>/dev/null | grep -Eo 'Swift version [0-9]+\.[0-9]+' | head -n 1) || true
    [ -n "$text" ] || fail "'$(command -v "$SWIFT")' is not the Swift compiler: set SWIFT to the compiler driver's path."
    version=${text#Swift version }
    if [ "${version%%.*}" -lt 6 ] || { [ "${version%%.*}" -eq 6 ] && [ "${version##*.}" -lt 2 ]; }; then
        fail "Swift $version is too old: 6.2 or later is needed."
    fi
}

# Builds the gateway for release, and sets `binary` to its path.
#
# Swift's libraries are linked into the program, if the toolchain has them in that form (swift.org's have): a call into them then
# needs no table of the dynamic linker (docs/decisions/0048-swift-libraries-in-the-program.md).
build_release() {
    local options=(--package-path "$root" -c release --product sluice) resources
    resources=$("$SWIFT" -print-target-info | sed -n 's/.*"runtimeResourcePath": "\(.*\)".*/\1/p')
    if [ -d "${resources}_static" ]; then
        options+=(--static-swift-stdlib)
    else
        printf 'This Swift has no static libraries: the program needs those of %s, and is slower.\n' "$resources"
    fi
    # Not exported: it is no setting of the gateway.
    SLUICE_BUILD_VERSION=$("$root/scripts/version") "$SWIFT" build "${options[@]}"
    binary=$("$SWIFT" build "${options[@]}" --show-bin-path)/sluice
}

# Sets and exports SLUICE_BINARY, for tests and benchmarks: what the environment names, or else a release build.
use_binary() {
    if [ -z "${SLUICE_BINARY:-}" ]; then
        check_swift
        heading "Building for release (the first time takes some minutes)"
        build_release
        SLUICE_BINARY=$binary
    fi
    export SLUICE_BINARY
}

# Runs a command as root: directly, or by sudo.
as_root() {
    if [ "$(id -u)" -eq 0 ]; then
        "$@"
    elif command -v sudo >/dev/null 2>&1; then
        sudo "$@"
    else
        fail "this needs root and there is no sudo: $*"
    fi
}

installed() { dpkg-query -W -f '${Status}' "$1" 2>/dev/null | grep -q '^install ok installed$'; }

# Into the current folder. As root, apt would drop its privileges first, and could not write there.
download_package() { apt-get -qq -o APT::Sandbox::User=root download "$1"; }

# Unpacks a package into a folder without installing it: for a server whose package would start a service.
unpack_package() {
    local package=$1 folder=$2 download
    [ ! -d "$folder" ] || return 0
    heading "Unpacking $package into $folder"
    download=$(mktemp -d)
    (cd "$download" && { download_package "$package" || { as_root apt-get -qq update && download_package "$package"; }; }) ||
        fail "apt-get could not download $package"
    mkdir -p -- "$(dirname "$folder")"
    dpkg-deb -x "$download"/*.deb "$folder.new"
    mv -- "$folder.new" "$folder"
    rm -rf -- "$download"
}

# Installs the packages of the arguments that are missing, in one apt-get; without any it does nothing.
install_packages() {
    local package missing=()
    for package in "$@"; do
        installed "$package" || missing+=("$package")
    done
    [ ${#missing[@]} -gt 0 ] || return 0
    command -v apt-get >/dev/null 2>&1 ||
        fail "missing: ${missing[*]} (Debian names). There is no apt-get here: install what your system calls them."

    heading "Installing ${missing[*]}"
    # A folder of its own for the archives: two concurrent apt-get would delete each other's archives in the common one.
    local archives options
    archives=$(mktemp -d)
    options=(-y -qq --no-install-recommends -o "Dir::Cache::archives=$archives" -o DPkg::Lock::Timeout=900)
    local status=0
    if ! as_root env DEBIAN_FRONTEND=noninteractive apt-get "${options[@]}" install "${missing[@]}"; then
        as_root apt-get -qq -o DPkg::Lock::Timeout=900 update
        as_root env DEBIAN_FRONTEND=noninteractive apt-get "${options[@]}" install "${missing[@]}" || status=$?
    fi
    as_root rm -rf -- "$archives"
    [ "$status" -eq 0 ] || fail "apt-get could not install: ${missing[*]}"
}

# The Python of the acceptance tests, in .venv.
python_environment() {
    local venv=$root/.venv stamp version
    stamp=$(cat "$root/acceptance/requirements.txt" "$root/acceptance/pyvimeo.txt" | cksum)
    if [ ! -x "$venv/bin/python" ] || [ "$(cat "$venv/requirements.stamp" 2>/dev/null || true)" != "$stamp" ]; then
        rm -rf -- "$venv"
        python3 -m venv "$venv"
        "$venv/bin/pip" install --quiet --disable-pip-version-check -r "$root/acceptance/requirements.txt"
        # Versions of one package, which cannot be installed beside each other (acceptance/harness/vimeo.py).
        while read -r version; do
            "$venv/bin/pip" install --quiet --disable-pip-version-check --no-deps --target "$venv/pyvimeo-$version" "PyVimeo==$version"
        done <"$root/acceptance/pyvimeo.txt"
        printf '%s\n' "$stamp" >"$venv/requirements.stamp"
    fi
    "$venv/bin/python" --version
}
