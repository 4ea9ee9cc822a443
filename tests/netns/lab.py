# SPDX-License-Identifier: BSD-2-Clause
"""Network namespaces, processes in them, and pairs of programs: what the tests that run real
clients, the interoperation tests and the benchmarks have in common.

A namespace is held by a process that reads from a pipe of ours: when we end, in whatever way,
the pipe closes, the holder ends, and the kernel deletes the namespace with all its interfaces.
So nothing has a name that could collide and nothing can be left behind. An ordinary user gets
the same inside a user namespace, where the system allows these.

Processes are ended by their own pid only, and die with us (PR_SET_PDEATHSIG)."""
import contextlib
import itertools
import os
import re
import signal
import subprocess
import time

NOBODY = 65534
# Limits of programs are those of an idle machine: for one that hangs so many times as long is waited.
PATIENCE = 6
UNRELIABLE_TRIES = 5


class Limits:
    """Exact ones are for programs that hang by right, as their datagrams were lost: with exact_limits()."""
    patience = PATIENCE


@contextlib.contextmanager
def exact_limits():
    before, Limits.patience = Limits.patience, 1
    try:
        yield
    finally:
        Limits.patience = before


# The name of a claim (src/host/service.c), unconnected (01) once it is served; the low 16 bits of
# the service ID are the port.
SERVED = re.compile(r' 01 +\d+ @verbatim/service/([0-9a-f]{16})/')
PORTS = itertools.count(18600)


class Failure(Exception):
    """The thing under test did something wrong."""


GRAVE = re.compile(r'SIG(SEGV|ABRT|BUS|ILL|FPE)|(invalid|wrong) data|checksum|byte \d+ of|Sanitizer')


def is_grave(text):
    """Crashes and wrong data, which no busy machine explains."""
    return GRAVE.search(text) is not None


class Skip(Exception):
    """The test cannot be run here."""


def call(command, **more):
    """Run a short command that must work; its output."""
    done = subprocess.run(command, text=True, capture_output=True, timeout=300, **more)
    if done.returncode:
        raise Failure(f"{' '.join(command)}: {done.stderr.strip() or done.returncode}")
    return done.stdout


class Namespace:
    """A network namespace of our own with lo up. @inside: the one whose user namespace to share."""

    def __init__(self, inside=None):
        hold = ['sh', '-c', 'mount -t sysfs sysfs /sys 2>/dev/null; echo ready; exec cat']
        if os.geteuid() == 0:
            command = ['unshare', '-n', '-m'] + hold
        elif inside:
            command = ['nsenter', '--preserve-credentials', '-U', '-t', str(inside.pid),
                       'unshare', '-n', '-m'] + hold
        else:
            command = ['unshare', '-U', '-r', '-n', '-m'] + hold
        self.holder = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                       stderr=subprocess.PIPE)
        if self.holder.stdout.readline() != b'ready\n':
            why = self.holder.stderr.read().decode().strip()
            self.close()
            raise Skip(f'no network namespace here: {why}')
        self.pid = self.holder.pid
        self.call('sh', '-c', 'for f in all default lo; do'
                  ' echo 0 > /proc/sys/net/ipv6/conf/$f/accept_dad; done 2>/dev/null; true')
        self.call('ip', 'link', 'set', 'lo', 'up')

    def close(self):
        with contextlib.suppress(OSError):
            self.holder.stdin.close()
        self.holder.wait(100)
        self.holder.stdout.close()
        self.holder.stderr.close()

    def prefix(self, user=None):
        """The command line that runs what follows it in here, as @user (a number) when root."""
        if os.geteuid() == 0:
            enter = ['nsenter', '-n', '-m', '-t', str(self.pid)]
        else:
            enter = ['nsenter', '--preserve-credentials', '-U', '-n', '-m', '-t', str(self.pid)]
        drop = ['setpriv', '--pdeathsig', 'KILL']
        if os.geteuid() == 0 and user:
            drop += [f'--reuid={user}', f'--regid={user}', '--clear-groups']
        return enter + drop

    def call(self, *command):
        return call(self.prefix() + list(command))

    def listens(self, port):
        """Does any process in here listen on this TCP port?"""
        for table in ('tcp', 'tcp6'):
            with open(f'/proc/{self.pid}/net/{table}') as lines:
                next(lines)
                for line in lines:
                    field = line.split()
                    if field[3] == '0A' and int(field[1].rsplit(':', 1)[1], 16) == port:
                        return True
        return False

    def serves(self, port, addresses=1):
        """Is this port served in here: by the connection manager on so many addresses, or a socket?"""
        with open(f'/proc/{self.pid}/net/unix') as lines:
            if sum(bool(match) and int(match[1], 16) & 0xffff == port
                   for match in map(SERVED.search, lines)) >= addresses:
                return True
        with open(f'/proc/{self.pid}/net/udp') as one, open(f'/proc/{self.pid}/net/udp6') as two:
            ports = re.findall(r'^ *\d+: [0-9A-F]+:([0-9A-F]{4}) ', one.read() + two.read(), re.M)
        return f'{port:04X}' in ports or self.listens(port)


class Program:
    """A running program whose output goes to a file. Leaving the `with` block ends it."""

    def __init__(self, command, log, env=None):
        self.name = os.path.basename(command[0])
        self.command = command
        self.log = log
        self.started = time.monotonic()
        self.ended = None
        with open(log, 'wb') as out:
            self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=out,
                                            stderr=subprocess.STDOUT, env=env)
        self.pid = self.process.pid

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.end()

    @property
    def code(self):
        return self.process.returncode

    @property
    def text(self):
        with open(self.log, errors='replace') as file:
            return file.read()

    @property
    def seconds(self):
        return (self.ended or time.monotonic()) - self.started

    def alive(self):
        return self.process.poll() is None

    def wait(self, timeout):
        """Its exit status, or None when it is still running after @timeout seconds, and patience."""
        try:
            self.process.wait(max(timeout, 0) * Limits.patience)
        except subprocess.TimeoutExpired:
            return None
        self.ended = self.ended or time.monotonic()
        return self.code

    def signal(self, number):
        if self.alive():
            os.kill(self.pid, number)

    def end(self):
        for number in (signal.SIGCONT, signal.SIGTERM, signal.SIGKILL):
            self.signal(number)
            with exact_limits():
                if number != signal.SIGCONT and self.wait(2) is not None:
                    break

    def crashed(self):
        """Ended by a signal that is a program's own fault: its name."""
        if self.code is None or self.code >= 0:
            return None
        name = signal.Signals(-self.code).name
        return name if name not in ('SIGTERM', 'SIGKILL', 'SIGINT') else None

    def tail(self, lines=12):
        """The end of its output, and what libraries and programs complained of before."""
        text = self.text.rstrip().splitlines()
        told = [line for line in text[:-lines] if re.search(
            r'verbatim:|fail|error|status|couldn|unable', line, re.I)]
        return '\n'.join(told[:8] + text[-lines:])


class End:
    """One end of a topology: where programs run, as whom, and how the other end reaches it.
    @variables are in the environment of all of them."""

    def __init__(self, namespace, device, address, address6=None, user=None, lab=None,
                 variables=None):
        self.namespace, self.device, self.user, self.lab = namespace, device, user, lab
        self.address, self.address6 = address, address6
        self.variables = dict(variables or {})

    def start(self, command, env=None, user=None):
        prefix = self.namespace.prefix(self.user if user is None else user)
        return Program(prefix + command, self.lab.log_path(command[0]),
                       self.lab.env({**self.variables, **(env or {})}))

    def wait_listening(self, port, program, timeout=10, served=0):
        """@served: with the connection manager, which has no TCP port, on so many addresses."""
        until = time.monotonic() + timeout * PATIENCE
        while not (self.namespace.serves(port, served) if served else self.namespace.listens(port)):
            if not program.alive():
                raise Failure(f'the server ended before it listened (exit status {program.code}):\n'
                              + program.tail())
            if time.monotonic() > until:
                raise Failure(f'the server does not listen after {timeout} s:\n' + program.tail())
            time.sleep(0.01)


def processor_ticks(program):
    with open(f'/proc/{program.pid}/stat') as stat:
        fields = stat.read().rsplit(')', 1)[1].split()
    return int(fields[11]) + int(fields[12])


def assert_idle(programs, windows=6):
    """They come to rest: in one of so many windows of 2 s, the first on an idle machine, none uses a processor."""
    for _ in range(windows):
        before = [processor_ticks(program) for program in programs]
        time.sleep(2)
        spent = [processor_ticks(program) - then for program, then in zip(programs, before)]
        if max(spent) <= 1:
            return
    raise Failure(f'{spent} ticks of CPU in 2 s')


class Lab:
    """Where the library is and where output goes; the same for a whole run."""

    def __init__(self, library, directory, variables=None):
        self.library, self.directory = library, directory
        self.variables = dict(variables or {})
        self.count = itertools.count(1)

    def env(self, more=None):
        env = {k: v for k, v in os.environ.items() if not k.startswith('VERBATIM_')}
        env.pop('LD_PRELOAD', None)
        if self.library:
            env['LD_LIBRARY_PATH'] = self.library
        env['VERBATIM_EXPLAIN'] = '1'
        env.update(self.variables)
        env.update(more or {})
        return env

    def log_path(self, program):
        return os.path.join(self.directory, f'{next(self.count):05d}-{os.path.basename(program)}')


class Topology:
    """Two ends and the path between them. server and client may be the same namespace."""

    def __init__(self, name, server, client, mtu, namespaces):
        self.name, self.server, self.client = name, server, client
        self.mtu = mtu              # the RoCE path MTU that its devices report as active
        self.namespaces = namespaces
        self.gids = [0, 1]          # GID indexes that reach the other end; 1 is IPv4

    def close(self):
        for namespace in self.namespaces:
            namespace.close()

    def loss(self, percent):
        """Drop RoCE packets at random where they come in, so that no sender sees an error. Yields
        a function that says how many were dropped so far (a batch of GSO counts as one)."""
        return self.filtered(f'udp dport 4791 numgen random mod 1000 < {int(percent * 10)} counter drop')

    def marks(self, percent):
        """As a congested switch: mark (ECN) RoCE packets over IPv4 that say that they may be marked."""
        return self.filtered(f'udp dport 4791 ip ecn ect0 numgen random mod 1000 < {int(percent * 10)} counter '
                             'ip ecn set ce')

    @contextlib.contextmanager
    def filtered(self, rule):
        """With that rule where packets come in; yields a function that counts the packets of it."""
        variables = self.server.lab.variables
        before = dict(variables)
        variables['VERBATIM_MEMORY'] = 'off'    # on one host nothing would reach the filter
        try:
            for namespace in self.namespaces:
                namespace.call('nft', 'add table inet loss; add chain inet loss in '
                               '{ type filter hook prerouting priority -300; }; '
                               f'add rule inet loss in {rule}')
        except Failure as why:
            raise Skip(f'nftables cannot do that at random here: {why}')

        def counted():
            listed = ' '.join(n.call('nft', 'list table inet loss') for n in self.namespaces)
            return sum(int(packets) for packets in re.findall(r'counter packets (\d+)', listed))
        try:
            yield counted
        finally:
            variables.clear()
            variables.update(before)
            for namespace in self.namespaces:
                namespace.call('nft', 'delete table inet loss')


def loopback(lab, user=NOBODY, variables=None):
    """lo alone, programs run as an ordinary user."""
    one = Namespace()
    end = End(one, 'vb_lo', '127.0.0.1', '::1', user, lab, variables)
    return Topology('lo', end, end, 4096, [one])


def veth(lab, mtu, user=None):
    """Two namespaces joined by a veth pair."""
    one = Namespace()
    two = Namespace(inside=one)
    one.call('ip', 'link', 'add', 'va', 'type', 'veth', 'peer', 'name', 'vb',
             'netns', f'/proc/{two.pid}/ns/net')
    ends = []
    for namespace, link, number in ((one, 'va', 1), (two, 'vb', 2)):
        v4, v6 = f'10.77.0.{number}', f'fd77::{number}'
        namespace.call('ip', 'addr', 'add', f'{v4}/24', 'dev', link)
        namespace.call('ip', 'addr', 'add', f'{v6}/64', 'dev', link, 'nodad')
        namespace.call('ip', 'link', 'set', link, 'mtu', str(mtu), 'up')
        ends.append(End(namespace, f'vb_{link}', v4, v6, user, lab))
    roce_mtu = max(m for m in (256, 512, 1024, 2048, 4096) if m + 80 <= mtu)
    topology = Topology(f'veth{mtu}', ends[0], ends[1], roce_mtu, [one, two])
    topology.gids = [0, 1, 2]
    for end in ends:
        wait_link(end.namespace, end.device.removeprefix('vb_'))
    return topology


def wait_link(namespace, link, timeout=5):
    """Carrier, and with it the link-local address, take up to a second after `up`."""
    until = time.monotonic() + timeout * PATIENCE
    while time.monotonic() < until:
        text = namespace.call('ip', 'addr', 'show', 'dev', link)
        if link == 'lo' or ('state UP' in text and 'fe80:' in text and 'tentative' not in text):
            return
        time.sleep(0.05)
    raise Failure(f'{link} does not come up:\n{text}')


class Host:
    """No namespace: devices that exist already (the kernel's rxe in the test guest)."""
    pid = 'self'
    listens = Namespace.listens

    @staticmethod
    def serves(port, addresses=1):
        """The kernel's rdma_cm tells who listens."""
        told = call(['rdma', 'resource', 'show', 'cm_id'])
        return sum('LISTEN' in line and bool(re.search(rf':{port}\b', line))
                   for line in told.splitlines()) >= addresses

    def prefix(self, user=None):
        return ['setpriv', '--pdeathsig', 'KILL']

    def call(self, *command):
        return call(list(command))

    def close(self):
        pass


def existing(lab, devices, address, mtu):
    """Two devices of the machine itself, to run the same tests against another RDMA stack."""
    host = Host()
    addresses = address.split('/') * 2      # SERVER or SERVER/CLIENT
    topology = Topology('+'.join(devices), End(host, devices[1], addresses[0], None, None, lab),
                        End(host, devices[0], addresses[1], None, None, lab), mtu, [host])
    topology.reference = True
    return topology


class Pair:
    """A server and a client that have run to their ends."""

    def __init__(self, server, client):
        self.server, self.client = server, client

    @property
    def text(self):
        return self.server.text + self.client.text

    def check(self):
        """Both must have ended by themselves with status 0."""
        for program, role in ((self.client, 'client'), (self.server, 'server')):
            if program.code is None:
                raise Failure(f'the {role} did not end in {program.seconds:.1f} s\n'
                              + self.report())
            if program.code:
                how = program.crashed() or f'exit status {program.code}'
                raise Failure(f'the {role} ended with {how}\n' + self.report())
        return self

    def report(self):
        return (f'client ({self.client.code}): ...\n{self.client.tail()}\n'
                f'server ({self.server.code}): ...\n{self.server.tail()}')


def device_args(topology, end):
    return ['-d', end.device] if getattr(topology, 'reference', False) else []


@contextlib.contextmanager
def started_pair(topology, server, client=None, env=None, users=(None, None), address=None):
    """Start a server, wait until it listens, start its client; yields both, ends both."""
    port = next(PORTS)
    client = server if client is None else client
    server = server + device_args(topology, topology.server) + ['-p', str(port)]
    client = client + device_args(topology, topology.client) + [
        '-p', str(port), address or topology.server.address]
    with topology.server.start(server, env, users[0]) as one:
        topology.server.wait_listening(port, one)
        with topology.client.start(client, env, users[1]) as two:
            yield one, two


def run_pair(topology, server, client=None, timeout=60, grace=10, **more):
    """Run a pair to its end, at most @timeout seconds; what is left then is ended by us,
    and the Failure carries the pair."""
    with started_pair(topology, server, client, **more) as (one, two):
        two.wait(timeout)
        one.wait(max(grace, timeout - one.seconds) if two.code == 0 else grace)
        pair = Pair(one, two)
        if one.code is None or two.code is None:
            left = [p for p in (one, two) if p.code is None]
            pair.bad = [p for p in (one, two) if p.code]
            failure = Failure(f'not finished after {two.seconds:.1f} s: {thread_states(left)}\n'
                              + pair.report())
            failure.pair = pair
            raise failure
        return pair


def unreliable(run):
    """UC and UD may lose a packet where a machine is busy, and the programs here wait for it for
    ever: such a run gets another try. A crash, an error or wrong data does not."""
    with exact_limits():
        for number in range(1, UNRELIABLE_TRIES + 1):
            try:
                told = run()
                return told if number == 1 else f'at try {number}'
            except Failure as hung:
                pair = getattr(hung, 'pair', None)
                if number == UNRELIABLE_TRIES or not pair or pair.bad or 'invalid data' in pair.text:
                    raise


def thread_states(programs):
    """What the threads of hung programs are doing, for the failure report."""
    out = []
    for program in programs:
        with contextlib.suppress(OSError):
            for task in sorted(os.listdir(f'/proc/{program.pid}/task')):
                with open(f'/proc/{program.pid}/task/{task}/stat') as stat:
                    state = stat.read().rsplit(')', 1)[1].split()[0]
                with open(f'/proc/{program.pid}/task/{task}/wchan') as wchan:
                    out.append(f'{program.pid}/{task} {state} {wchan.read() or "-"}')
    return ', '.join(out)
