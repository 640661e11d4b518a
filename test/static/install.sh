#!/bin/sh
# install.sh: installs into a new place, moves that, and builds a program against it with pkg-config, as users do.
#
# usage: install.sh CMAKE BUILD_DIRECTORY SOURCE_DIRECTORY RELIEF COMPILER [COMPILER FLAGS]
set -eu
cmake=$1 build=$2 source=$3 relief=$4
shift 4
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
"$cmake" --install "$build" --prefix "$place/first" > "$place/log" || { cat "$place/log"; exit 1; }
mv "$place/first" "$place/moved"
pc=$(find "$place/moved" -name tessera.pc)
library=$(dirname "$(dirname "$pc")")
export PKG_CONFIG_PATH="$(dirname "$pc")"
test "$(pkg-config --modversion tessera)" || exit 1
# shellcheck disable=SC2046
"$@" -std=c11 -Wall -Wextra -Werror "$source/core.c" $(pkg-config --cflags --libs tessera) -o "$place/core"
LD_LIBRARY_PATH="$library" "$place/core" "$relief"
test -f "$library/sqlite3/tessera.so" || test -f "$library/sqlite3/tessera.dylib"
# The header is C++, too, where there is a compiler for it.
if command -v c++ > /dev/null; then
  echo '#include <tessera.h>
int main() { return tsr_code_name(TSR_CORRUPT)[0] == 67 ? 0 : 1; }' > "$place/header.cc"
  # shellcheck disable=SC2046
  c++ -std=c++11 -Wall -Wextra -Werror -fsyntax-only $(pkg-config --cflags tessera) "$place/header.cc"
fi
