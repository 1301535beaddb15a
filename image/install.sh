#!/bin/bash
# What is in the image, in two steps that the Dockerfile and tests/cluster/image.py both take.
#
#   image/install.sh dependencies DEST   what the lock file names for running a fleet, every file by its checksum
#   image/install.sh project DEST        the fleet's own code
#
# DEST is a folder that becomes the root of the image. EXTRAS=demo adds that extra. The same sources and the same lock
# file give the same files.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
PYTHON=3.11 # of Debian 12, on which the image stands
libraries=${2:?a folder}/usr/local/lib/python$PYTHON/dist-packages
programs=$2/usr/local/bin
mkdir -p "$libraries" "$programs"

dependencies() {
    local work flags=() extra
    work=$(mktemp -d)
    trap "rm -rf '$work'" EXIT
    for extra in ${EXTRAS:-}; do flags+=(--extra "$extra"); done
    # uv comes from the lock file too: it installs it ten times faster than pip.
    awk '/^[a-z]/ { mine = /^uv==/ } mine && !/^ *#/' "$here/requirements.lock" > "$work/uv.lock"
    python3 -m venv "$work/tools"
    "$work/tools/bin/pip" install --quiet --disable-pip-version-check --require-hashes -r "$work/uv.lock"
    "$work/tools/bin/uv" pip install --quiet --link-mode copy --target "$work/site" --python-version $PYTHON \
        --require-hashes "${flags[@]}" -r "$here/pyproject.toml" -c "$here/requirements.lock"
    for each in "$work"/site/bin/*; do
        LC_ALL=C sed '1s|^#!.*python.*|#!/usr/bin/python3|' "$each" > "$programs/$(basename "$each")"
    done
    chmod 755 "$programs"/*
    rm -rf "$work/site/bin"
    cp -a "$work/site/." "$libraries"
    compile "$2" "$libraries"
}

project() {
    local examples=$2/opt/fleet
    mkdir -p "$examples"
    copy fleet_app "$libraries"
    copy serve_configs "$examples"
    copy jobs "$examples"
    echo /opt/fleet > "$libraries/fleet-examples.pth"
    printf '#!/usr/bin/python3\nfrom fleet_app.cli.main import app\n\napp()\n' > "$programs/fleet"
    chmod 755 "$programs/fleet"
    ln -sf /usr/bin/python3 "$programs/python" # as entrypoints of jobs, and KubeRay, call it
    compile "$2" "$libraries/fleet_app" "$examples"
}

copy() {
    rm -rf "${2:?}/$1"
    cp -r "$here/$1" "$2"
    find "$2/$1" -name __pycache__ -prune -exec rm -rf {} +
}

# Users may not write there, so Python would compile all of Ray at every start. By checksum, not by time: reproducible.
compile() {
    if python3 -c "import sys; sys.exit('%d.%d' % sys.version_info[:2] != '$PYTHON')"; then
        # Some files of others are no Python of this version, and are never imported.
        python3 -m compileall -q -j 0 -s "$1" -p / --invalidation-mode unchecked-hash "${@:2}" > /dev/null || true
    else
        echo "image/install.sh: not compiled, which slows starts: python3 here is not $PYTHON" >&2
    fi
}

case ${1:-} in
    dependencies) dependencies "$@" ;;
    project) project "$@" ;;
    *) sed -n '2,9s/^# \{0,1\}//p' "${BASH_SOURCE[0]}" >&2; exit 2 ;;
esac
