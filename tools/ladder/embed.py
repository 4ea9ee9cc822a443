#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause
"""The pages of `verbatim ladder` as tables for C:  embed.py page.html index.html page.css SCRIPT.js...

Style and scripts go into a page at <!--STYLE--> and <!--SCRIPT-->; at <!--DATA--> it is cut in two."""
import sys


def c_bytes(name, text):
    data = text.encode()
    print('const char %s[] = {' % name)
    for at in range(0, len(data), 24):
        print('\t' + ','.join(str(b) for b in data[at:at + 24]) + ',')
    print('};\nconst size_t %s_bytes = sizeof(%s);' % (name, name))


def c_page(name, page, style, scripts):
    page = page.replace('<!--STYLE-->', style).replace('<!--SCRIPT-->', scripts)
    begin, end = page.split('<!--DATA-->')
    c_bytes(name + '_begin', begin)
    c_bytes(name + '_end', end)


def main():
    page, index, style, *scripts = [open(path, encoding='ascii').read() for path in sys.argv[1:]]
    if any('</script' in s or '<!--' in s for s in scripts) or '</style' in style:
        sys.exit('embed.py: a script or style would end its element')
    print('/* Made by tools/ladder/embed.py. */\n#include "ladder_template.h"\n')
    c_page('ladder_template', page, style, '\n'.join(scripts))
    c_page('ladder_index', index, style, '')


if __name__ == '__main__':
    main()
