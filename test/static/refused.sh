#!/bin/sh
# refused.sh: on machines that the core does not support, the compiler stops with a sentence that says why: big-endian ones, and those whose
# compiler has no integers of 128 bits. Such a machine is imitated by its predefined macros.
#
# usage: refused.sh COMPILER ROOT
set -u
compiler=$1 root=$2

refuses() { # the sentence, then the compiler's flags
  sentence=$1
  shift
  if message=$("$compiler" -fsyntax-only "-I$root/core" "$@" "$root/core/base/input.c" 2>&1); then
    echo "$*: compiles"
    exit 1
  fi
  case $message in
  *"$sentence"*) echo "$*: $sentence" ;;
  *) echo "$*: says instead of '$sentence': $message"; exit 1 ;;
  esac
}

"$compiler" -fsyntax-only "-I$root/core" "$root/core/base/input.c" || exit 1
refuses "only little-endian machines are supported" -U__BYTE_ORDER__ "-D__BYTE_ORDER__=__ORDER_BIG_ENDIAN__"
refuses "tessera computes with integers of 128 bits" -U__SIZEOF_INT128__ -U__BITINT_MAXWIDTH__
