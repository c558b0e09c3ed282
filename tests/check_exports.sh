#!/usr/bin/env bash
# check_exports.sh LIBRARY NM: the library exports our names and no others, and depends on no LLVM library unless the
# third argument is 1.
set -euo pipefail
library=$1 nm=$2 shared_llvm=${3:-0}

# Weak and defined both count: a weak std:: template of LLVM's could still capture a host's.
exported=$("$nm" --dynamic --defined-only "$library" | awk '{print $NF}')
foreign=$(grep -Ev '^(_ZN(K|KR|O)?4uopc|_ZT[ISV]N4uopc|uopc_)' <<<"$exported" || true)
if [[ -n $foreign ]]; then
  echo "$library exports names that are not uopc's:" && head -20 <<<"$foreign" && exit 1
fi
grep -q '^_ZN4uopc7versionEv$' <<<"$exported" || { echo "$library does not export uopc::version()"; exit 1; }
if [[ $shared_llvm != 1 ]] && ldd "$library" | grep -i llvm; then
  echo "$library depends on a shared LLVM" && exit 1
fi
echo "$(wc -l <<<"$exported") names, all of them uopc's"
