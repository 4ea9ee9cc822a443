# SPDX-License-Identifier: BSD-2-Clause
"""The main program of the test scripts that run real programs: options, TAP, topologies.

A module of tests has cases(topology), which yields Cases. --quick (the default) is the part for
`make check`, --long the whole, for `make check-long`. What cannot be run is skipped, loudly.

@variants of main() is a module that has more topologies(place), and says with select(case) which
cases they have."""
import argparse
import dataclasses
import os
import re
import shutil
import signal
import sys
import tempfile
import threading
import time
import typing

import lab

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
PROGRAMS = ('ibv_devices', 'ibv_rc_pingpong', 'ib_send_bw', 'ip', 'nft', 'setpriv', 'nsenter')


@dataclasses.dataclass
class Case:
    """One line of TAP."""
    name: str
    run: typing.Callable
    quick: bool = False


def words(*parts):
    """Command line from strings and numbers; strings are split at blanks, None is left out."""
    out = []
    for part in parts:
        out += [] if part is None else str(part).split()
    return out


class Standstill(threading.Thread):
    """For how long did nothing run here that wanted to, at most, since .longest was set to 0?"""

    def __init__(self):
        super().__init__(daemon=True)
        self.longest = 0
        self.start()

    def run(self):
        while True:
            begin = time.monotonic()
            time.sleep(0.02)
            self.longest = max(self.longest, time.monotonic() - begin - 0.02)


# The timeout of most programs' queue pairs is 67 ms: they give up after eight of them.
STANDSTILL_S = 0.2
# What a program does whose peer, or which itself, had no processor: all else is never excused.
GAVE_UP = re.compile('retry count|not finished after|does not listen|did not end in|no completion within')


class Tap:
    """Numbers and prints results, counts them."""

    def __init__(self):
        self.passed, self.failed, self.skipped = 0, [], []
        self.standstill = Standstill()

    def report(self, name, outcome, detail, seconds):
        number = self.passed + len(self.failed) + len(self.skipped) + 1
        line = f'{"not ok" if outcome == "fail" else "ok"} {number} - {name}'
        if outcome == 'skip':
            self.skipped.append((name, detail))
            line += f' # SKIP {detail.splitlines()[0]}'
        elif outcome == 'fail':
            self.failed.append(name)
            line += ''.join(f'\n# {text}' for text in detail.splitlines())
        else:
            self.passed += 1
            line += f' # {seconds:.1f} s' + (f', {detail}' if detail else '')
        print(line, flush=True)

    def attempt(self, function):
        try:
            detail = function()
            return 'pass', detail if isinstance(detail, str) else ''
        except lab.Skip as why:
            return 'skip', str(why)
        except lab.Failure as why:
            return 'fail', str(why)

    def run(self, name, function):
        """A case that ran into a time limit while the machine stood still gets a second try."""
        begin = time.monotonic()
        self.standstill.longest = 0
        outcome, detail = self.attempt(function)
        stood = self.standstill.longest
        if outcome == 'fail' and stood > STANDSTILL_S and GAVE_UP.search(detail) \
                and not lab.is_grave(detail):
            print(f'# {name}, while the machine stood still for {stood:.1f} s:')
            print(''.join(f'# {text}\n' for text in detail.splitlines()), end='', flush=True)
            outcome, detail = self.attempt(function)
            detail = detail or 'at the second try'
        self.report(name, outcome, detail, time.monotonic() - begin)

    def end(self):
        total = self.passed + len(self.failed) + len(self.skipped)
        print(f'1..{total}')
        for name, why in self.skipped:
            print(f'# SKIPPED: {name}: {why}')
        for name in self.failed:
            print(f'# FAILED: {name}')
        print(f'# {self.passed} passed, {len(self.failed)} failed, {len(self.skipped)} skipped')
        return 1 if self.failed or not total else 0


def parse(description):
    parser = argparse.ArgumentParser(description=description)
    which = parser.add_mutually_exclusive_group()
    which.add_argument('--quick', action='store_true', help='the part for make check (default)')
    which.add_argument('--long', action='store_true', help='everything')
    parser.add_argument('--filter', default='', help='only tests whose line matches this regex')
    parser.add_argument('--lib', help='folder of libibverbs.so.1 (default build/lib)')
    parser.add_argument('--verify', help='the verify program (default the one of the build)')
    parser.add_argument('--list', action='store_true', help='print the names only')
    parser.add_argument('--keep', action='store_true', help='keep the logs of a good run too')
    parser.add_argument('--checked', metavar='FILE', help='under verbatim check, whose processes write to FILE')
    parser.add_argument('--reference', metavar='DEV0,DEV1,ADDRESS,MTU', help='run the pairs on two'
                        ' devices of the machine (the kernel\'s rxe) instead: what do others do?')
    chosen = parser.parse_args()
    chosen.long |= bool(os.environ.get('TEST_LONG')) and not chosen.quick
    return chosen


def topologies(place, chosen, variants):
    """Name and maker of each topology, and what it has of the cases."""
    for name, make in usual_topologies(place, chosen).items():
        yield name, make, lambda case: case
    if variants and not chosen.reference:
        for name, make in variants.topologies(place).items():
            yield name, make, variants.select


def usual_topologies(place, chosen):
    if chosen.reference:
        dev0, dev1, address, mtu = chosen.reference.split(',')
        return {'reference': lambda: lab.existing(place, (dev0, dev1), address, int(mtu))}
    return {'lo': lambda: lab.loopback(place),
            'veth1500': lambda: lab.veth(place, 1500),
            'veth9000': lambda: lab.veth(place, 9000)}


def run_topology(tap, name, make, modules, select, long_alone, chosen):
    """Every chosen case on one topology."""
    first = re.match(r'\^?\(?(lo(?:, \w+ \w+)?|veth\d+):', chosen.filter)
    if first and first[1] != name:
        return
    try:
        topology = make()
    except lab.Skip as why:
        tap.report(f'{name}: all of it', 'skip', str(why), 0)
        return
    try:
        for case in filter(None, (select(case) for module in modules
                                  for case in module.cases(topology))):
            full = f'{name}: {case.name}'
            quick = case.quick and not (long_alone and long_alone.search(full))
            if not (quick or chosen.long) or not re.search(chosen.filter, full):
                continue
            if chosen.list:
                print(full)
            else:
                tap.run(full, case.run)
    finally:
        topology.close()


def find_verify(chosen):
    """The data-checking client of tests/clients/verify."""
    build = os.environ.get('TEST_BUILD', os.path.join(ROOT, 'build'))
    path = chosen.verify or os.path.join(build, 'meson', 'tests', 'clients', 'verify', 'verify')
    return os.path.abspath(path) if os.access(path, os.X_OK) else None


def main(description, modules, variants=None, long_alone=None):
    """@long_alone: a regex of lines that the quick part does not have, whatever their modules say."""
    chosen = parse(description)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    tap = Tap()
    missing = [p for p in PROGRAMS if not shutil.which(p)]
    if missing:
        tap.report(description, 'skip', f'not installed: {", ".join(missing)}', 0)
        return tap.end()
    library = os.path.abspath(chosen.lib or os.environ.get('TEST_LIB')
                              or os.path.join(ROOT, 'build', 'lib'))
    if not chosen.reference and not os.path.exists(os.path.join(library, 'libibverbs.so.1')):
        print(f'Bail out! no libibverbs.so.1 in {library}: build first')
        return 1
    directory = tempfile.mkdtemp(prefix='verbatim-clients-')
    os.chmod(directory, 0o755)
    place = lab.Lab(None if chosen.reference else library, directory)
    place.verify = find_verify(chosen)
    if chosen.checked:
        place.variables['VERBATIM_CHECK'] = 'report=' + os.path.abspath(chosen.checked)
    try:
        for name, make, select in topologies(place, chosen, variants):
            run_topology(tap, name, make, modules, select, long_alone, chosen)
        return 0 if chosen.list else tap.end()
    finally:
        if tap.failed or chosen.keep:
            print(f'# logs: {directory}')
        else:
            shutil.rmtree(directory)
