# SPDX-License-Identifier: BSD-2-Clause
"""
What tests of `verbatim fabric` have in common: an ordinary user, a fabric that runs, and its
socket (ib/protocol.h).
"""
import os
import re
import signal
import socket
import struct
import subprocess
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
BUILD = os.environ.get('TEST_BUILD', os.path.join(ROOT, 'build'))
VERBATIM = os.path.join(os.environ.get('TEST_BIN', os.path.join(BUILD, 'bin')), 'verbatim')
LAB = os.path.join(HERE, 'lab.topo')
WRITES = os.path.join(BUILD, 'meson/tests/fabric/writes')
NOBODY = 65534
PATIENCE_S = 30
CTL = struct.Struct('=IHHIIQ')
MAGIC, VERSION = 0x76624642, 6
COMMAND, PORTS, OPEN, REGISTER, ISSM, SYSFS = 1, 2, 3, 4, 6, 7
ATTACH, SLOT, GROUP, DATA, VIOLATION, ROUTE, FOLD = 8, 9, 10, 11, 12, 13, 14
TEXT, PORT, END, CHANGED, FOLDED, GONE = 64, 65, 66, 67, 69, 70
HOST_UNREACHABLE = 113


class Failure(Exception):
    pass


def must(condition, what):
    if not condition:
        raise Failure(what)


class User:
    """An ordinary one, if we are root; with a directory of its own for what is temporary."""

    def __init__(self):
        self.directory = tempfile.mkdtemp(prefix='vbfab-', dir=os.environ.get('TEST_TMP'))
        self.before = []
        if os.geteuid() == 0:
            os.chmod(self.directory, 0o700)
            os.chown(self.directory, NOBODY, NOBODY)
            self.before = ['setpriv', '--reuid', str(NOBODY), '--regid', str(NOBODY), '--clear-groups']
        self.environment = {name: value for name, value in os.environ.items()
                            if not name.startswith('VERBATIM_') and name != 'XDG_RUNTIME_DIR'}
        self.environment.update(TMPDIR=self.directory, HOME=self.directory, LC_ALL='C', VERBATIM_CONFIG='',
                                PATH=os.environ.get('PATH', '') + ':/usr/sbin:/sbin')

    def popen(self, command, node=None, fabric='lab', **more):
        environment = dict(self.environment)
        if node is not None:
            environment.update(VERBATIM_FABRIC=fabric, VERBATIM_NODE=node)
        return subprocess.Popen(self.before + command, env=environment, text=True, **more)

    def run(self, command, node=None, fabric='lab', timeout=PATIENCE_S):
        """(status, what it said on both)"""
        process = self.popen(command, node, fabric, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                             stderr=subprocess.STDOUT)
        try:
            said, _ = process.communicate(timeout=timeout)
        except subprocess.TimeoutExpired:
            process.kill()
            said, _ = process.communicate()
            raise Failure('%s: no end after %d s; it said:\n%s' % (' '.join(command), timeout, said)) from None
        return process.returncode, said

    def tool(self, *command, node='host1', status=0):
        """What a program on a node says, without its warnings; it has to end well."""
        got, said = self.run([VERBATIM, 'run'] + list(command), node)
        must(got == status, '%s: status %d; it said:\n%s' % (' '.join(command), got, said))
        return said


class Fabric:
    def __init__(self, user, *options, name='lab', file=LAB):
        self.user, self.name, self.said = user, name, ''
        self.log = os.path.join(user.directory, os.path.basename(name) + '.log')
        with open(self.log, 'w', encoding='utf-8') as log:
            self.process = user.popen([VERBATIM, 'fabric', file, '--name', name] + list(options), None,
                                      stdin=subprocess.PIPE, stdout=log, stderr=subprocess.STDOUT)
        try:
            self.wait_for('a program on')
        except Failure:
            self.process.kill()
            raise

    def text(self):
        with open(self.log, encoding='utf-8') as log:
            return log.read()

    def wait_for(self, pattern, since=0, patience_s=PATIENCE_S):
        end = time.monotonic() + patience_s
        while time.monotonic() < end:
            found = re.search(pattern, self.text()[since:])
            if found:
                return found
            must(self.process.poll() is None, 'the fabric ended with status %s: %s' % (
                self.process.returncode, self.text()))
            time.sleep(0.02)
        raise Failure('the fabric did not say "%s" but: %s' % (pattern, self.text()[since:]))

    def say(self, line, wait=None):
        """A line for its console; @wait: what comes of it."""
        since = len(self.text())
        self.process.stdin.write(line + '\n')
        self.process.stdin.flush()
        return self.wait_for(wait, since) if wait else None

    def ask(self, line):
        """What the console answers to a word, from outside."""
        status, texts = talk(self.socket(), COMMAND, line.encode() + b'\0')
        must(not status, '%s: %s' % (line, texts))
        return texts

    def route(self, one, other, *options):
        """(whether it arrives, lines)"""
        status, texts = talk(self.socket(), COMMAND, ' '.join(['route', one, other, *options]).encode() + b'\0')
        must(status in (0, HOST_UNREACHABLE), 'route %s %s: %s' % (one, other, texts))
        return not status, texts

    def directory(self):
        return os.path.join(self.user.directory, 'verbatim-%d' % (NOBODY if os.geteuid() == 0 else os.geteuid()),
                            self.name)

    def socket(self):
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        # Before it has a time limit: with one, a queue that is full for a moment is an error.
        connection.connect(os.path.join(self.directory(), 'ctl'))
        connection.settimeout(PATIENCE_S)
        return connection

    def sm(self):
        return int(re.search(r'opensm \((\d+)\)', self.text()).group(1))

    def end(self):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(PATIENCE_S)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
                raise Failure('the fabric did not end: ' + self.text()) from None
        return self.process.returncode


class Writes:
    """tests/fabric/writes on a node."""

    def __init__(self, user, node, *words, fabric='lab', wait=True):
        self.log = os.path.join(user.directory, node + '.log')
        with open(self.log, 'w', encoding='utf-8') as log:
            self.process = user.popen([VERBATIM, 'run', WRITES] + list(words), node, fabric, stdin=subprocess.PIPE,
                                      stdout=log, stderr=subprocess.STDOUT)
        self.address = self.wait_for(r'^at (.*)$', PATIENCE_S).group(1) if wait else None

    def said(self):
        with open(self.log, encoding='utf-8') as log:
            return log.read()

    def wait_for(self, pattern, patience_s):
        end = time.monotonic() + patience_s
        while time.monotonic() < end:
            found = re.search(pattern, self.said(), re.M)
            if found:
                return found
            must(self.process.poll() is None, 'it ended: ' + self.said())
            time.sleep(0.02)
        raise Failure('no "%s" in: %s' % (pattern, self.said()[-2000:]))

    def tell(self, line):
        self.process.stdin.write(line + '\n')
        self.process.stdin.flush()

    def blocks(self):
        found = re.findall(r'^wrote (\d+)$', self.said(), re.M)
        return int(found[-1]) if found else 0

    def kill(self):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()


def message(kind, body=b'', magic=MAGIC, version=VERSION, size=None, value=0):
    return CTL.pack(magic, version, kind, 0, len(body) if size is None else size, value) + body


def talk(connection, kind, body):
    """(status, text) of a question, as libraries ask it."""
    connection.send(message(kind, body))
    text = ''
    while True:
        got = connection.recv(65536)
        must(got, 'the fabric closed the connection')
        _, _, answer, status, size, _ = CTL.unpack(got[:CTL.size])
        if answer == END:
            return status, text + (got[CTL.size:CTL.size + size].decode() if status else '')
        text += got[CTL.size:].decode(errors='replace')
