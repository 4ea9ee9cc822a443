# SPDX-License-Identifier: BSD-2-Clause
"""
A walk: a program of random steps (generate), its execution by processes (Walk), and the search for a
smaller program that fails in the same way (shrink). What is right is model.py's to say.

Workers are told one step at a time, so that a program runs alike each time as far as the steps go; between
two `settle` their requests are in flight together.
"""
import os
import random
import selectors
import subprocess
import time

from model import (BATCH, FENCE, INLINE, LOCAL, OPCODES, SIGNALED, SLOT, SOLICITED, Model)

KINDS = {'RC': (2, 2), 'UC': (3, 3), 'UD': (4, 4), 'XRC': (9, 10)}     # of enum ibv_qp_type, by end
SRQS = {'srq': -1, 'xrc': -2}           # what a worker calls them
SIZES = (0, 1, 8, 63, 64, 100, 128, 1000, 1024, 1025, 4096, 5000, 9000)
OF_CONNECTIONS = ('send', 'recv', 'err', 'again', 'destroy', 'query', 'bind', 'sqd', 'rts')
MODES = ('auto', 'off', 'ring', 'copy', 'mapped')


class Failure(Exception):
    step = 0


# ---- generation ----

class Generator:
    """Steps that the model allows, mostly. It looks into the model for what there is to name."""

    def __init__(self, seed, processes):
        self.random, self.processes, self.serial = random.Random(seed), processes, 0
        self.model, self.steps = Model(processes), []

    def add(self, *words):
        words = [str(word) for word in words]
        answer = self.model.apply(words)
        if answer is not None:
            self.steps.append(' '.join(words))
        return answer

    def name(self):
        self.serial += 1
        return str(self.serial % 60)

    def settle(self):
        """As if all went as expected: to know what is legal next."""
        model = self.model
        for name, p in model.drained():
            self.add('rts', name, p)
        self.add('settle')
        for name, p in list(model.closing()):
            model.close(name, p)
        imagine(model)
        model.finish()

    def step(self):
        pick = self.random
        p = pick.randrange(self.processes)
        roll = pick.random()
        conns = list(self.model.conns)
        if roll < 0.04 or not conns:
            other = (p + 1 + pick.randrange(self.processes - 1)) % self.processes
            kind = pick.choice(('RC', 'RC', 'RC', 'UC', 'UD', 'XRC'))
            how = 'cm' if kind == 'RC' and pick.random() < 0.25 else 'verbs'
            srq = int(kind == 'RC' and how == 'verbs' and pick.random() < 0.3)
            rnr = 7 if kind != 'RC' or srq or how == 'cm' else pick.choice((0, 7, 7))
            if len(conns) < 12:
                self.add('pair', self.name(), kind, p, other, rnr, pick.choice((1, 3, 5)), srq, how)
        elif roll < 0.10:
            self.add('mr', p, self.name(), pick.randrange(LOCAL // 2 // SLOT), pick.choice((64, 4096, 5000, SLOT)),
                     pick.choice((1 | 2 | 4 | 8 | 16, 1 | 2 | 4 | 8, 1 | 2, 4, 1)))
        elif roll < 0.12:
            mrs = list(self.model.processes[p].mrs)
            if mrs:
                self.add('dereg', p, pick.choice(mrs))
        elif roll < 0.125:
            self.add('kill', p)
        elif roll < 0.14:
            self.add('destroy', pick.choice(conns))
        elif roll < 0.16:
            self.add('again', pick.choice(conns))
        elif roll < 0.17:
            self.add('query', pick.choice(conns), p)
        elif roll < 0.18:
            name = pick.choice(conns)
            self.add('err', name, pick.choice(list(self.model.conns[name].ends)))
        elif roll < 0.195:
            name = pick.choice(conns)
            self.add(pick.choice(('sqd', 'sqd', 'rts')), name, pick.choice(list(self.model.conns[name].ends)))
        elif roll < 0.21:
            self.bind(conns)
        elif roll < 0.24:
            self.settle()
        elif roll < 0.50:
            self.receive(conns, p)
        else:
            self.send(conns)

    def bind(self, conns):
        pick, name = self.random, self.random.choice(conns)
        p = pick.choice(list(self.model.conns[name].ends))
        mrs = list(self.model.processes[p].mrs)
        if mrs:
            self.add('bind', name, p, self.name(), pick.choice(mrs), pick.choice((0, 8, 100)),
                     pick.choice((8, 64, 1000)), pick.choice((2, 4, 2 | 4)))

    def receive(self, conns, p):
        pick = self.random
        if pick.random() < 0.3:
            self.add('recv', pick.choice(list(SRQS)), p, 0)
            return
        name = pick.choice(conns)
        p = pick.choice(list(self.model.conns[name].ends))
        length = pick.choice((0, 64, 1024, 9000, 9000, 9000))
        for _ in range(pick.randrange(1, 5)):
            self.add('recv', name, p, length)

    def send(self, conns):
        pick, name = self.random, self.random.choice(conns)
        conn = self.model.conns[name]
        p = pick.choice(list(conn.ends))
        peer = conn.peer(p)
        op = pick.choice(list(OPCODES) + ['SEND', 'WRITE'])
        target = 'none:0'
        if peer:
            process = self.model.processes[peer.process]
            mws = ['mw:' + mw for mw in process.mws]
            mrs = ['mr:' + mr for mr in process.mrs]
            if pick.random() < 0.04 and mrs:
                target = 'key:' + pick.choice(list(process.mrs))
            elif op == 'SEND_INV' and mws:
                target = pick.choice(mws)
            elif mrs or mws:
                target = pick.choice(mrs + mws)
            if pick.random() < 0.02:
                target = 'lkey'
        flags = pick.choice((SIGNALED, SIGNALED, SIGNALED, 0)) | pick.choice((0, FENCE)) | \
            pick.choice((0, SOLICITED))
        length = pick.choice(SIZES)
        if length <= 128 and op not in ('READ', 'CAS', 'FADD') and pick.random() < 0.3:
            flags |= INLINE
        if conn.kind in ('UC', 'UD'):
            flags |= SIGNALED
        for _ in range(pick.choice((1, 1, 2, 5))):
            self.add('send', name, p, op, length, target, pick.choice((0, 0, 8, 64, 4096)), flags,
                     pick.randrange(1 << 32), pick.randrange(1 << 40))


def imagine(model):
    """Completions as expected, for the generator: receives are taken in order."""
    for conn in model.conns.values():
        for p, end in conn.ends.items():
            peer, process = conn.peer(p), model.processes[p]
            end.landed, end.came, queue = [], [], list(end.receives)
            failing = False
            for r in (peer.requests if peer and peer.state == 3 and not peer.cut else []):
                failing = failing or (r.op != 'FLUSHED' and r.status)
                if r.op == 'FLUSHED' or failing or not model.takes(conn, r):
                    continue
                srq = process.srqs[conn.srq] if conn.srq else None
                if srq and srq.receives:
                    srq.receives.pop(min(srq.receives))
                    srq.promised -= 1
                elif queue:
                    queue.pop(0)
            if any(r.op != 'FLUSHED' and r.peer_status for r in (peer.requests if peer else [])) and queue:
                queue.pop(0)
            end.queue = [] if model.flushed(conn, p, end) else queue


def generate(seed, processes, count):
    generator = Generator(seed, processes)
    for p in range(processes):
        for _ in range(3):
            generator.add('mr', p, generator.name(), generator.random.randrange(16), SLOT, 31)
    while len(generator.steps) < count:
        generator.step()
    generator.settle()
    return generator.steps


# ---- execution ----

class Worker:
    def __init__(self, command, env):
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=env)
        self.buffer = b''

    def tell(self, *words):
        try:
            self.process.stdin.write((' '.join(str(word) for word in words) + '\n').encode())
            self.process.stdin.flush()
        except BrokenPipeError:
            raise Failure('a process ended with %s' % self.process.wait()) from None

    def line(self, limit_s):
        """One line of its answer."""
        end = time.monotonic() + limit_s
        with selectors.DefaultSelector() as selector:
            selector.register(self.process.stdout, selectors.EVENT_READ)
            while b'\n' not in self.buffer:
                if not selector.select(max(0, end - time.monotonic())):
                    raise Failure('a call has not returned after %d s' % limit_s)
                more = os.read(self.process.stdout.fileno(), 1 << 16)
                if not more:
                    raise Failure('a process ended with %s' % self.process.wait())
                self.buffer += more
        line, _, self.buffer = self.buffer.partition(b'\n')
        return line.decode().split()

    def end(self, kill=False):
        if kill:
            self.process.kill()
        else:
            self.process.stdin.close()
            try:
                self.process.wait(60)
            except subprocess.TimeoutExpired:
                self.process.kill()
        self.process.stdout.close()
        if kill:
            self.process.stdin.close()
        return self.process.wait()


class Walk:
    """One run of a program."""

    def __init__(self, command, env, processes, patience_s, plant=None):
        self.command, self.env, self.patience_s, self.plant = command, env, patience_s, plant
        self.model = Model(processes)
        self.workers = [self.start(p == 0) for p in range(processes)]
        self.keys = [{} for _ in range(processes)]      # name: (lkey, rkey); 'mw:' + name: rkey
        self.bases = [0] * processes
        self.local = [0] * processes
        self.numbers = {}                               # (process, QP number): connection
        self.at = {}
        self.count = {'requests': 0, 'completions': 0, 'steps': 0}
        for p in range(processes):
            self.prepare(p)

    def start(self, first=False):
        return Worker(self.command + ([self.plant] if self.plant and first else []), self.env)

    def prepare(self, p):
        """A region over all of a process, for what is local; number 63 of its worker."""
        answer = self.call(p, 'mr', 63, 0, 1 << 20, 1)
        self.local[p], self.bases[p] = int(answer[1]), int(answer[3])

    def call(self, p, *words, want=0):
        self.workers[p].tell(*words)
        answer = self.workers[p].line(self.patience_s + 30)
        if answer[0] != str(want):
            raise Failure('process %d: %s gave %s' % (p, ' '.join(map(str, words)), ' '.join(answer)[:100]))
        return answer

    def run(self, steps):
        for number, step in enumerate(steps):
            words = step.split()
            known = self.model.apply(words)
            if known is None:
                continue
            self.count['steps'] += 1
            try:
                getattr(self, 'do_' + words[0])(known, *words[1:])
            except Failure as failure:
                failure = Failure('step %d (%s): %s' % (number + 1, step, failure))
                failure.step = number + 1
                raise failure from None
        return self.count

    def end(self):
        codes = [worker.end() for worker in self.workers]
        if any(codes):
            raise Failure('processes ended with %s' % codes)

    def kill(self):
        for worker in self.workers:
            worker.end(kill=True)

    # ---- steps ----

    def do_mr(self, known, p, name, slot, length, access):
        p = int(p)
        answer = self.call(p, 'mr', name, known['offset'], known['length'], access)
        self.keys[p]['mr:' + name] = int(answer[2])

    def do_dereg(self, known, p, name):
        self.call(int(p), 'dereg', name)

    def do_pair(self, known, name, kind, a, b, rnr, mtu, srq, how):
        a, b, at = int(a), int(b), int(name)
        if how == 'cm':
            port = self.call(b, 'cm_listen')[1]
            first = self.call(a, 'cm_connect', at, port)
            second = self.call(b, 'cm_accept', at)
            self.call(a, 'cm_established')
            self.call(b, 'cm_established')
        else:
            first = self.call(a, 'qp', at, KINDS[kind][0], srq)
            second = self.call(b, 'qp', at, KINDS[kind][1], srq)
            self.at[name] = [(a, second, rnr, mtu), (b, first, rnr, mtu)]
            self.connect(name)
        self.numbers[a, int(first[1])] = self.numbers[b, int(second[1])] = name

    def connect(self, name):
        for p, (_, qpn, gid, srqn), rnr, mtu in self.at[name]:
            self.call(p, 'connect', name, qpn, gid, rnr, mtu, srqn)

    def do_again(self, known, name):
        # Both are reset before one of them sends.
        for p in known['ends']:
            self.call(p, 'state', name, 0)
        self.connect(name)

    def do_destroy(self, known, name):
        for p in known['ends']:
            self.call(p, 'destroy', name)
        self.numbers = {key: value for key, value in self.numbers.items() if value != name}

    def do_query(self, known, name, p):
        state = self.call(int(p), 'query', name)[1]
        if int(state) != known['state']:
            raise Failure('the QP is in state %s, not %d' % (state, known['state']))

    def do_recv(self, known, name, p, length):
        p = int(p)
        self.call(p, 'recv', SRQS.get(name, name), known['id'], known['offset'], known['length'],
                  self.local[p])

    def do_send(self, known, name, p, op, length, target, at, flags, imm, extra):
        p = int(p)
        peer = self.model.conns[name].peer(p)
        q = peer.process if peer else p
        key = self.keys[q].get(target.replace('key:', 'mr:'), 0) ^ (0x55 if target.startswith('key:') else 0)
        process = self.model.processes[q]
        kind, _, thing = target.partition(':')
        start = at = int(at)
        if kind in ('mr', 'key') and thing in process.mrs:
            start += process.mrs[thing].offset
        elif kind == 'mw' and thing in process.mws:
            start += process.mws[thing].offset
        lkey = self.local[p] ^ (0x77 if known['bad'] else 0)
        atomic = op in ('CAS', 'FADD')
        self.count['requests'] += 1
        self.call(p, 'send', name, known['id'], OPCODES[op], flags, known['offset'], known['length'], lkey,
                  self.bases[q] + start, key, key if op == 'SEND_INV' else imm,
                  extra if atomic else 0, imm if atomic else 0,
                  0 if op in ('READ', 'CAS', 'FADD') else known['seed'])

    def do_bind(self, known, name, p, mw, mr, offset, length, access):
        p = int(p)
        answer = self.call(p, 'bind', name, known['id'], mw, mr, known['offset'], known['length'], access)
        self.keys[p]['mw:' + mw] = int(answer[1])

    def do_err(self, known, name, p):
        self.call(int(p), 'state', name, 6)

    def do_sqd(self, known, name, p):
        self.call(int(p), 'state', name, 4)

    def do_rts(self, known, name, p):
        self.call(int(p), 'resume', name)

    def do_kill(self, known, p):
        p = int(p)
        self.workers[p].end(kill=True)
        self.workers[p] = self.start()
        self.keys[p] = {}
        self.numbers = {key: value for key, value in self.numbers.items() if key[0] != p}
        self.prepare(p)

    def do_settle(self, known):
        for name, p in self.model.drained():
            self.model.step_rts(name, p)
            self.do_rts(known, name, p)
        for name, p in list(self.model.closing()):
            known = self.model.close(name, p)
            self.call(p, 'send', name, known['id'], 0, SIGNALED, 0, 0, self.local[p], 0, 0, 0, 0, 0, 0)
        for p, worker in enumerate(self.workers):
            worker.tell('settle', *self.model.expected(p), int(self.patience_s * 1000))
        found = [self.completions(p) for p in range(len(self.workers))]
        wrong = []
        for p, wcs in enumerate(found):
            self.count['completions'] += len(wcs)
            wrong += self.model.judge(p, wcs, {n: name for (q, n), name in self.numbers.items() if q == p})
        if wrong:
            raise Failure('; '.join(wrong))
        for p, at, data in self.model.finish():
            self.compare(p, at, data, bytes(len(data)), 'what was received or read')
        for p, process in enumerate(self.model.processes):
            for name, region in process.mrs.items():
                end = region.offset + region.length
                self.compare(p, region.offset, process.memory[region.offset:end],
                             process.unknown[region.offset:end], 'region %s' % name)

    def completions(self, p):
        wcs = []
        while True:
            line = self.workers[p].line(self.patience_s + 30)
            if line == ['.']:
                return wcs
            wcs.append(tuple(int(word) for word in line))

    def compare(self, p, at, data, unknown, what):
        if not data:
            return
        got = bytes.fromhex(self.call(p, 'dump', at, len(data))[1])
        for i, byte in enumerate(got):
            if byte != data[i] and not unknown[i]:
                raise Failure('process %d: %s: byte %d of %d (at %d) is 0x%02x, not 0x%02x' %
                              (p, what, i, len(data), at, byte, data[i]))


# ---- shrinking ----

def shrink(steps, fails, limit_s):
    """A smaller program for which fails() still holds (it answers the number of the step that failed, or None):
    what follows that step is left out, then all of a connection, then lines, ever fewer at a time."""
    end = time.monotonic() + limit_s

    def try_without(without):
        if not without or time.monotonic() >= end:
            return None
        number = fails(without)
        return without[:number] if number else None

    steps = try_without(steps) or steps
    for name in {step.split()[1] for step in steps if step.startswith('pair ')}:
        steps = try_without([step for step in steps if step.split()[:2] != ['pair', name] and
                             (step.split()[0] not in OF_CONNECTIONS or step.split()[1] != name)]) or steps
    size = max(1, len(steps) // 2)
    while time.monotonic() < end:
        at, smaller = 0, False
        while at < len(steps) and time.monotonic() < end:
            found = try_without(steps[:at] + steps[at + size:])
            steps, smaller = found or steps, smaller or bool(found)
            at += 0 if found else size
        if size == 1 and not smaller:
            break
        size = max(1, size // 2)
    return steps


assert BATCH < 48
