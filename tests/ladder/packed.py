#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause
"""Is all of a large page there?  packed.py PACKED PLAIN

Both are of one trace, the second made with --plain: expands what the first has compressed, and compares."""
import base64
import json
import re
import sys
import zlib


def data_of(path):
    with open(path, encoding='utf-8') as file:
        page = file.read()
    return json.loads(re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.S)[1])


class Numbers:
    def __init__(self, pair):
        self.bytes, self.at = zlib.decompress(base64.b64decode(pair[1]), -15), 0
        assert len(self.bytes) == pair[0], 'a piece has %d bytes and not %d' % (len(self.bytes), pair[0])

    def next(self):
        value = shift = 0
        while True:
            byte = self.bytes[self.at]
            self.at += 1
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value

    def column(self, count):
        before, column = 0, []
        for _ in range(count):
            digits = self.next()
            before += -(digits + 1) // 2 if digits & 1 else digits // 2
            column.append(before)
        return column

    def steps(self, count, before):
        """Items of moments, which are steps in three lists."""
        items, before = [], list(before)
        for _ in range(count):
            digits = self.next()
            step, which = digits >> 2, digits & 3
            before[which] += -(step + 1) // 2 if step & 1 else step // 2
            items.append(before[which] * 2 + (which == 1))
        return items

    def text(self):
        length = self.next()
        self.at += max(length - 1, 0)
        return None if not length else self.bytes[self.at - length + 1:self.at].decode('utf-8', 'replace')


def column(packed, count):
    if isinstance(packed, int):
        return [packed] * count
    if isinstance(packed, dict):
        return list(Numbers(packed['bytes']).bytes)
    return Numbers(packed).column(count)


def main():
    packed, plain = data_of(sys.argv[1]), data_of(sys.argv[2])
    pack, count = packed['pack'], packed['pack']['packets']
    assert count == len(plain['packet']['sent']) and pack['events'] == len(plain['event'])
    assert set(pack['packet']) == set(plain['packet']), 'columns'
    for name, values in pack['packet'].items():
        assert column(values, count) == plain['packet'][name], 'column ' + name
    events = {name: column(values, pack['events']) for name, values in pack['event'].items()}
    for name, at in (('time', 0), ('lane', 1), ('latency', 3), ('kind', 4), ('failed', 5)):
        assert events[name] == [event[at] for event in plain['event']], name + ' of events'
    moments = Numbers(pack['moment'])
    assert moments.steps(pack['moments'], (-1, -1, count - 1)) == plain['moment'], 'moments'
    times = moments.column(pack['moments'])
    assert times == sorted(times) and len(times) == len(set(plain['moment'])), 'times of moments'
    assert packed['fold'] == plain['fold'] and packed['lane_order'] == plain['lane_order'], 'order'
    texts = [numbers.text() for numbers in map(Numbers, pack['text']) for _ in range(pack['piece'])
             if numbers.at < len(numbers.bytes)]
    assert texts == [event[2] for event in plain['event']], 'texts of events'
    comments = [[numbers.text(), numbers.text()] for numbers in map(Numbers, pack['comment'])
                for _ in range(pack['piece']) if numbers.at < len(numbers.bytes)]
    for item, pair in enumerate(comments):
        assert pair == plain['comment'].get(str(item), [None, None]), 'comments of %d' % item
    assert b''.join(Numbers(pair).bytes for pair in pack['raw']) == base64.b64decode(plain['raw']), 'bytes'
    kinds = {10: 'call', 11: 'completion'}
    for kind, text in zip(events['kind'], texts):
        assert kinds.get(kind, json.loads(text)['event']) == json.loads(text)['event'], text


if __name__ == '__main__':
    main()
