#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause
"""Pages of large traces:  bench/ladder_page.py [--packets N] [--tries N] [--then VERBATIM]

What `verbatim ladder` makes of a trace (tests/ladder/large.py), packed, and with --plain; and with --then what
another build of it makes, as that of commit aefa6e2, whose pages were the first: bytes, the seconds that it
takes, and those until Chromium, if it is there, has drawn it, by the clock and of processors (of all processes
of the browser). Forms take turns; the fastest of all tries counts, as other programs take turns, too. The last
column is the ratio of the first form to the last one."""
import argparse
import glob
import os
import subprocess
import sys
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
VERBATIM = os.path.join(os.environ.get('TEST_BIN', os.path.join(ROOT, 'build', 'bin')), 'verbatim')


def processor_seconds(root):
    """Of a process and all below it, those that ended and were waited for included."""
    children, used = {}, {}
    for path in glob.glob('/proc/[0-9]*/stat'):
        try:
            with open(path, encoding='ascii', errors='replace') as file:
                fields = file.read().rsplit(')', 1)[1].split()
        except OSError:                                     # it has just ended
            continue
        process = int(path.split('/')[2])
        children.setdefault(int(fields[1]), []).append(process)
        used[process] = sum(map(int, fields[11:15]))
    below, total = [root], 0
    for process in below:                                   # which grows
        total += used.get(process, 0)
        below += children.get(process, [])
    return total / os.sysconf('SC_CLK_TCK')


def make(verbatim, trace, page, *options):
    begin = time.monotonic()
    subprocess.run([verbatim, 'ladder', trace, '-o', page, *options], check=True, stdout=subprocess.DEVNULL)
    return time.monotonic() - begin


def opener(profile):
    """None: there is no Chromium to drive."""
    sys.path.insert(0, os.path.join(ROOT, 'tests', 'ladder'))
    try:
        import browser
        return browser.Browser(profile)
    except Exception as error:                              # of whichever part that is missing
        print('not opened: %s' % str(error).split('\n', maxsplit=1)[0])
        return None


def opened(browser, page):
    """Seconds by the clock, and of processors."""
    browser.driver.get('about:blank')
    root = browser.driver.service.process.pid
    used, begin = processor_seconds(root), time.monotonic()
    browser.open(page)
    return time.monotonic() - begin, processor_seconds(root) - used


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument('--packets', type=int, default=25000)
    parser.add_argument('--tries', type=int, default=9)
    parser.add_argument('--then', metavar='VERBATIM')
    arguments = parser.parse_args()
    forms = {'packed': (VERBATIM,), 'plain': (VERBATIM, '--plain')}
    if arguments.then:
        forms['then'] = (arguments.then,)
    with tempfile.TemporaryDirectory(prefix='ladder-bench-') as folder:
        trace = os.path.join(folder, 'trace.pcapng')
        subprocess.run([os.path.join(ROOT, 'tests', 'ladder', 'large.py'), trace, str(arguments.packets)],
                       check=True)
        pages = {form: os.path.join(folder, form + '.html') for form in forms}
        made = {form: [] for form in forms}
        shown = {form: [] for form in forms}
        for _ in range(arguments.tries):
            for form, (verbatim, *options) in forms.items():
                made[form].append(make(verbatim, trace, pages[form], *options))
        rows = [('bytes of the page', {form: os.path.getsize(page) / 1e6 for form, page in pages.items()}, 'MB'),
                ('verbatim ladder', {form: min(times) for form, times in made.items()}, 's')]
        browser = opener(os.path.join(folder, 'profile'))
        if browser:
            try:
                for _ in range(arguments.tries):
                    for form, page in pages.items():
                        shown[form].append(opened(browser, page))
            finally:
                browser.driver.quit()
            for at, name in enumerate(('opened and drawn by Chromium', 'of processors')):
                rows.append((name, {form: min(one[at] for one in times) for form, times in shown.items()}, 's'))
            rows.append(('made and opened', {form: rows[1][1][form] + rows[2][1][form] for form in forms}, 's'))
        print('%d packets, a trace of %.1f MB; the fastest of %d; load %.1f' % (
            arguments.packets, os.path.getsize(trace) / 1e6, arguments.tries, os.getloadavg()[0]))
        print('%-30s' % '' + ''.join('%12s' % form for form in forms) + '%10s' % 'ratio')
        for name, values, unit in rows:
            print('%-30s' % name + ''.join('%9.2f %-2s' % (values[form], unit) for form in forms) +
                  '%10.2f' % (values['packed'] / list(values.values())[-1]))


if __name__ == '__main__':
    main()
