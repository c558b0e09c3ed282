#!/usr/bin/env bash
# check_includes.sh ROOT CXX: which file may include which.
#   - include <- ir <- passes <- codegen <- codegen/llvm <- runtime <- tensor <- tools: a file sees its own folder and
#     those before it.
#   - LLVM only in codegen/llvm and runtime/orc.cpp.
#   - Public headers: the standard library and each other, and each compiles alone.
set -uo pipefail
root=$1 cxx=$2
cd "$root" || exit 2
failed=0
complain() { echo "$*"; failed=1; }

rank() {
  case $1 in
    uopc/*) echo 0 ;;
    ir/*) echo 1 ;;
    passes/*) echo 2 ;;
    codegen/llvm/*) echo 4 ;;
    codegen/*) echo 3 ;;
    runtime/*) echo 5 ;;
    tensor/*) echo 6 ;;
    tools/*) echo 7 ;;
    *) echo none ;;
  esac
}

count=0
while IFS= read -r file; do
  count=$((count + 1))
  name=${file#include/} name=${name#src/}
  own=$(rank "$name")
  [[ $own == none ]] && complain "$file: its folder is none that the include order knows" && continue
  while IFS=: read -r number line; do
    target=$(sed -E 's/^[[:space:]]*#[[:space:]]*include[[:space:]]*[<"]([^>"]+)[>"].*/\1/' <<<"$line")
    at="$file:$number: includes $target"
    case $target in
      llvm/* | llvm-c/*)
        [[ $name == codegen/llvm/* || $name == runtime/orc.cpp ]] ||
          complain "$at, but LLVM belongs in src/codegen/llvm/ and src/runtime/orc.cpp"
        continue ;;
    esac
    # A bare name in quotes is a file of the same folder.
    if [[ $target != */* && -e $(dirname "$file")/$target ]]; then target=$(dirname "$name")/$target; fi
    theirs=$(rank "$target")
    if [[ $theirs != none ]]; then
      ((theirs <= own)) || complain "$at, which comes after $(dirname "$name")"
    elif [[ $own == 0 && $target == *[./]* ]]; then
      complain "$at: a public header includes the standard library and public headers only"
    fi
  done < <(grep -nE '^[[:space:]]*#[[:space:]]*include' "$file")
done < <(find include src tools \( -name '*.hpp' -o -name '*.h' -o -name '*.cpp' -o -name '*.def' \) 2>/dev/null | sort)
((count > 0)) || complain "no files found in $root"

for header in include/uopc/*.hpp include/uopc/*.h; do
  [[ -e $header ]] || continue
  language=c++ standard=c++20
  [[ $header == *.h ]] && language=c && standard=c11
  output=$("$cxx" -x $language -std=$standard -Iinclude -Wall -Wextra -Werror -fsyntax-only - 2>&1 \
    <<<"#include \"${header#include/}\"") || complain "$header does not compile alone:"$'\n'"$output"
done

((failed)) || echo "$count files include what they may"
exit $failed
