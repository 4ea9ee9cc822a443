#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause
"""
Tests compiled for arm64, under qemu-user: emulated.py EMULATE NINJA_DIRECTORY. Prints TAP, a line for each
test of each program. What the emulator cannot do is in cannot.txt beside this file, with what stops it.
"""
import concurrent.futures
import glob
import os
import re
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
PROGRAMS = ('src/*_test', 'src/*/*_test', 'tests/abi/abi_*', 'tests/sim/*_test')
LIMIT_S = 150
WHOLE = '*'             # of a program, no test is tried
VERDICT = re.compile(r'^\[  *(OK|FAILED|SKIPPED) *\] ([a-z_]\w*)', re.M)
NAMESPACE = ['unshare', '--net', '--mount', 'sh', '-c', 'ip link set lo up; exec "$@"', 'sh']


def reasons():
    """(program, test) -> why it cannot be done."""
    found = {}
    with open(os.path.join(HERE, 'cannot.txt'), encoding='utf-8') as file:
        for line in file:
            if line.strip() and not line.startswith('#'):
                program, test, why = line.split(None, 2)
                found[program, test] = why.strip()
    return found


def run(emulate, path):
    """Its verdicts, and what is wrong with the program as a whole."""
    try:
        done = subprocess.run(NAMESPACE + [emulate, path], capture_output=True, timeout=LIMIT_S, check=False,
                              stdin=subprocess.DEVNULL)
    except subprocess.TimeoutExpired:
        return {}, f'did not end within {LIMIT_S} s', ''
    text = (done.stdout + done.stderr).decode(errors='replace')
    verdicts = {}
    for word, test in VERDICT.findall(text):
        verdicts.setdefault(test, word)
    wrong = f'exit status {done.returncode}' if done.returncode and 'FAILED' not in verdicts.values() else ''
    return verdicts, wrong, text


def main():
    emulate, directory = sys.argv[1:]
    cannot, count, failed = reasons(), 0, 0
    paths = sorted(path for pattern in PROGRAMS for path in glob.glob(os.path.join(directory, pattern))
                   if os.path.isfile(path) and os.access(path, os.X_OK))

    def say(good, name, why='', notes=''):
        nonlocal count, failed
        count += 1
        failed += not good
        for line in notes.splitlines()[-30:]:
            print('#', line)
        print(f'{"" if good else "not "}ok {count} - arm64: {name}{" # SKIP " + why if why else ""}', flush=True)

    todo = []
    for path in paths:
        name = os.path.basename(path)
        if (name, WHOLE) in cannot:
            say(True, name, cannot[name, WHOLE])
        else:
            todo.append(path)
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        for path, (verdicts, wrong, text) in zip(todo, pool.map(lambda path: run(emulate, path), todo)):
            name = os.path.basename(path)
            for test, word in verdicts.items():
                why = cannot.get((name, test), '')
                if word != 'OK' and why:
                    say(True, f'{name}: {test}', why)
                else:
                    say(word != 'FAILED', f'{name}: {test}', 'the test says so' if word == 'SKIPPED' else '',
                        text if word == 'FAILED' else '')
            if not verdicts and not wrong:
                say(True, name)
            if wrong:
                say(False, name, notes=f'{wrong}\n{text}')
    print(f'1..{count}')
    sys.exit(failed > 0)


main()
