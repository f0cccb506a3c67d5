# Shared by the scripts beside it: sourced, never run. Checks the two things a machine must bring (a JDK 17 and Rust 1.88 or
# later), installs the rest from Debian's packages, and builds. Prints nothing when there is nothing to do.
#
# A script that sources this may call
#   nereus_need_build_tools     JDK, Rust and the packages that building needs
#   nereus_need_java            JDK and Gradle only
#   nereus_native_build -p X..  release build of the given crates, with progress while RocksDB compiles
#   nereus_gradle TASK...       the build tool, quiet, in the repository's root
#   nereus_jar                  sets NEREUS_JAR to the path of the one jar (built before)
#   nereus_pulsar [VERSION]     chooses the Pulsar release of the brokers that are started: sets NEREUS_BROKER_CLASSPATH (a file,
#                               written by nereus_gradle classpaths "${NEREUS_PULSAR_ARGUMENTS[@]}"), NEREUS_PULSAR_ARGUMENTS
#                               for Gradle and, where the release needs a newer Java than the build, NEREUS_BROKER_JAVA
#   say TEXT.. / die TEXT..     progress and failure, both on stderr; the summary line of a script goes to stdout

NEREUS_ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
export CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-${XDG_CACHE_HOME:-$HOME/.cache}/nereus/target}
export GRADLE_OPTS=${GRADLE_OPTS:--Xmx512m}

say() { printf '%s\n' "$*" >&2; }
die() { printf 'error: %s\n' "$*" >&2; exit 1; }

nereus_packages() {
  local missing=() package privilege=()
  for package in "$@"; do
    dpkg-query -W -f '${Status}' "$package" 2>/dev/null | grep -q 'install ok installed' || missing+=("$package")
  done
  [ ${#missing[@]} -eq 0 ] && return 0
  if [ "$(id -u)" -ne 0 ]; then
    command -v sudo >/dev/null || die "missing packages; run as root: apt-get install -y --no-install-recommends ${missing[*]}"
    privilege=(sudo)
  fi
  say "installing ${missing[*]} (about a minute) ..."
  local log
  log=$(mktemp)
  if ! { "${privilege[@]}" apt-get update -qq &&
         "${privilege[@]}" env DEBIAN_FRONTEND=noninteractive \
           apt-get install -y -qq --no-install-recommends "${missing[@]}"; } >"$log" 2>&1; then
    tail -n 20 "$log" >&2
    rm -f "$log"
    die "apt-get could not install ${missing[*]}"
  fi
  rm -f "$log"
}

# Takes the javac of the PATH if it is a 17, else an installed 17.
nereus_check_java() {
  local home
  for home in '' "${JAVA_HOME:-}" /usr/lib/jvm/*17*; do
    if [ "$(nereus_java_version "${home:+$home/bin/}javac")" = 17 ]; then
      if [ -n "$home" ]; then export JAVA_HOME=$home PATH=$home/bin:$PATH; fi
      return 0
    fi
  done
  die 'no JDK 17 found; install one first: apt-get install -y openjdk-17-jdk-headless'
}
nereus_java_version() { "$1" -version 2>&1 | sed -n 's/^javac \([0-9]*\).*/\1/p'; }

nereus_check_rust() {
  local hint='install Rust 1.88 or later first: https://rustup.rs'
  command -v cargo >/dev/null || die "no cargo on the PATH; $hint"
  local version
  version=$(cd "$NEREUS_ROOT" && cargo --version | sed 's/^cargo \([0-9]*\)\.\([0-9]*\).*/\1 \2/')
  # shellcheck disable=SC2086
  set -- $version
  [ "$1" -gt 1 ] || [ "$2" -ge 88 ] || die "cargo is version $1.$2; $hint"
}

nereus_need_java() {
  nereus_check_java
  nereus_packages gradle
}

nereus_need_build_tools() {
  nereus_check_java
  nereus_check_rust
  nereus_packages gradle g++ make ccache libclang-dev
}

# Objects of RocksDB compiled so far in the newest build directory of it, and how many there will be.
nereus_rocksdb_objects() {
  local out
  out=$(ls -td "$CARGO_TARGET_DIR"/release/build/librocksdb-sys-*/out 2>/dev/null | head -n 1)
  [ -n "$out" ] && find "$out" -name '*.o' | wc -l || echo 0
}
nereus_rocksdb_total() {
  local list
  list=$(ls -d "${CARGO_HOME:-$HOME/.cargo}"/registry/src/*/librocksdb-sys-*/rocksdb_lib_sources.txt 2>/dev/null | tail -n 1)
  [ -n "$list" ] && grep -c '\.cc' "$list" || echo '?'
}

# cargo build --release --locked ARGS, with a line every now and then as long as it takes.
nereus_native_build() {
  local log started pid waited=0 step=2 status=0
  log=$(mktemp)
  started=$SECONDS
  (cd "$NEREUS_ROOT" && exec cargo build --release --locked "$@") >"$log" 2>&1 &
  pid=$!
  while kill -0 "$pid" 2>/dev/null; do
    sleep 1
    waited=$((SECONDS - started))
    [ -t 2 ] && step=2 || step=30
    if [ $waited -ge 5 ] && [ $((waited % step)) -eq 0 ]; then
      nereus_tick "$log" "$waited"
    fi
  done
  wait "$pid" || status=$?
  [ $waited -ge 5 ] && [ -t 2 ] && printf '\n' >&2
  if [ $status -ne 0 ]; then
    grep -v '^ *\(Compiling\|Downloaded\|Downloading\|Updating\)' "$log" | tail -n 60 >&2 || true
    rm -f "$log"
    die "cargo build failed"
  fi
  rm -f "$log"
}

nereus_tick() {
  local log=$1 waited=$2 text
  text=$(printf 'compiling the native library: %d crates begun' "$(grep -c '^ *Compiling' "$log" || true)")
  text+=", RocksDB $(nereus_rocksdb_objects) of $(nereus_rocksdb_total) files"
  text+=$(printf ', %d:%02d' $((waited / 60)) $((waited % 60)))
  text+=' (the first build takes up to 15 minutes on 2 cores, later ones seconds)'
  if [ -t 2 ]; then printf '\r%s' "$text" >&2; else say "$text"; fi
}

nereus_gradle() {
  local log status=0
  log=$(mktemp)
  gradle --no-daemon --quiet --console=plain -p "$NEREUS_ROOT" "$@" >"$log" 2>&1 || status=$?
  if [ $status -ne 0 ]; then
    grep -v -e '^openjdk ' -e '^OpenJDK ' "$log" >&2 || true
    rm -f "$log"
    die "gradle $* failed"
  fi
  rm -f "$log"
}

# What the jar serves, beside the release that it is compiled against, has a project each below java/.
nereus_pulsar() {
  local compiled version others
  compiled=$(sed -n 's/^pulsarVersion=//p' "$NEREUS_ROOT/gradle.properties")
  version=${1:-$compiled}
  NEREUS_BROKER_CLASSPATH=build/classpath/broker.txt NEREUS_PULSAR_ARGUMENTS=()
  [ "$version" = "$compiled" ] && return 0
  if [ ! -d "$NEREUS_ROOT/java/pulsar-$version" ]; then
    others=$(cd "$NEREUS_ROOT/java" && printf ', %s' pulsar-* | sed 's/pulsar-//g')
    die "the jar is not made for Pulsar $version but for $compiled$others"
  fi
  NEREUS_BROKER_CLASSPATH=build/classpath/broker-$version.txt
  NEREUS_PULSAR_ARGUMENTS=("-PpulsarRun=$version")
  case $version in
    4.*) ;;
    *) nereus_find_broker_java 21 "$version" ;;
  esac
}
nereus_find_broker_java() { # LOWEST PULSAR
  local java version
  for java in "${NEREUS_BROKER_JAVA:-}" "${JAVA_HOME:-}/bin/java" java /usr/lib/jvm/*/bin/java; do
    command -v "$java" >/dev/null || continue
    version=$("$java" -version 2>&1 | sed -n 's/^[a-z]* version "\([0-9]*\).*/\1/p')
    if [ "${version:-0}" -ge "$1" ]; then
      NEREUS_BROKER_JAVA=$(command -v "$java")
      export NEREUS_BROKER_JAVA
      return 0
    fi
  done
  die "Pulsar $2 needs a Java of $1 or later to run, beside the 17 that builds; name it: NEREUS_BROKER_JAVA=/path/to/bin/java"
}

nereus_jar() {
  local jars=("$NEREUS_ROOT"/build/libs/nereus-pulsar-*.jar)
  [ -f "${jars[0]}" ] || die "no jar under build/libs; run: gradle jar"
  [ ${#jars[@]} -eq 1 ] || die "more than one jar under build/libs (${jars[*]##*/}); remove the old ones"
  NEREUS_JAR=${jars[0]}
}
