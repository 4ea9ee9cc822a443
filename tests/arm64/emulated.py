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
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
PROGRAMS = ('src/*_test', 'src/*/*_test', 'tests/abi/abi_*', 'tests/sim/sim_script_*', 'tests/sim/sim_cm_*')
WORLDS = ['tests/sim/sim', '1', '150']  # the simulator's, by seed
HELLO = 'examples/hello_verbs'
LIMIT_S = 300
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


def worlds(emulate, directory):
    """What is wrong, or nothing."""
    command = [emulate, os.path.join(directory, WORLDS[0]), *WORLDS[1:]]
    done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S, check=False)
    return f'exit status {done.returncode}\n{done.stdout[-2000:]}{done.stderr}' if done.returncode else ''


def hello(emulate, directory):
    """Two processes of the example, of which one writes to the other: what is wrong, or nothing."""
    program, texts = os.path.join(directory, HELLO), ['', '']
    script = (f'ip link set lo up; {emulate} {program} > $1/server 2>&1 & '
              f'for i in $(seq 100); do sleep 0.2; {emulate} {program} 127.0.0.1 > $1/client 2>&1 && break; '
              'grep -q refused $1/client || break; done; wait')
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(['unshare', '--net', '--mount', 'timeout', '60', 'bash', '-c', script, 'bash', folder],
                       check=False)
        for i, name in enumerate(('server', 'client')):
            with open(os.path.join(folder, name), encoding='utf-8', errors='replace') as file:
                texts[i] = file.read()
    good = 'the client wrote: hello verbs' in texts[0] and 'wrote: hello verbs' in texts[1]
    return '' if good else f'server:\n{texts[0]}\nclient:\n{texts[1]}'


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
    wrong = worlds(emulate, directory)
    say(not wrong, f'{WORLDS[2]} worlds of the simulator', notes=wrong)
    wrong = hello(emulate, directory)
    say(not wrong, 'hello_verbs writes from one process to another', notes=wrong)
    print(f'1..{count}')
    sys.exit(failed > 0)


main()
