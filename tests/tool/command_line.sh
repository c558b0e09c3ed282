#!/usr/bin/env bash
# command_line.sh UOPC: what the tool prints, on which stream, and its exit status, for many command lines.
set -uo pipefail
uopc=$(realpath "$1")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 2
export UOPC_CACHE=$work/cache CFLAGS=-O1
unset CC

checks=0 failed=0
# expect STATUS STDOUT STDERR ARGUMENT...: standard input is passed on.
expect() {
  local status=$1 out=$2 err=$3
  shift 3
  "$uopc" "$@" >got.out 2>got.err
  local got=$?
  checks=$((checks + 1))
  if [[ $got != "$status" || $(<got.out) != "$out" || $(<got.err) != "$err" ]]; then
    failed=$((failed + 1))
    printf 'FAILED: uopc %s\n  status %s, expected %s\n' "$*" "$got" "$status"
    diff <(printf '%s\n' "$out") got.out | sed 's/^/  stdout /'
    diff <(printf '%s\n' "$err") got.err | sed 's/^/  stderr /'
  fi
}
# matches STATUS STDOUT-PATTERN STDERR-PATTERN ARGUMENT...: extended regular expressions.
matches() {
  local status=$1 out=$2 err=$3
  shift 3
  "$uopc" "$@" >got.out 2>got.err
  local got=$?
  checks=$((checks + 1))
  if [[ $got != "$status" || ! $(<got.out) =~ $out || ! $(<got.err) =~ $err ]]; then
    failed=$((failed + 1))
    printf 'FAILED: uopc %s\n  status %s, expected %s\n  stdout %s\n  stderr %s\n' "$*" "$got" "$status" \
      "$(head -c 300 got.out)" "$(head -c 300 got.err)"
  fi
}
# same FILE FILE: equal bytes.
same() {
  checks=$((checks + 1))
  cmp "$1" "$2" || failed=$((failed + 1))
}
# npy FILE DESCR SHAPE DATA: DATA with printf's escapes.
npy() {
  local header="{'descr': '$2', 'fortran_order': False, 'shape': $3, }"
  local size=$(((10 + ${#header} + 1 + 63) / 64 * 64 - 10))
  {
    printf '\x93NUMPY\x01\x00'
    printf "\\x$(printf %02x $((size % 256)))\\x$(printf %02x $((size / 256)))"
    printf '%-*s\n' $((size - 1)) "$header"
    printf "$4"
  } >"$1"
}

# ---- files -----------------------------------------------------------------------------------------------------------
cat >double.uir <<'END'
# twice a matrix, transposed
%x = buffer 6 : dtype=f32 slot=0
%m = RESHAPE %x, (2, 3)   # a view
%t = permute %m, (1, 0)
%y = mul %t, 2
END
cat >double.canonical <<'END'
%0 = buffer 6 : dtype=f32 slot=0
%1 = reshape %0, (2, 3)
%2 = permute %1, (1, 0)
%3 = reshape 2.0, (1, 1)
%4 = expand %3, (3, 2)
%5 = mul %2, %4
END
cat >double.c <<'END'
void kernel(float* restrict data0, float* restrict data1) {
  for (int ridx0 = 0; ridx0 < 3; ridx0++) {
    for (int ridx1 = 0; ridx1 < 2; ridx1++) {
      float val1 = data0[((ridx1*3)+ridx0)];
      data1[((ridx0*2)+ridx1)] = (val1*2.0f);
    }
  }
}
END
cat >gather.uir <<'END'
%0 = buffer 1 : dtype=f32 slot=2
%1 = index %0, 0
%2 = buffer 3 : dtype=f32 slot=1
%3 = buffer 1 : dtype=i32 slot=0
%4 = index %3, 0
%5 = load %4
%6 = index %2, %5
%7 = load %6
%8 = store %1, %7
%9 = sink %8
END
cat >two_outputs.uir <<'END'
%0 = buffer 1 : dtype=i32 slot=0
%1 = index %0, 0
%2 = load %1
%3 = add %2, 1
%4 = store %1, %3
%5 = buffer 1 : dtype=bool slot=4
%6 = index %5, 0
%7 = cmplt %2, 5
%8 = store %6, %7
%9 = sink %4, %8
END
cat >threads.uir <<'END'
%0 = buffer 3 : dtype=f32 slot=1
%1 = range 3 : idx=0 kind=thread
%2 = index %0, %1
%3 = buffer 3 : dtype=f32 slot=0
%4 = index %3, %1
%5 = load %4
%6 = mul %5, 2.0
%7 = store %2, %6
%8 = end %7, %1
%9 = sink %8
END
echo '%0 = sink' >nothing.uir
npy x.npy '<f4' '(2, 3)' '\x00\x00\x80\x3f\x00\x00\x00\x40\x00\x00\x40\x40\x00\x00\x80\x40\x00\x00\xa0\x40\x00\x00\xc0\x40'
npy flat.npy '<f4' '(6,)' '\x00\x00\x80\x3f\x00\x00\x00\x40\x00\x00\x40\x40\x00\x00\x80\x40\x00\x00\xa0\x40\x00\x00\xc0\x40'
npy y.npy '<f4' '(3, 2)' '\x00\x00\x00\x40\x00\x00\x00\x41\x00\x00\x80\x40\x00\x00\x20\x41\x00\x00\xc0\x40\x00\x00\x40\x41'
npy ints.npy '<i4' '(6,)' '\x01\x00\x00\x00\x02\x00\x00\x00\x03\x00\x00\x00\x04\x00\x00\x00\x05\x00\x00\x00\x06\x00\x00\x00'
npy table.npy '<f4' '(3,)' '\x00\x00\x80\x3f\x00\x00\x00\x40\x00\x00\x40\x40'
npy one.npy '<i4' '()' '\x01\x00\x00\x00'
npy three.npy '<i4' '(1,)' '\x03\x00\x00\x00'
npy doubles.npy '<f8' '(1,)' '\x00\x00\x00\x00\x00\x00\xf0\x3f'

# ---- print, type, eval -----------------------------------------------------------------------------------------------
expect 0 "$(<double.canonical)" '' print double.uir
expect 0 "$(<double.canonical)" '' print - <double.uir
expect 0 "$(<double.canonical)" '' print double.canonical
expect 0 'dtype=f32 shape=(3, 2) addrspace=ALU' '' type double.uir
expect 0 'dtype=void shape=() addrspace=ALU' '' type gather.uir
expect 0 'dtype=f32 shape=(4,) addrspace=GLOBAL' '' type - <<<'%0 = buffer 4'
expect 0 'dtype=bool shape=() addrspace=ALU' '' type - <<<'%0 = cmplt 1, 2'
expect 0 '3' '' eval - <<<'%0 = add 1, 2'
expect 0 'True' '' eval - <<<'%0 = cmplt 1, 2'
expect 0 'nan' '' eval - <<<'%0 = const nan'
expect 0 '1e-05' '' eval - <<<'%0 = const 0.00001'
expect 0 '-inf' '' eval - <<<'%0 = log2 0.0'
expect 0 '[[1, 2, 3], [1, 2, 3]]' '' eval - <<<'%0 = stack 1, 2, 3
%1 = stack %0, %0'
expect 0 '[1.0, 0.333251953125]' '' eval - <<<'%0 = stack 1.0, 3.0
%1 = cast %0 : dtype=f16
%2 = recip %1'
expect 0 '-2147483648' '' eval - <<<'%0 = floordiv -2147483648, -1'
# An i32 that is none, or a size that cannot be, is neither typed nor computed; it prints as it was written.
expect 0 '%0 = add 3000000000, 3000000000' '' print - <<<'%0 = add 3000000000, 3000000000'
for command in type eval plan c run; do
  expect 1 '' 'UOpError: CONST 3000000000 does not fit i32 (-2147483648 to 2147483647)' $command - \
    <<<'%0 = add 3000000000, 3000000000'
done
for command in type plan c run; do
  expect 1 '' 'UOpError: BUFFER slot=0 has a negative size: (-1,)' $command - <<<'%0 = buffer -1'
  expect 1 '' 'UOpError: an index of INDEX () is out of range: it is 9 and the size is 4' $command - <<<'%0 = buffer 4
%1 = index %0, 9'
done
expect 0 'dtype=i32 shape=() addrspace=ALU' '' type - <<<'%0 = range 4'
expect 1 '' 'UOpError: FLOORDIV by the constant 0' eval - <<<'%0 = floordiv 5, 0'
expect 1 '' 'UOpError: cannot evaluate: the graph reads BUFFER slot 0' eval double.uir
# A divisor of 0: a mistake where it is written down, the value 0 where data or a loop program has it.
printf '%s\n' '%0 = buffer 1 : dtype=i32 slot=0' '%1 = floormod %0, 0' >by_zero.uir
printf '%s\n' '%0 = buffer 1 : dtype=i32 slot=0' '%1 = mul %0, 0' '%2 = floormod %0, %1' >by_made_zero.uir
printf '%s\n' '%0 = buffer 1 : dtype=i32 slot=0' '%1 = index %0, 0' '%2 = load %1' '%3 = floordiv %2, 0' \
  '%4 = buffer 1 : dtype=i32 slot=1' '%5 = index %4, 0' '%6 = store %5, %3' '%7 = sink %6' >loop_by_zero.uir
matches 1 '^$' '^UOpError: cannot evaluate: ' eval gather.uir

# ---- c, llvm, asm ----------------------------------------------------------------------------------------------------
expect 0 "$(<double.c)" '' c double.uir
expect 0 "$(<double.c)" '' c --opts 'Opts()' double.uir
matches 0 '^#include <math.h>.*void kernel\(float\* restrict data0' '^$' c --prelude double.uir
matches 0 '^void kernel\(int\* restrict data0, float\* restrict data1, float\* restrict data2\)' '^$' c gather.uir
expect 0 $'void kernel() {\n}' '' c nothing.uir
printf '%%a = buffer 4 : dtype=f32 slot=3\n%%s = stage %%a\n%%e = exp2 %%a\n%%t = stage %%e\n%%r = add %%t, %%s\n' >staged.uir
matches 0 "e_4 \[\('in', 0\), \('tmp', 0\)\]" '^$' plan staged.uir
matches 0 'temps: \[\(dtypes.f32, 4\)\]  outs: \[\(dtypes.f32, 4\)\]' '^$' plan staged.uir
printf '%%a = buffer 64 : slot=0\n%%m = reshape %%a, (8, 8)\n%%s = reduce %%m : op=add pop=1\n' >rowsum.uir
matches 0 'define .*@kernel' '^$' llvm double.uir
matches 0 'kernel:' '^$' asm double.uir
matches 1 '^$' '^UOpError: .*slot 1.*taken' c - <<<'%0 = buffer 4 : slot=1'
matches 1 '^$' '^ParseError: ' c --opts 'Opts(upcast=2)' double.uir
matches 1 '^$' '^ParseError: ' c --opts 'nonsense' double.uir
matches 1 '^$' '^ParseError: ' c --opts '' double.uir
matches 1 '^$' '^UOpError: a loop program is not lowered' c --opts 'Opts(unroll=2)' gather.uir
matches 1 '^$' '^UOpError: Opts.unroll is 2, but there is no REDUCE' c --opts 'Opts(unroll=2)' staged.uir
matches 1 '^$' '^UOpError: Opts.upcast of axis 0: 3 does not divide its size ' c --opts 'Opts(upcast={0: 3})' staged.uir
matches 1 '^$' '^NotImplementedError: Opts.gpu ' c --opts 'Opts(gpu=True)' staged.uir
matches 0 'ridx0 < 3; .*data1\[3\]' '^$' c --lanes --opts 'Opts(upcast={0: 3})' - <<<'%a = buffer 4 : slot=0'
matches 0 '#pragma omp parallel for.*acc1.*val15' '^$' c --opts 'Opts(upcast={0: 2}, thread=0, unroll=4)' rowsum.uir
matches 1 '^$' '^NotImplementedError: ' c - <<<'%0 = param : slot=0 dtype=i32'

# ---- run -------------------------------------------------------------------------------------------------------------
for backend in jit c interp; do
  b=(--backend $backend)
  expect 0 '[[2.0, 8.0], [4.0, 10.0], [6.0, 12.0]]' '' run double.uir --in 0=x.npy "${b[@]}"
  expect 0 '[[2.0, 8.0], [4.0, 10.0], [6.0, 12.0]]' '' run double.uir --in 0=flat.npy "${b[@]}"
  expect 1 '' 'UOpError: FLOORMOD by the constant 0' run by_zero.uir --in 0=three.npy "${b[@]}"
  expect 0 '[0]' '' run by_made_zero.uir --in 0=three.npy "${b[@]}"
  expect 0 '[0]' '' run loop_by_zero.uir --in 0=three.npy "${b[@]}"
  expect 0 '[[2.0, 8.0], [4.0, 10.0], [6.0, 12.0]]' '' run "${b[@]}" --in 0=x.npy double.uir
  expect 0 '[[2.0, 8.0], [4.0, 10.0], [6.0, 12.0]]' '' run - --in 0=x.npy "${b[@]}" <double.uir
  expect 0 '[[2.0, 8.0], [4.0, 10.0], [6.0, 12.0]]' '' run double.uir --in 0=x.npy "${b[@]}" \
    --opts 'Opts(upcast={0: 2}, tile={0: 2}, thread=1)'
  expect 0 '' '' run double.uir --in 0=x.npy --out out.npy "${b[@]}" && same out.npy y.npy
  expect 0 '' '' run double.uir --in 0=x.npy --out 1=out1.npy --threads 1 "${b[@]}" && same out1.npy y.npy
  # A loop program: buffers that are written start with what --in says, or 0; both are printed.
  expect 0 $'0: [1]\n4: [True]' '' run two_outputs.uir "${b[@]}"
  expect 0 $'0: [4]\n4: [True]' '' run two_outputs.uir --in 0=three.npy "${b[@]}"
  expect 0 '' '' run two_outputs.uir --in 0=three.npy --out 4=flag.npy "${b[@]}"
  expect 0 '[2.0]' '' run gather.uir --in 0=one.npy 1=table.npy "${b[@]}"
  matches 1 '^$' '^RunError: .*(index|out of range)' run gather.uir --in 0=three.npy 1=table.npy "${b[@]}"
  expect 0 '[0]' '' run - --in 0=three.npy "${b[@]}" <<<'%0 = buffer 1 : dtype=i32 slot=0
%1 = buffer 1 : dtype=i32 slot=1
%2 = cmpne %0, %0
%3 = cast %2 : dtype=i32
%4 = floordiv %0, %3'
  expect 0 '[[], []]' '' run - --in 0=flat.npy "${b[@]}" <<<'%0 = buffer 6
%1 = reshape %0, (2, 3)
%2 = shrink %1, ((0, 2), (1, 1))'
  expect 0 '3.0' '' run - --in 0=table.npy "${b[@]}" <<<'%0 = buffer 3
%1 = reduce %0 : op=max pop=1'
done
npy f16.npy '<f2' '(2,)' '\x00\x3c\x00\x42'
npy bools.npy '|b1' '(2,)' '\x01\x00'
for backend in jit c interp; do
  expect 0 '[2.0, 6.0]' '' run - --in 0=f16.npy --backend $backend <<<'%0 = buffer 2 : dtype=f16
%1 = add %0, %0'
  expect 0 '[False, True]' '' run - --in 0=bools.npy --backend $backend <<<'%0 = buffer 2 : dtype=bool
%1 = cmpne %0, true'
  expect 0 '[2.0, 4.0, 6.0]' '' run threads.uir --threads 2 --in 0=table.npy --backend $backend
done

# Wrong arrays. The back end does not matter.
expect 1 '' 'RunError: BUFFER slot 0 (f32, 6 elements) is read and has no value: give --in 0=FILE.npy' run double.uir --backend interp
expect 1 '' 'RunError: --in 0=ints.npy: the elements are int32, but it is BUFFER slot 0 (f32, 6 elements)' \
  run double.uir --in 0=ints.npy --backend interp
expect 1 '' 'RunError: --in 0=table.npy: 3 elements of float32 do not fit BUFFER slot 0 (f32, 6 elements)' \
  run double.uir --in 0=table.npy --backend interp
expect 1 '' 'RunError: --in 7=x.npy: the program has no BUFFER slot 7' run double.uir --in 0=x.npy --in 7=x.npy --backend interp
expect 1 '' "RunError: cannot read 'none.npy': No such file or directory" run double.uir --in 0=none.npy --backend interp
expect 1 '' "ParseError: double.uir: not an .npy file: it does not start with '\\x93NUMPY'" \
  run double.uir --in 0=double.uir --backend interp
matches 1 '^$' "^ParseError: doubles.npy: the element type is '<f8'.*astype\(numpy.float32\)$" \
  run double.uir --in 0=doubles.npy --backend interp
expect 1 '' 'RunError: --out 3=z.npy: the program does not write BUFFER slot 3 (written: 1)' \
  run double.uir --in 0=x.npy --out 3=z.npy --backend interp
expect 1 '' 'RunError: --out z.npy: which buffer? Give --out SLOT=z.npy (written: 0, 4)' \
  run two_outputs.uir --out z.npy --backend interp
CC=no-such-compiler matches 1 '^$' '^CompileError: cannot start the C compiler' run double.uir --in 0=x.npy --backend c

# A failed run or write keeps what was there.
cp y.npy kept.npy
matches 1 '^$' '^RunError: ' run gather.uir --in 0=three.npy 1=table.npy --out kept.npy --backend interp
same kept.npy y.npy
expect 1 '' "RunError: cannot write 'none/z.npy': No such file or directory" \
  run double.uir --in 0=x.npy --out none/z.npy --backend interp
expect 0 '' '' run double.uir --in 0=kept.npy --out kept.npy --backend interp # read before it is written
matches 0 '^\[\[4\.0, ' '^$' run double.uir --in 0=y.npy --backend interp
[[ -z $(find . -name '*.tmp') ]] || { echo "FAILED: files left beside"; failed=$((failed + 1)); }

# ---- malformed input -------------------------------------------------------------------------------------------------
expect 1 '' "RunError: cannot read 'none.uir': No such file or directory" print none.uir
expect 1 '' "RunError: cannot read '.': Is a directory" print .
expect 1 '' "ParseError: line 2: '%1 = add %0, %2': undefined %2" print - <<<'%0 = buffer 4
%1 = add %0, %2'
expect 1 '' "ParseError: line 2: '%1 = frob %0': 'FROB'" type - <<<'%0 = buffer 4
%1 = frob %0'
expect 1 '' "ParseError: line 2: '%1 = exp2 %0': Ops.EXP2 needs a float, got dtypes.i32" eval - <<<'%0 = buffer 4 : dtype=i32
%1 = exp2 %0'
printf '# nothing\n\n' >empty.uir
expect 1 '' 'ParseError: empty.uir: the program has no statement' type empty.uir
expect 1 '' 'ParseError: standard input: the program has no statement' run - </dev/null
for bad in '' '%' '%0' '=' '%0 =' '%0 = add' $'\x01\x02\xff' '%0 = const' '%0 = buffer -3 : dtype=void' \
  '%0 = buffer 99999999999999999999' '((((((((' '%0 = stack' '%0 = reduce 1 : pop=9'; do
  for command in print type eval c run; do
    printf '%s' "$bad" >bad.uir
    "$uopc" $command bad.uir >got.out 2>got.err
    status=$?
    checks=$((checks + 1))
    if ((status != 0 && (status != 1 || $(wc -l <got.err) < 1))) || ((status == 0 && $(wc -c <got.err) > 0)); then
      echo "FAILED: uopc $command on $(printf %q "$bad"): status $status, $(head -c 200 got.err)"
      failed=$((failed + 1))
    fi
  done
done

# ---- the command line itself -----------------------------------------------------------------------------------------
matches 0 '^uopc [0-9]+\.[0-9]+\.[0-9]+$' '^$' --version
for command in print type eval c llvm asm run; do
  matches 0 "Example:.*uopc $command " '^$' $command --help
done
matches 0 'Subcommands:.*print.*type.*eval.*c .*llvm.*asm.*run' '^$' --help
matches 2 '^$' "^no command 'frobnicate'" frobnicate
matches 2 '^$' 'subcommand is required'
matches 2 '^$' 'F is required' print
matches 2 '^$' 'F is required' run --in 0=x.npy
matches 2 '^$' '.' print double.uir double.uir
matches 2 '^$' '--backend' run double.uir --backend gpu
matches 2 '^$' '--threads' run double.uir --threads -1
matches 2 '^$' '--threads' run double.uir --threads two
matches 2 '^$' "'x.npy' is not SLOT=FILE.npy" run double.uir --in x.npy
matches 2 '^$' 'slot 0 is given twice' run double.uir --in 0=x.npy --in 0=x.npy
matches 2 '^$' '--nope' c --nope double.uir
matches 2 '^$' '--prelude' print --prelude double.uir

# ---- standard streams ------------------------------------------------------------------------------------------------
# status WANTED COMMAND: run by the shell, its standard error in got.err.
status() {
  local want=$1
  bash -c "$2" 2>got.err
  local got=$?
  checks=$((checks + 1))
  if [[ $got != "$want" ]]; then
    failed=$((failed + 1))
    printf 'FAILED: %s\n  status %s, expected %s; %s\n' "$2" "$got" "$want" "$(head -c 200 got.err)"
  fi
}
status 1 "'$uopc' print double.uir >/dev/full"
grep -q '^RunError: cannot write to standard output: No space left on device$' got.err || { cat got.err; failed=$((failed + 1)); }
status 1 "'$uopc' print double.uir >&-"
status 1 "'$uopc' --help >&-"
status 1 "'$uopc' print - <&-"
status 1 "'$uopc' run double.uir --in 0=x.npy --backend interp >&-"
status 0 "'$uopc' run double.uir --in 0=x.npy --out closed.npy --backend interp >&- 2>&-"
same closed.npy y.npy
# The reader is gone before anything is written.
status 1 "{ sleep 0.2; '$uopc' print double.uir; echo \$? >pipe.status; } | true; exit \$(<pipe.status)"
grep -q '^RunError: cannot write to standard output: Broken pipe$' got.err || { cat got.err; failed=$((failed + 1)); }

echo "$checks checks, $failed failed"
((failed == 0))
