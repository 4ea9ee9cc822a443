#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause
"""ops.py DEVICE GIDINDEX MTU PORT          serve
ops.py DEVICE GIDINDEX MTU PORT HOST     drive: run every operation against the server, both ways

Two processes, each with its own RDMA stack, through python3-pyverbs. The one that drives tells the
other over TCP what to post, and checks at both ends: status, length, flags and every byte. Sizes
lie around words and the path MTU; then come the requests that must be refused. Prints TAP."""
import json
import socket
import sys
import time

import pyverbs.enums as e
from pyverbs.addr import AH, AHAttr, GID, GlobalRoute
from pyverbs.cq import CQ
from pyverbs.device import Context
from pyverbs.mr import MR, MW, MWBindInfo
from pyverbs.pd import PD
from pyverbs.qp import QP, QPAttr, QPCap, QPInitAttr
from pyverbs.wr import SGE, RecvWR, SendWR

LEN = 65536
IN = 32768                      # where receives go; sends and RDMA use what is before
QKEY = 0x11111111
PATH_MTU = {256: 1, 512: 2, 1024: 3, 2048: 4, 4096: 5}
ACCESS = (e.IBV_ACCESS_LOCAL_WRITE | e.IBV_ACCESS_REMOTE_WRITE | e.IBV_ACCESS_REMOTE_READ
          | e.IBV_ACCESS_REMOTE_ATOMIC)
KINDS = {'RC': e.IBV_QPT_RC, 'UC': e.IBV_QPT_UC, 'UD': e.IBV_QPT_UD}
OPS = {'SEND': e.IBV_WR_SEND, 'SEND_IMM': e.IBV_WR_SEND_WITH_IMM, 'WRITE': e.IBV_WR_RDMA_WRITE,
       'WRITE_IMM': e.IBV_WR_RDMA_WRITE_WITH_IMM, 'READ': e.IBV_WR_RDMA_READ,
       'FETCH_ADD': e.IBV_WR_ATOMIC_FETCH_AND_ADD, 'CMP_SWAP': e.IBV_WR_ATOMIC_CMP_AND_SWP,
       'SEND_INV': e.IBV_WR_SEND_WITH_INV}
STATUS = {'SUCCESS': 0, 'LOC_LEN_ERR': 1, 'LOC_QP_OP_ERR': 2, 'LOC_PROT_ERR': 4, 'WR_FLUSH_ERR': 5,
          'REM_INV_REQ_ERR': 9, 'REM_ACCESS_ERR': 10, 'REM_OP_ERR': 11, 'RETRY_EXC_ERR': 12,
          'RNR_RETRY_EXC_ERR': 13}
NAMES = {v: k for k, v in STATUS.items()}


def pattern(seed, size):
    return bytes((seed * 37 + i * 7 + (i >> 8)) & 0xff for i in range(size))


class End:
    """One end: a device, a region, one QP at a time. Arguments and results are plain values."""

    def __init__(self, device, gid_index, mtu):
        self.context = Context(name=device)
        self.gid_index, self.mtu, self.device = gid_index, mtu, device
        self.gid = self.context.query_gid(1, gid_index)
        self.pd = PD(self.context)
        self.cq = CQ(self.context, 128)
        self.mr = MR(self.pd, LEN, ACCESS | e.IBV_ACCESS_MW_BIND)
        self.qp = self.mw = self.ah = None

    def about(self):
        return {'gid': str(self.gid), 'rkey': self.mr.rkey, 'address': self.mr.buf,
                'rxe': self.device.startswith('rxe')}

    def create(self, kind):
        self.close_qp()
        cap = QPCap(max_send_wr=32, max_recv_wr=32, max_send_sge=2, max_recv_sge=2)
        self.qp = QP(self.pd, QPInitAttr(qp_type=KINDS[kind], scq=self.cq, rcq=self.cq, cap=cap,
                                         sq_sig_all=1))
        return self.qp.qp_num

    def connect(self, kind, gid, qpn, psn, peer_psn, rnr_retry=7, retry=7, timeout=14):
        address = AHAttr(gr=GlobalRoute(dgid=GID(gid), sgid_index=self.gid_index), is_global=1,
                         port_num=1)
        attr = QPAttr(port_num=1)
        attr.qp_access_flags = ACCESS if kind == 'RC' else (e.IBV_ACCESS_LOCAL_WRITE
                                                            | e.IBV_ACCESS_REMOTE_WRITE)
        attr.path_mtu, attr.dest_qp_num = PATH_MTU[self.mtu], qpn
        attr.rq_psn, attr.sq_psn, attr.ah_attr = peer_psn, psn, address
        attr.max_dest_rd_atomic = attr.max_rd_atomic = 4
        attr.min_rnr_timer, attr.timeout = 12, timeout
        attr.retry_cnt, attr.rnr_retry = retry, rnr_retry
        attr.qkey = QKEY
        self.qp.to_rts(attr)
        self.ah = AH(self.pd, attr=address) if kind == 'UD' else None
        self.peer_qpn = qpn

    def close_qp(self):
        for thing in (self.qp, self.mw, self.ah):
            if thing:
                thing.close()
        self.qp = self.mw = self.ah = None

    def write(self, offset, seed, size):
        if size:
            self.mr.write(pattern(seed, size), size, offset)

    def matches(self, offset, seed, size, skip=0):
        """Is there this pattern, from its byte @skip on?"""
        return size <= skip or self.mr.read(size, offset)[skip:] == pattern(seed, size)[skip:]

    def put(self, offset, value):
        self.mr.write(value.to_bytes(8, sys.byteorder), 8, offset)

    def get(self, offset):
        return int.from_bytes(self.mr.read(8, offset), sys.byteorder)

    def recv(self, size, count=1):
        for _ in range(count):
            self.qp.post_recv(RecvWR(num_sge=1, sg=[SGE(self.mr.buf + IN, size, self.mr.lkey)]))

    def send(self, op, size, address=None, rkey=None, imm=None, add=0, swap=0, qkey=None):
        """Post one request: '' or why it was refused."""
        wr = SendWR(opcode=OPS[op], num_sge=1, sg=[SGE(self.mr.buf, size, self.mr.lkey)],
                    send_flags=e.IBV_SEND_SIGNALED)
        if imm is not None:
            wr.imm_data = imm
        if self.ah:
            wr.set_wr_ud(self.ah, self.peer_qpn, QKEY if qkey is None else qkey)
        elif op in ('FETCH_ADD', 'CMP_SWAP'):
            wr.set_wr_atomic(rkey, address, add, swap)
        elif address is not None:
            wr.set_wr_rdma(rkey, address)
        try:
            self.qp.post_send(wr)
        except Exception as why:            # pyverbs raises a class of its own for each
            return str(why)
        return ''

    def bind(self, size):
        """Bind a window of type 2 to the start of the region: its key."""
        self.mw = MW(self.pd, e.IBV_MW_TYPE_2)
        wr = SendWR(opcode=e.IBV_WR_BIND_MW, send_flags=e.IBV_SEND_SIGNALED)
        wr.set_bind_wr(self.mw, MWBindInfo(self.mr, self.mr.buf, size, e.IBV_ACCESS_REMOTE_WRITE))
        self.qp.post_send(wr)
        return wr.rkey

    def poll(self, count=1, seconds=20):
        """Completions: [status, length, immediate or None]; fewer than @count after @seconds."""
        out, until = [], time.monotonic() + seconds
        while len(out) < count and time.monotonic() < until:
            for wc in self.cq.poll(count - len(out))[1]:
                imm = wc.imm_data if wc.wc_flags & e.IBV_WC_WITH_IMM else None
                out.append([NAMES.get(wc.status, wc.status), wc.byte_len, imm])
        return out

    def state(self):
        return self.qp.query(e.IBV_QP_STATE)[0].qp_state


class Remote:
    """The same methods, called in the other process."""

    def __init__(self, host, port):
        self.file = socket.create_connection((host, port), 10).makefile('rw')

    def __getattr__(self, name):
        def call(*args, **more):
            self.file.write(json.dumps([name, args, more]) + '\n')
            self.file.flush()
            answer = json.loads(self.file.readline() or '{"error": "the other end is gone"}')
            if 'error' in answer:
                raise RuntimeError(f'{name} at the other end: {answer["error"]}')
            return answer['result']
        return call


def serve(end, port):
    listening = socket.create_server(('::', port), family=socket.AF_INET6, dualstack_ipv6=True)
    file = listening.accept()[0].makefile('rw')
    for line in file:
        name, args, more = json.loads(line)
        try:
            answer = {'result': getattr(end, name)(*args, **more)}
        except Exception as why:            # the other end reports it
            answer = {'error': repr(why)}
        file.write(json.dumps(answer) + '\n')
        file.flush()


class Wrong(Exception):
    pass


def expect(what, found, *wanted):
    if found not in wanted:
        raise Wrong(f'{what}: {found}, expected {" or ".join(map(str, wanted))}')


class Run:
    """The operations from one end to the other, and their results as TAP."""

    def __init__(self, ends, mtu):
        self.ends, self.mtu, self.failed, self.number = ends, mtu, 0, 0
        self.about = {id(end): end.about() for end in ends}

    def info(self, end):
        return self.about[id(end)]

    def case(self, name, function, *args, **more):
        self.number += 1
        try:
            function(*args, **more)
            print(f'ok {self.number} - {name}', flush=True)
        except (Wrong, RuntimeError) as why:
            self.failed += 1
            print(f'not ok {self.number} - {name}\n# {why}', flush=True)

    def pair(self, kind, a, b, psn_a=0x100, psn_b=0xfffffe, **more):
        """Fresh connected QPs; b's PSN wraps after two packets."""
        qa, qb = a.create(kind), b.create(kind)
        a.connect(kind, self.info(b)['gid'], qb, psn_a, psn_b, **more)
        b.connect(kind, self.info(a)['gid'], qa, psn_b, psn_a, **more)

    def good(self, a, b, op, size, kind='RC', imm=None):
        """One operation of @a that must succeed, with its data at both ends."""
        grh = 40 if kind == 'UD' else 0
        target = self.info(b)
        receives = op in ('SEND', 'SEND_IMM', 'WRITE_IMM', 'SEND_INV')
        source, sink = (b, a) if op == 'READ' else (a, b)
        source.write(0, size, size)
        sink.write(0 if 'WRITE' in op or op == 'READ' else IN + grh, size + 99, size + 8)
        if receives:
            b.recv(1 if 'WRITE' in op else max(size, 1) + grh)
        rdma = {} if 'SEND' in op else {'address': target['address'], 'rkey': target['rkey']}
        expect('ibv_post_send', a.send(op, size, imm=imm, **rdma), '')
        done = a.poll()
        expect('completion', [c[0] for c in done], ['SUCCESS'])
        if receives:
            got = b.poll()
            expect('receive', got, [['SUCCESS', size + grh, imm]])
        where = IN + grh if 'SEND' in op else 0
        until = time.monotonic() + 10
        while op == 'WRITE' and kind == 'UC' and not sink.matches(where, size, size) and time.monotonic() < until:
            time.sleep(0.001)       # a UC WRITE completes when it has left
        expect('data', sink.matches(where, size, size), True)
        expect('bytes behind untouched', sink.matches(where, size + 99, size + 8, size), True)

    def data(self, a, b, way):
        sizes = [0, 1, 2, 3, 4, 5, self.mtu - 1, self.mtu, self.mtu + 1, 3 * self.mtu + 2]
        for kind in ('RC', 'UC'):
            self.pair(kind, a, b)
            for op in ('SEND', 'WRITE', 'READ')[:3 if kind == 'RC' else 2]:
                for size in sizes:
                    self.case(f'{way} {kind} {op} {size}', self.good, a, b, op, size, kind)
            for op in ('SEND_IMM', 'WRITE_IMM'):
                for size in (0, 3, self.mtu + 1):
                    self.case(f'{way} {kind} {op} {size}', self.good, a, b, op, size, kind,
                              imm=0x01020304)
        self.pair('UD', a, b)
        for size in sizes[:8]:
            self.case(f'{way} UD SEND {size}', self.good, a, b, 'SEND', size, 'UD')
        self.case(f'{way} UD SEND_IMM 3', self.good, a, b, 'SEND_IMM', 3, 'UD', imm=0x0a0b0c0d)
        self.case(f'{way} UD SEND with a wrong Q_Key is dropped', self.wrong_qkey, a, b)

    def wrong_qkey(self, a, b):
        b.recv(64)
        a.send('SEND', 4, qkey=QKEY + 0x111)
        expect('completion', a.poll(), [['SUCCESS', 4, None]], [['SUCCESS', 0, None]])
        expect('receive', b.poll(1, 0.3), [])

    def atomics(self, a, b):
        self.pair('RC', a, b)
        target = {'address': self.info(b)['address'] + 64, 'rkey': self.info(b)['rkey']}
        b.put(64, 1000)
        for op, add, swap, after in (('FETCH_ADD', 5, 0, 1005), ('CMP_SWAP', 1005, 77, 77),
                                     ('CMP_SWAP', 1, 2, 77), ('FETCH_ADD', 2**64 - 1, 0, 76)):
            before = b.get(64)
            expect(op, a.send(op, 8, add=add, swap=swap, **target), '')
            expect('completion', [c[0] for c in a.poll()], ['SUCCESS'])
            expect(f'{op} returns', a.get(0), before)
            expect(f'{op} leaves', b.get(64), after)

    def at_once(self, a, b):
        """More in flight than one acknowledgement each; READs among them."""
        self.pair('RC', a, b)
        target = {'address': self.info(b)['address'], 'rkey': self.info(b)['rkey']}
        b.recv(5000, 20)
        for i in range(20):
            expect('post', a.send('SEND', 200 * i), '')
            if i % 7 == 0:
                expect('post', a.send('READ', 2000, **target), '')
        expect('completions', [c[0] for c in a.poll(23)], ['SUCCESS'] * 23)
        expect('receives', [c[:2] for c in b.poll(20)], [['SUCCESS', 200 * i] for i in range(20)])

    def send_inv(self, a, b):
        self.pair('RC', a, b)
        key = b.bind(4096)
        expect('bind', [c[0] for c in b.poll()], ['SUCCESS'])
        address = self.info(b)['address']
        expect('WRITE', a.send('WRITE', 8, address=address, rkey=key), '')
        expect('through the window', [c[0] for c in a.poll()], ['SUCCESS'])
        b.recv(8)
        expect('SEND_INV', a.send('SEND_INV', 4, imm=key), '')
        expect('SEND_INV', [c[0] for c in a.poll()], ['SUCCESS'])
        expect('receive', [c[0] for c in b.poll()], ['SUCCESS'])
        expect('WRITE', a.send('WRITE', 8, address=address, rkey=key), '')
        expect('through the dead window', [c[0] for c in a.poll()], ['REM_ACCESS_ERR'])

    def refused(self, a, b, op, status, recv=None, recv_status=None, size=8, **more):
        """The request fails with this status and both ends' QPs with it."""
        self.pair('RC', a, b)
        target = self.info(b)
        if recv:
            b.recv(recv)
        more.setdefault('rkey', target['rkey'])
        more['address'] = target['address'] + more.pop('offset', 0)
        if op == 'SEND':
            more = {}
        refusal = a.send(op, size, **more)
        if refusal and self.info(a)['rxe'] and 'FETCH' in op:
            return                          # rxe refuses an unaligned atomic itself
        expect('ibv_post_send', refusal, '')
        expect('completion', [c[0] for c in a.poll()], *[[s] for s in status])
        expect('state', a.state(), e.IBV_QPS_ERR)
        if recv:
            expect('receive', [c[0] for c in b.poll()], *[[s] for s in recv_status])

    def rnr(self, a, b):
        self.pair('RC', a, b, rnr_retry=1)
        a.send('SEND', 4)
        expect('completion', [c[0] for c in a.poll()], ['RNR_RETRY_EXC_ERR'])

    def rnr_late(self, a, b):
        self.pair('RC', a, b)
        a.send('SEND', 4)
        time.sleep(0.05)
        b.recv(4)
        expect('completion', [c[0] for c in a.poll()], ['SUCCESS'])
        expect('receive', [c[0] for c in b.poll()], ['SUCCESS'])

    def gone(self, a, b):
        self.pair('RC', a, b, retry=2, timeout=12)
        b.close_qp()
        a.send('SEND', 4)
        expect('completion', [c[0] for c in a.poll()], ['RETRY_EXC_ERR'])

    def refusals(self, a, b, way):
        rxe = self.info(b)['rxe']
        access, invalid = ['REM_ACCESS_ERR'], ['REM_INV_REQ_ERR']
        for op in ('WRITE', 'READ', 'FETCH_ADD'):
            self.case(f'{way} {op} with a bad rkey', self.refused, a, b, op, access, rkey=0xdeadbe)
        for op in ('WRITE', 'READ'):
            self.case(f'{way} {op} past the end', self.refused, a, b, op, access, offset=LEN - 4)
        self.case(f'{way} unaligned atomic', self.refused, a, b, 'FETCH_ADD', invalid, offset=4)
        # rxe of 6.1 answers with an operation error where the specification says invalid request
        self.case(f'{way} SEND longer than its receive', self.refused, a, b, 'SEND',
                  ['REM_OP_ERR'] if rxe else invalid, recv=4, size=64,
                  recv_status=['LOC_QP_OP_ERR'] if rxe else ['LOC_LEN_ERR'])
        self.case(f'{way} SEND without receive, retries exhausted', self.rnr, a, b)
        self.case(f'{way} SEND before its receive', self.rnr_late, a, b)
        self.case(f'{way} SEND to a destroyed QP', self.gone, a, b)

    def all(self):
        for a, b in (self.ends, self.ends[::-1]):
            way = 'out:' if a is self.ends[0] else 'in:'
            self.data(a, b, way)
            self.case(f'{way} atomics', self.atomics, a, b)
            self.case(f'{way} many at once', self.at_once, a, b)
            self.case(f'{way} SEND_INV', self.send_inv, a, b)
            self.refusals(a, b, way)
        print(f'1..{self.number}')
        return 1 if self.failed else 0


def main():
    device, gid_index, mtu, port = sys.argv[1], *map(int, sys.argv[2:5])
    end = End(device, gid_index, mtu)
    if len(sys.argv) <= 5:
        serve(end, port)
        return 0
    return Run([end, Remote(sys.argv[5], port)], mtu).all()


if __name__ == '__main__':
    sys.exit(main())
