# SPDX-License-Identifier: BSD-2-Clause
"""
What the specification lets happen in a walk: an abstract machine of processes, regions, windows, connections,
requests and receives, written from IBTA chapters 9 to 11 and the manual pages alone. It imports nothing of
the library and reads none of its tables.

A step is a line of words. allows(step) says whether it is legal now; a walk leaves out what is not, so
that any subset of the lines of a program is a program. Between two `settle` requests are in flight; what
follows from them is decided there: judge() compares it with what came.

Legal is only what has one outcome, or few. So within one batch (between two settles):
- a region is used by one connection, and a WRITE or atomic behind a READ of the same region is fenced;
- a request that must fail comes last on its connection, and the other side has sent nothing;
- a QP in SQD, which is left before the settle, has no request before it that fails, nor one of its peer's that
  would end it;
- of XRC the first process of a connection sends, and the other's SRQ of XRC takes;
- what ends in the middle (a QP moved to ERR, a process killed) has sent without an answer: a first part of it
  has completed, the rest has not; the memory it named is unknown from then on.
"""

SUCCESS, LEN, PROT, FLUSH, INVALID, ACCESS, RETRY, RNR = 0, 1, 4, 5, 9, 10, 12, 13
SENDING = {'SEND': 2, 'SEND_IMM': 3, 'SEND_INV': 9}     # opcodes of enum ibv_wr_opcode
OPCODES = dict(SENDING, WRITE=0, WRITE_IMM=1, READ=4, CAS=5, FADD=6)
DONE = {'WRITE': 1, 'WRITE_IMM': 1, 'READ': 2, 'CAS': 3, 'FADD': 4, 'BIND': 5}     # of enum ibv_wc_opcode
RECV, RECV_IMM = 128, 129
RIGHTS = {'WRITE': 2, 'WRITE_IMM': 2, 'READ': 4, 'CAS': 8, 'FADD': 8}
FENCE, SIGNALED, SOLICITED, INLINE = 1, 2, 4, 8
RTS, SQD, ERR = 3, 4, 6
SLOT, LOCAL, MEMORY = 16384, 1 << 19, 1 << 20
SRQ_BYTES, RECEIVE, GRH, BATCH = 4096, 12288, 40, 24


def pattern(length, seed):
    return bytes((seed * 31 + i * 7 + (i >> 8) * 13) & 255 for i in range(length))


class SharedQueue:
    def __init__(self):
        self.receives = {}              # wr_id: offset
        self.promised = 0               # of them requests in flight may take so many


class Process:
    def __init__(self):
        self.memory = bytearray(MEMORY)
        self.unknown = bytearray(MEMORY)
        self.mrs, self.mws, self.slots = {}, {}, set()
        self.srqs = {'srq': SharedQueue(), 'xrc': SharedQueue()}
        self.bump = LOCAL

    def room(self, length):
        """An offset for a buffer that lives until the next settle; None: there is no room."""
        at = self.bump
        if at + length > MEMORY:
            return None
        self.bump += (length + 63) // 64 * 64
        return at


class Region:
    def __init__(self, offset, length, access):
        self.offset, self.length, self.access = offset, length, access
        self.user, self.read, self.windows = None, False, 0


class Window:
    def __init__(self, conn, mr, offset, length, access):
        self.conn, self.mr, self.offset, self.length, self.access = conn, mr, offset, length, access
        self.bound, self.user = False, None


class End:
    def __init__(self, process):
        self.process, self.state = process, RTS
        self.receives, self.requests = [], []
        self.cut, self.starved, self.sqd = False, False, False
        self.late = []                  # receives that may still complete, of requests that were cut


class Connection:
    def __init__(self, kind, processes, rnr, srq, how):
        self.kind, self.rnr, self.how = kind, rnr, how
        self.srq = 'xrc' if kind == 'XRC' else 'srq' if srq else None      # that its receives are taken from
        self.sender = processes[0] if kind == 'XRC' else None           # alone; None: both
        self.ends = {p: End(p) for p in processes}
        self.closed = False             # nothing more in this batch
        self.windows = False

    def peer(self, process):
        return next((e for p, e in self.ends.items() if p != process), None)


class Request:
    status, peer_status, peer_state, fatal, signaled = SUCCESS, None, RTS, False, True
    region, window, start, length, flags = None, None, None, 0, 0

    def __init__(self, **fields):
        self.__dict__.update(fields)


class Model:
    def __init__(self, processes):
        self.processes = [Process() for _ in range(processes)]
        self.conns = {}
        self.next_id = 1
        self.lost = 0                   # datagrams and messages of UC that did not come: allowed, and counted

    # ---- steps: each returns what the conductor needs, or None: it is not legal now ----

    def apply(self, words):
        handler = getattr(self, 'step_' + words[0], None)
        return handler(*words[1:]) if handler else None

    def step_mr(self, p, name, slot, length, access):
        process, slot, length = self.processes[int(p)], int(slot), int(length)
        if name in process.mrs or slot in process.slots or not 0 < length <= SLOT or slot >= LOCAL // 2 // SLOT:
            return None
        process.mrs[name] = Region(slot * SLOT, length, int(access))
        process.slots.add(slot)
        return {'offset': slot * SLOT, 'length': length, 'access': int(access)}

    def step_dereg(self, p, name):
        process = self.processes[int(p)]
        region = process.mrs.get(name)
        if not region or region.user or region.windows:
            return None
        del process.mrs[name]
        process.slots.remove(region.offset // SLOT)
        return {}

    def step_pair(self, name, kind, a, b, rnr, mtu, srq, how):
        a, b, srq = int(a), int(b), int(srq)
        if name in self.conns or a == b or (kind != 'RC' and (srq or how == 'cm')) or \
           (how == 'cm' and (srq or rnr != '7')) or ((srq or kind == 'XRC') and rnr != '7'):
            return None
        self.conns[name] = Connection(kind, (a, b), int(rnr), srq, how)
        return {'a': a, 'b': b, 'kind': kind, 'rnr': rnr, 'mtu': mtu, 'srq': srq, 'how': how}

    def is_quiet(self, conn):
        return not any(end.requests or end.cut for end in conn.ends.values())

    @staticmethod
    def is_late(conn):
        """What a killed peer has sent may still come to the SRQ."""
        return conn.srq and any(end.late for end in conn.ends.values())

    def step_again(self, name):
        """Both QPs by RESET to RTS."""
        conn = self.conns.get(name)
        if not conn or conn.how == 'cm' or len(conn.ends) != 2 or not self.is_quiet(conn) or conn.windows or \
           self.is_late(conn):
            return None
        for end in conn.ends.values():
            end.state, end.receives, end.late, end.sqd = RTS, [], [], False
        return {'ends': list(conn.ends)}

    def step_destroy(self, name):
        conn = self.conns.get(name)
        # With an XRC QP, which has no CQ, no completion is purged.
        if not conn or not self.is_quiet(conn) or conn.windows or conn.kind == 'XRC' and self.is_late(conn):
            return None
        del self.conns[name]
        return {'ends': list(conn.ends)}

    def step_query(self, name, p):
        conn = self.conns.get(name)
        end = conn and conn.ends.get(int(p))
        return {'state': SQD if end.sqd else end.state} if end and self.is_quiet(conn) else None

    def step_recv(self, name, p, length):
        process, length = self.processes[int(p)], int(length)
        if name in process.srqs:
            receives = process.srqs[name].receives
            if len(receives) >= 24:
                return None
            at = self.keep(process, SRQ_BYTES)
            if at is None:
                return None
            receives[self.next_id] = at
            return self.numbered({'offset': at, 'length': SRQ_BYTES})
        conn = self.conns.get(name)
        end = conn and conn.ends.get(int(p))
        if not end or conn.srq or conn.closed or end.starved or end.cut or len(end.receives) >= 48:
            return None
        length += GRH if conn.kind == 'UD' else 0
        at = self.keep(process, length)
        if at is None:
            return None
        end.receives.append((self.next_id, at, length))
        if end.state == ERR:            # it is flushed at once
            end.receives.pop()
            end.requests.append(Request(op='FLUSHED', id=self.next_id, signaled=True))
        return self.numbered({'offset': at, 'length': length})

    def keep(self, process, length):
        """Of receives, which outlive a settle: a ring of slots in the second quarter."""
        used = {at for srq in process.srqs.values() for at in srq.receives.values()}
        for conn in self.conns.values():
            for end in conn.ends.values():
                if self.processes[end.process] is process:
                    used.update(at for _, at, _ in end.receives)
        for at in range(LOCAL // 2, LOCAL - RECEIVE + 1, RECEIVE):
            if at not in used and length <= RECEIVE:
                return at
        return None

    def numbered(self, answer):
        answer['id'] = self.next_id
        self.next_id += 1
        return answer

    def target(self, process, words, op, length, at):
        """(status, start): what the peer says to the key; the region or window that is touched."""
        kind, _, name = words.partition(':')
        if kind == 'mw':
            window = process.mws[name]
            good = window.bound and window.access & RIGHTS[op] and at + length <= window.length
            return good, window.offset + at, window
        region = process.mrs[name]
        good = kind == 'mr' and region.access & RIGHTS[op] and at + length <= region.length
        return good, region.offset + at, region

    def step_send(self, name, p, op, length, target, at, flags, imm, extra):
        conn = self.conns.get(name)
        p, length, at, flags, imm, extra = int(p), int(length), int(at), int(flags), int(imm), int(extra)
        end = conn and conn.ends.get(p)
        if not end or conn.closed or end.cut or len(end.requests) >= BATCH or \
           conn.sender not in (None, p) or (conn.kind == 'XRC' and op == 'SEND_INV') or \
           (conn.kind not in ('RC', 'XRC') and
               (op in ('READ', 'CAS', 'FADD', 'SEND_INV') or not flags & SIGNALED)) or \
           (conn.kind == 'UD' and (op not in ('SEND', 'SEND_IMM') or length > 1000)):
            return None
        if flags & INLINE and (length > 128 or op in ('READ', 'CAS', 'FADD')) or length > 9000:
            return None
        request = Request(op=op, length=length, flags=flags, imm=imm, extra=extra, target=target, at=at,
                          signaled=bool(flags & SIGNALED), status=SUCCESS, peer_status=None, id=self.next_id,
                          fatal=False, start=None, window=None, region=None)
        if op in ('CAS', 'FADD'):
            request.length = length = 8
        if end.state == RTS:
            peer = conn.peer(p)
            known = self.gone(conn, end, peer, request) if not peer or peer.state != RTS else \
                self.plan(conn, end, peer, request)
            if not known:
                return None
        else:
            request.status = FLUSH
        where = self.processes[p].room(max(length, 8))
        if where is None:
            return None
        self.reserve(conn, end, request)
        request.offset = where
        end.requests.append(request)
        if request.fatal:
            conn.closed = True
        return self.numbered({'offset': where, 'length': length, 'seed': request.id, 'op': op,
                              'bad': target == 'lkey'})

    def gone(self, conn, end, peer, request):
        """The peer's QP does not answer any more."""
        if conn.kind in ('UC', 'UD'):
            return request.op in ('SEND', 'SEND_IMM') and request.target != 'lkey'
        # rdma_cm chooses a timeout of seconds: its connections are left alone then.
        if request.op not in ('SEND', 'SEND_IMM') or request.target == 'lkey' or not request.signaled or \
           conn.how == 'cm':
            return False
        request.status, request.fatal = RETRY, True
        return not (peer and peer.requests)

    def plan(self, conn, end, peer, request):
        """Its outcome. False: it has not one, so it is not legal now."""
        op, process = request.op, self.processes[peer.process]
        if request.target == 'lkey':
            if request.flags & INLINE or not request.length or conn.kind not in ('RC', 'XRC'):
                return False
            return self.fails(conn, peer, request, PROT)
        if op == 'SEND_INV':
            kind, _, name = request.target.partition(':')
            window = process.mws.get(name) if kind == 'mw' else None
            if not window or not window.bound or self.conns.get(window.conn) is not conn or window.user:
                return False
            request.window = window
        elif op in RIGHTS:
            kind, _, name = request.target.partition(':')
            if kind not in ('mr', 'mw', 'key') or name not in (process.mws if kind == 'mw' else process.mrs):
                return False
            good, request.start, thing = self.target(process, request.target, op, request.length, request.at)
            region = thing if kind != 'mw' else process.mrs.get(thing.mr)
            if kind == 'mw' and (not region or not thing.bound or self.conns.get(thing.conn) is not conn or
                                 thing.user == 'ends'):
                return False
            if region.user not in (None, conn) or (region.read and op != 'READ' and not request.flags & FENCE):
                return False
            if op in ('CAS', 'FADD') and request.start % 8:
                return False
            request.region = region
            if not good and not request.length:
                return False            # the specification has no word on keys of nothing
            if not good:
                return conn.kind in ('RC', 'XRC') and op != 'WRITE_IMM' and \
                    self.fails(conn, peer, request, ACCESS, ERR)
        if op in SENDING or op == 'WRITE_IMM':
            return self.plan_receive(conn, peer, request)
        return True

    def plan_receive(self, conn, peer, request):
        if conn.srq:
            srq = self.processes[peer.process].srqs[conn.srq]
            return request.length <= SRQ_BYTES and len(srq.receives) > srq.promised
        taken = sum(r.op in SENDING or r.op == 'WRITE_IMM' for r in conn.peer(peer.process).requests)
        if taken >= len(peer.receives):
            if conn.kind != 'RC' or conn.rnr or request.op == 'WRITE_IMM':
                return False
            peer.starved = True
            return self.fails(conn, peer, request, RNR)
        room = peer.receives[taken][2] - (GRH if conn.kind == 'UD' else 0)
        if request.length <= room or request.op == 'WRITE_IMM':
            return True
        request.peer_status = LEN
        return conn.kind == 'RC' and self.fails(conn, peer, request, INVALID, ERR)

    def fails(self, conn, peer, request, status, peer_state=RTS):
        if peer.requests or peer.sqd:
            return False
        request.status, request.fatal, request.peer_state = status, True, peer_state
        return True

    def reserve(self, conn, end, request):
        if request.region:
            request.region.user = conn
            request.region.read |= request.op == 'READ'
        if request.window and request.op == 'SEND_INV':
            request.window.user = 'ends'
        if conn.srq and request.op in ('SEND', 'SEND_IMM', 'SEND_INV', 'WRITE_IMM') and end.state == RTS and \
           conn.peer(end.process):
            self.processes[conn.peer(end.process).process].srqs[conn.srq].promised += 1

    def step_bind(self, name, p, mw, mr, offset, length, access):
        conn, process = self.conns.get(name), self.processes[int(p)]
        end = conn and conn.ends.get(int(p))
        region = process.mrs.get(mr)
        offset, length, access = int(offset), int(length), int(access)
        if not end or not region or conn.kind != 'RC' or conn.closed or end.cut or end.state != RTS or \
           mw in process.mws or offset + length > region.length or not length or \
           region.user not in (None, conn) or \
           len(end.requests) >= BATCH or len(conn.ends) != 2 or conn.peer(int(p)).state != RTS or \
           not region.access & 16 or (access & ~region.access):
            return None
        window = Window(name, mr, region.offset + offset, length, access)
        process.mws[mw] = window
        region.windows += 1
        conn.windows = True             # such a QP is neither reset nor destroyed
        end.requests.append(Request(op='BIND', id=self.next_id, signaled=True, status=SUCCESS, fatal=False,
                                    binds=window, length=0))
        return self.numbered({'offset': window.offset, 'length': length, 'access': access})

    def step_err(self, name, p):
        conn = self.conns.get(name)
        end = conn and conn.ends.get(int(p))
        peer = conn and conn.peer(int(p))
        if not end or conn.closed or end.state != RTS or (peer and peer.requests) or end.cut or conn.windows or \
           end.sqd or any(not r.signaled for r in end.requests):
            return None
        end.cut = conn.closed = True
        return {}

    def step_sqd(self, name, p):
        """What is begun is finished; the rest waits until the QP is in RTS again."""
        conn = self.conns.get(name)
        end = conn and conn.ends.get(int(p))
        peer = conn and conn.peer(int(p))
        if not peer or conn.closed or conn.sender not in (None, int(p)) or end.sqd or \
           any(e.state != RTS or e.cut for e in (end, peer)) or \
           any(r.fatal for e in (end, peer) for r in e.requests if r.op != 'FLUSHED'):
            return None
        end.sqd = True
        return {}

    def step_rts(self, name, p):
        conn = self.conns.get(name)
        end = conn and conn.ends.get(int(p))
        if not end or not end.sqd or end.cut:
            return None
        end.sqd = False
        return {}

    def step_kill(self, p):
        """Killed, and another one in its place, with nothing."""
        p = int(p)
        for conn in self.conns.values():
            peer = conn.peer(p)
            if p in conn.ends and peer and (peer.requests or peer.sqd or conn.closed):
                return None
        for name, conn in list(self.conns.items()):
            if p not in conn.ends:
                continue
            end, peer = conn.ends.pop(p), conn.peer(p)
            if not peer:
                del self.conns[name]
                continue
            if peer.state == RTS:
                self.leave(conn, end, peer)
            conn.closed = True
        self.processes[p] = Process()
        return {}

    def step_settle(self):
        return {}

    # ---- settle ----

    def drained(self):
        """(connection, process) in SQD: the conductor moves them to RTS."""
        return [(name, p) for name, conn in self.conns.items() for p, end in conn.ends.items() if end.sqd]

    def closing(self):
        """(connection, process) whose last request is not signaled: the conductor adds one that is."""
        for name, conn in self.conns.items():
            for p, end in conn.ends.items():
                if end.requests and not end.requests[-1].signaled:
                    yield name, p

    def close(self, name, p):
        end = self.conns[name].ends[p]
        status = FLUSH if end.state == ERR or any(r.status for r in end.requests if r.op != 'FLUSHED') else SUCCESS
        end.requests.append(Request(op='WRITE', flags=SIGNALED, status=status, id=self.next_id))
        return self.numbered({})

    def expected(self, p):
        """(sends, receives) that have to come to a process."""
        counts = [0, 0]
        for conn in self.conns.values():
            for q, end in conn.ends.items():
                failed = end.state == ERR
                for r in end.requests:
                    if r.op == 'FLUSHED':
                        counts[1] += q == p
                        continue
                    failed = failed or r.status != SUCCESS
                    if q == p:
                        counts[0] += r.signaled or failed or end.cut
                    else:
                        counts[1] += self.takes(conn, r) and not end.cut and not failed and \
                            p in conn.ends and conn.ends[p].state == RTS
                    if q != p and r.peer_status and p in conn.ends:
                        counts[1] += 1
                counts[1] += self.flushed(conn, q, end) if q == p else 0
        return counts

    def takes(self, conn, r):
        return r.op in SENDING or r.op == 'WRITE_IMM'

    def will_fail(self, end):
        return end.state == RTS and (end.cut or any(r.op != 'FLUSHED' and r.status for r in end.requests))

    def flushed(self, conn, p, end):
        """Receives of its own queue that are flushed when it fails, or its peer's request ends it."""
        peer = conn.peer(p)
        if end.state != RTS or conn.srq:
            return 0
        if self.will_fail(end):
            return len(end.receives)
        fatal = peer and next((r for r in peer.requests if r.fatal and r.peer_state == ERR), None)
        if not fatal:
            return 0
        taken = sum(self.takes(conn, r) and r.status == SUCCESS for r in peer.requests) + bool(fatal.peer_status)
        return len(end.receives) - taken

    def judge(self, p, wcs, numbers):
        """What is wrong with the completions of process p; @numbers: QP number -> connection."""
        wrong, order = [], {}
        for queue, wc_id, qpn, status, opcode, length, imm, inv in wcs:
            if qpn not in numbers:
                wrong.append('a completion of unknown qp %d (wr %d)' % (qpn, wc_id))
            else:
                order.setdefault((numbers[qpn], queue), []).append((wc_id, status, opcode, length, imm, inv))
        for name, conn in self.conns.items():
            if p in conn.ends:
                wrong += self.judge_sends(name, conn, p, order.pop((name, 0), []))
                wrong += self.judge_receives(name, conn, p, order.pop((name, 1), []))
        for (name, queue), rest in order.items():
            wrong += ['connection %s is gone, completion %s' % (name, wc) for wc in rest]
        return wrong

    def judge_sends(self, name, conn, p, seen):
        end, wrong, expected = conn.ends[p], [], []
        failed = end.state == ERR
        for r in end.requests:
            if r.op == 'FLUSHED':
                continue
            status = FLUSH if failed else r.status
            failed = failed or status != SUCCESS
            if r.signaled or status:
                expected.append((r.id, status, DONE.get(r.op, 0), r))
        got = [(wc_id, status) for wc_id, status, *_ in seen]
        if end.cut:
            k = next((i for i, (_, status) in enumerate(got) if status), len(got))
            allowed = [(i, SUCCESS if n < k else FLUSH) for n, (i, *_) in enumerate(expected)]
        else:
            allowed = [(i, status) for i, status, *_ in expected]
        if got != allowed:
            wrong.append('connection %s, process %d, sends: expected %s, got %s' % (name, p, allowed, got))
            return wrong
        for (_, status, opcode, length, _, _), (i, _, done, r) in zip(seen, expected):
            if status == SUCCESS and opcode != done:
                wrong.append('connection %s, process %d, wr %d: opcode %d, not %d' % (name, p, i, opcode, done))
            if status == SUCCESS and r.op == 'READ' and length != r.length:
                wrong.append('connection %s, process %d, wr %d: byte_len %d, not %d' %
                             (name, p, i, length, r.length))
        return wrong

    def judge_receives(self, name, conn, p, seen):
        end, peer, process, wrong = conn.ends[p], conn.peer(p), self.processes[p], []
        sent, late = [], end.late
        if peer and peer.state == RTS and end.state == RTS:
            for r in peer.requests:
                if r.op != 'FLUSHED' and r.status:
                    break
                if r.op != 'FLUSHED' and self.takes(conn, r):
                    sent.append(r)
        fatal = peer and next((r for r in peer.requests if r.op != 'FLUSHED' and r.peer_status), None)
        certain = [] if peer and peer.cut else sent
        possible = late + (sent if peer and peer.cut else [])
        got = list(seen)
        end.landed, end.came = [], []
        queue, refused = list(end.receives), 0
        for r in certain + possible:
            if not got or got[0][1] == FLUSH or (got[0][1] and r in certain):
                if r in certain and conn.kind in ('RC', 'XRC'):
                    return ['connection %s, process %d: the receive of wr %d is missing, got %s' %
                            (name, p, r.id, seen)]
                self.lost += r in certain
                break
            if r in certain and conn.kind in ('UC', 'UD') and got[0][4] != (r.imm if 'IMM' in r.op else 0) and \
               r.length != got[0][3] - (GRH if conn.kind == 'UD' else 0):
                self.lost += 1
                continue
            wc_id, status, opcode, length, imm, inv = got.pop(0)
            if conn.srq:
                at = process.srqs[conn.srq].receives.pop(wc_id, None)
                process.srqs[conn.srq].promised -= 1
                ok = at is not None
            else:
                i, at, _ = queue.pop(0) if queue else (None, None, None)
                ok = wc_id == i
            want = (SUCCESS, RECV_IMM if r.op == 'WRITE_IMM' else RECV,
                    r.length + (GRH if conn.kind == 'UD' else 0), r.imm if 'IMM' in r.op else 0,
                    8 if r.op == 'SEND_INV' else 0)
            if not ok or (status, opcode, length, imm, inv) != want:
                wrong.append('connection %s, process %d, receive %d of wr %d: got %s, expected %s' %
                             (name, p, wc_id, r.id, (status, opcode, length, imm, inv), want))
            end.came.append(r)
            if not wrong and r.op != 'WRITE_IMM':
                end.landed.append((r, at + (GRH if conn.kind == 'UD' else 0)))
        if fatal and not wrong:
            i, _, _ = queue.pop(0)
            if not got or got[0][:2] != (i, LEN):
                wrong.append('connection %s, process %d: receive %d should fail with %d, got %s' %
                             (name, p, i, LEN, got))
            else:
                got.pop(0)
        flushes = [r.id for r in end.requests if r.op == 'FLUSHED']
        if self.flushed(conn, p, end):
            flushes += [i for i, _, _ in queue]
            queue = []
        if not wrong and [(wc[0], wc[1]) for wc in got] != [(i, FLUSH) for i in flushes]:
            wrong.append('connection %s, process %d, receives: flushed should be %s, got %s' %
                         (name, p, flushes, got))
        end.queue = queue
        return wrong

    def finish(self):
        """After all were judged: the effects, and the states that follow. Yields what memory has to hold:
        (process, offset, bytes)."""
        checks = []
        for conn in self.conns.values():
            for p, end in conn.ends.items():
                self.effects(conn, p, end, checks)
        for conn in self.conns.values():
            for p, end in conn.ends.items():
                peer = conn.peer(p)
                ends_peer = any(r.fatal and r.peer_state == ERR for r in end.requests
                                if r.op != 'FLUSHED')
                if self.will_fail(end):
                    end.next = ERR
                if ends_peer and peer:
                    peer.next = ERR
        for conn in self.conns.values():
            for end in conn.ends.values():
                end.state = end.__dict__.pop('next', end.state)
                end.receives = getattr(end, 'queue', end.receives)
                end.requests, end.cut, end.starved = [], False, False
                end.late = [r for r in end.late if r not in getattr(end, 'came', [])]
            conn.closed = False
        for process in self.processes:
            process.bump = LOCAL
            for region in process.mrs.values():
                region.user, region.read = None, False
        return checks

    def effects(self, conn, p, end, checks):
        peer = conn.peer(p)
        mine, theirs = self.processes[p], peer and self.processes[peer.process]
        if end.state == RTS and peer and end.cut:
            self.leave(conn, end, peer)
        if end.state != RTS or not peer or end.cut:
            pass
        else:
            for r in end.requests:
                if r.op == 'FLUSHED':
                    continue
                if r.status:
                    break
                self.effect(conn, r, mine, theirs, p, peer, checks)
        for r, at in getattr(end, 'landed', []):
            data = pattern(r.length, r.id)
            mine.memory[at:at + r.length] = data
            checks.append((p, at, data))

    def effect(self, conn, r, mine, theirs, p, peer, checks):
        if r.op == 'BIND':
            r.binds.bound = True
        elif r.op == 'SEND_INV':
            r.window.bound = False
        elif r.op in ('WRITE', 'WRITE_IMM') and r.length:
            theirs.memory[r.start:r.start + r.length] = pattern(r.length, r.id)
            # Of UC it may be lost, unless its immediate data has come.
            theirs.unknown[r.start:r.start + r.length] = \
                (b'\1' if conn.kind == 'UC' and r.op == 'WRITE' else b'\0') * r.length
        elif r.op == 'READ' and r.length:
            known = not any(theirs.unknown[r.start:r.start + r.length])
            if known:
                checks.append((p, r.offset, bytes(theirs.memory[r.start:r.start + r.length])))
        elif r.op in ('CAS', 'FADD'):
            old = int.from_bytes(theirs.memory[r.start:r.start + 8], 'little')
            if any(theirs.unknown[r.start:r.start + 8]):
                theirs.unknown[r.start:r.start + 8] = b'\1' * 8
                return
            new = (old + r.extra) % (1 << 64) if r.op == 'FADD' else (r.imm if old == r.extra else old)
            theirs.memory[r.start:r.start + 8] = new.to_bytes(8, 'little')
            checks.append((p, r.offset, old.to_bytes(8, 'little')))

    def leave(self, conn, end, peer):
        """Requests of @end that were cut: what they name is unknown, what they send may come late."""
        process = self.processes[peer.process]
        come = [r for r, _ in getattr(peer, 'landed', [])]
        peer.late = [r for r in peer.late + end.requests if r.op != 'FLUSHED' and self.takes(conn, r) and
                     r not in come and r not in getattr(peer, 'came', [])]
        for r in end.requests:
            if r.op in ('WRITE', 'WRITE_IMM', 'CAS', 'FADD') and r.region:
                process.unknown[r.start:r.start + r.length] = b'\1' * r.length
                r.region.user = None
