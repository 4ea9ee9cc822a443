#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause
"""screenshot.py PAGE.html: Firefox shows the page, without a screen; its chart has been drawn by its scripts.

The picture is looked at where the chart is: lines, words and marks in several colours, on a ground. What the page
does when it is used, browser.py tests."""
import os
import struct
import subprocess
import sys
import tempfile
import zlib

WIDTH, HEIGHT = 1200, 900
CHART_Y = 420                   # below the tools, at this size


def rows_of(path):
    """The lines of a PNG of 8 bits a channel, as bytes, and the bytes of a pixel."""
    with open(path, 'rb') as file:
        data = file.read()
    assert data[:8] == b'\x89PNG\r\n\x1a\n', 'no PNG'
    at, packed = 8, b''
    while at < len(data):
        length, kind = struct.unpack_from('>I4s', data, at)
        chunk = data[at + 8:at + 8 + length]
        if kind == b'IHDR':
            width, height, depth, colour, _, _, interlaced = struct.unpack('>IIBBBBB', chunk)
            assert depth == 8 and colour in (2, 6) and not interlaced, 'a PNG of another kind'
        packed += chunk if kind == b'IDAT' else b''
        at += length + 12
    size = 3 if colour == 2 else 4
    raw, stride = zlib.decompress(packed), width * size
    rows, above = [], bytes(stride)
    for y in range(height):
        start = y * (stride + 1)
        above = unfilter(raw[start], raw[start + 1:start + 1 + stride], above, size)
        rows.append(above)
    return rows, size


def unfilter(kind, line, above, size):
    out = bytearray(line)
    for i, value in enumerate(line):
        left = out[i - size] if i >= size else 0
        up, corner = above[i], above[i - size] if i >= size else 0
        if kind == 1:
            value += left
        elif kind == 2:
            value += up
        elif kind == 3:
            value += (left + up) // 2
        elif kind == 4:
            value += min((abs(up - corner), 0, left), (abs(left - corner), 1, up),
                         (abs(left + up - 2 * corner), 2, corner))[2]
        out[i] = value & 255
    return bytes(out)


def count_drawn(rows, size):
    """Pixels of the chart that are not its ground, and their colours."""
    counts = {}
    for row in rows[CHART_Y:]:
        for i in range(0, len(row), size):
            pixel = row[i:i + 3]
            counts[pixel] = counts.get(pixel, 0) + 1
    ground = max(counts, key=counts.get)
    return sum(counts.values()) - counts[ground], len(counts)


def is_blue(pixel):
    return pixel[2] > 150 and pixel[0] < 90 and pixel[1] < 130


def shoot(page, picture, home):
    subprocess.run(['firefox-esr', '--headless', '--no-remote', '--profile', home,
                    '--window-size=%d,%d' % (WIDTH, HEIGHT), '--screenshot', picture,
                    'file://' + os.path.abspath(page)], env={**os.environ, 'HOME': home}, timeout=100, check=True,
                   stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def main():
    with tempfile.TemporaryDirectory(prefix='ladder-firefox-') as home:
        picture = os.path.join(home, 'page.png')
        shoot(sys.argv[1], picture, home)
        rows, size = rows_of(picture)
    drawn, colours = count_drawn(rows, size)
    blue = sum(is_blue(row[i:i + 3]) for row in rows[CHART_Y:] for i in range(0, len(row), size))
    print('%d pixels of the chart drawn in %d colours, %d of them blue' % (drawn, colours, blue))
    assert len(rows) == HEIGHT, 'a picture of %d lines' % len(rows)
    assert drawn > 3000 and colours > 30 and blue > 100, 'the chart is blank'


if __name__ == '__main__':
    main()
