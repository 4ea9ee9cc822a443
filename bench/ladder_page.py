#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause
"""Pages of large traces:  bench/ladder_page.py [PACKETS]

What `verbatim ladder` makes of a trace (tests/ladder/large.py), and with --plain, which has the data as all
pages had it at first: bytes, the seconds that it takes, and those until Chromium, if it is there, has drawn
it; and the ratios. The scripts of both are today's: with those of then (commit aefa6e2) the plain page was
drawn in 1.4 s where these need 0.9 s, and the packed one 0.4 to 0.6 s."""
import os
import subprocess
import sys
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
VERBATIM = os.path.join(os.environ.get('TEST_BIN', os.path.join(ROOT, 'build', 'bin')), 'verbatim')
TRIES = 5


def make(trace, page, *options):
    begin = time.monotonic()
    subprocess.run([VERBATIM, 'ladder', trace, '-o', page, *options], check=True, stdout=subprocess.DEVNULL)
    return time.monotonic() - begin


def opener(profile):
    """None: there is no Chromium to drive."""
    sys.path.insert(0, os.path.join(ROOT, 'tests', 'ladder'))
    try:
        import browser
        return browser.Browser(profile)
    except Exception:                                       # of whichever part that is missing
        return None


def opened(browser, page):
    begin = time.monotonic()
    browser.open(page)
    return time.monotonic() - begin


def main():
    packets = int(sys.argv[1]) if len(sys.argv) > 1 else 25000
    with tempfile.TemporaryDirectory(prefix='ladder-bench-') as folder:
        trace = os.path.join(folder, 'trace.pcapng')
        subprocess.run([os.path.join(ROOT, 'tests', 'ladder', 'large.py'), trace, str(packets)], check=True)
        pages = {form: os.path.join(folder, form + '.html') for form in ('packed', 'plain')}
        options = {'packed': (), 'plain': ('--plain',)}
        made = {form: min(make(trace, pages[form], *options[form]) for _ in range(TRIES)) for form in pages}
        size = {form: os.path.getsize(page) for form, page in pages.items()}
        rows = [('bytes of the page', size['packed'] / 1e6, size['plain'] / 1e6, 'MB'),
                ('verbatim ladder', made['packed'], made['plain'], 's')]
        browser = opener(os.path.join(folder, 'profile'))
        if browser:
            try:
                shown = {form: min(opened(browser, page) for _ in range(TRIES)) for form, page in pages.items()}
            finally:
                browser.driver.quit()
            rows.append(('opened and drawn by Chromium', shown['packed'], shown['plain'], 's'))
            rows.append(('both', made['packed'] + shown['packed'], made['plain'] + shown['plain'], 's'))
        print('%d packets, a trace of %.1f MB; the fastest of %d' % (packets, os.path.getsize(trace) / 1e6, TRIES))
        print('%-30s %10s %10s %8s' % ('', 'packed', 'plain', 'ratio'))
        for name, packed, plain, unit in rows:
            print('%-30s %8.2f %-2s %7.2f %-2s %7.2f' % (name, packed, unit, plain, unit, packed / plain))


if __name__ == '__main__':
    main()
