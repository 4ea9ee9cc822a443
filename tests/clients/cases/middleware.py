# SPDX-License-Identifier: BSD-2-Clause
"""What the cases of programs above verbs have in common: they run as `verbatim run` starts them, some on one
host only, and small programs of ours (tests/clients/programs) are compiled where their libraries are."""
import os
import shutil
import subprocess

from harness import words
from lab import PORTS, Failure, Skip

HERE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
PRELOAD = 'libverbatim-preload.so'      # found as the libraries are; a path could have blanks


def need(*programs):
    missing = [program for program in programs if not shutil.which(program)]
    if missing:
        raise Skip(f'not installed: {", ".join(missing)}')


def under_verbatim(end, *settings):
    """The words in front of a program."""
    if not os.path.exists(os.path.join(end.lab.library, PRELOAD)):
        raise Failure(f'no {PRELOAD} in {end.lab.library}')
    return words(f'env LD_PRELOAD={PRELOAD}', *settings)


def folder(end, name):
    """A new one, in which the programs may write."""
    path = os.path.join(end.lab.directory, f'{name}-{next(PORTS)}')
    os.mkdir(path)
    os.chmod(path, 0o777)
    return path


def built(end, source, compiler, *options):
    """The path of a program of ours, compiled once a run."""
    need(compiler)
    binary = os.path.join(end.lab.directory, f'{source}.{compiler}')
    if not os.path.exists(binary):
        run = subprocess.run([compiler, '-O1', '-o', binary, os.path.join(HERE, 'programs', source), *options],
                             capture_output=True, text=True, timeout=300, check=False)
        if run.returncode and 'No such file' in run.stderr:
            raise Skip('not installed: headers: ' + run.stderr.splitlines()[0])
        if run.returncode:
            raise Failure(f'{source} does not compile:\n{run.stderr[-2000:]}')
    return binary


def finish(program, timeout, expected=0):
    code = program.wait(timeout)
    if code != expected:
        raise Failure(f'{program.name}: ' + (f'exit status {code}' if code is not None else 'not finished')
                      + f' after {program.seconds:.1f} s\n{program.tail()}')
    return program.text


def both(topology, server, client, port, timeout=30, served=0):
    """Start @server, wait until it listens, run @client; both to their ends. Texts of both."""
    with topology.server.start(server) as one:
        topology.server.wait_listening(port, one, served=served)
        with topology.client.start(client) as two:
            try:
                text = finish(two, timeout)
            except Failure as failure:
                raise Failure(f'{failure}\nthe server:\n{one.tail()}') from failure
            return finish(one, 10), text
