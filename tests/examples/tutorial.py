#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause
"""The programs of docs/tutorial are compiled as a reader would compile them, without a warning, run, and
print what their page says; digits and GUIDs aside. The pictures are made of the same programs in the
simulated world, the same to the byte, and have the packets and calls of a run. Prints TAP.

	tutorial.py --pictures		makes the pictures anew, with build/ (make pictures)
"""
import concurrent.futures
import os
import re
import subprocess
import sys

ROOT = os.environ.get('TEST_ROOT') or os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
PAGES = os.path.join(ROOT, 'docs', 'tutorial')
PROGRAMS = os.path.join(ROOT, 'examples', 'tutorial')
VERBATIM = os.path.join(os.environ.get('TEST_BIN') or os.path.join(ROOT, 'build', 'bin'), 'verbatim')
SIMULATED = os.path.join(os.environ.get('TEST_BUILD') or os.path.join(ROOT, 'build'), 'meson', 'tools', 'tutorial',
                         'tutorial-pictures')
# Whether somebody sleeps or sends again differs from run to run; echoes (CNP) are between Verbatims alone.
UNSTEADY = ('explain', 'lost', 'drop', 'ibv_get_cq_event', 'ibv_req_notify_cq', 'CNP')
# Calls that return the errno instead of setting it: perror() and strerror(errno) would print another one.
RETURNS_ERRNO = (r'[(|] ?ibv_(modify_qp|query_(qp|device|port)|dereg_mr|dealloc_pd|destroy_\w+|req_notify_cq|'
                 r'post_\w+)\(')
SECTIONS = ['Output', 'What happens', 'On the wire', 'Exercises', 'Solutions']
number = 0


def check(name, problem):
    global number
    number += 1
    print('%sok %d - %s' % ('not ' if problem else '', number, name), flush=True)
    for line in problem.strip().split('\n') if problem else []:
        print('# ' + line, flush=True)
    return not problem


def text_of(*path):
    with open(os.path.join(*path), encoding='utf-8') as file:
        return file.read()


def shape(text):
    """A page's output and a program's differ in names of numbers only."""
    text = re.sub(r'0x[0-9a-f]+|\b[0-9a-f]{16}\b', 'N', text)
    return [re.sub(r'\d+', 'N', line).rstrip() for line in text.strip().split('\n')]


def without_gids(lines):
    return [line for line in lines if not line.startswith('  GID')]


def gids(text):
    """Those that lo has everywhere, as they are: further addresses differ from machine to machine."""
    return re.findall(r'^  GID [01]: .*$', text, re.M)


def build(source, program):
    libraries = ['-lrdmacm', '-libverbs', '-lpthread']
    run = subprocess.run(['gcc', '-Wall', '-Wextra', '-Werror', source, '-o', program] + libraries,
                         capture_output=True, text=True)
    return run.stderr if run.returncode else ''


def run(program):
    """Its output; or raises with what went wrong. On lo alone, as the pages have it."""
    done = subprocess.run([VERBATIM, 'run', program], capture_output=True, text=True, timeout=300,
                          env=dict(os.environ, VERBATIM_DEVICES='lo'))
    if done.returncode:
        raise RuntimeError('status %d\n%s%s' % (done.returncode, done.stdout, done.stderr))
    return done.stdout


def differences(page, program):
    expected = re.search(r'```output\n(.*?)```', text_of(PAGES, page), re.S)
    if not expected:
        return 'the page has no output'
    try:
        printed = run(program)
    except (RuntimeError, subprocess.TimeoutExpired) as failure:
        return str(failure)
    wanted, found = without_gids(shape(expected.group(1))), without_gids(shape(printed))
    wanted, found = wanted + gids(expected.group(1)), found + gids(printed)
    return '' if wanted == found else 'expected:\n%s\nfound:\n%s' % (
        '\n'.join(wanted), '\n'.join(found))


def draw(tell, title, picture):
    """What the command @tell leaves in the file TRACE, as a picture. What went wrong, or nothing."""
    trace = picture + '.pcapng'
    for command in ([trace if word == 'TRACE' else word for word in tell],
                    [VERBATIM, 'ladder', trace, '-o', picture, '--title', title]):
        done = subprocess.run(command, capture_output=True, text=True, timeout=300,
                              env=dict(os.environ, VERBATIM_DEVICES='lo', VERBATIM_MEMORY='off'))
        if done.returncode:
            return ' '.join(command) + '\n' + done.stdout + done.stderr
    os.unlink(trace)
    return ''


def labels(picture):
    """What a picture says of packets and calls, without numbers: how often, differs from run to run."""
    texts = re.findall(r'<text class="(?:p|e)"[^>]*>(?:<title>.*?</title>)?([^<]*)</text>', text_of(picture))
    return {re.sub(r'\d+', 'N', re.sub(r', (again|dropped|lost)\b', '', text)) for text in texts
            if not text.startswith(UNSTEADY)}


def name_of(page):
    return page[:-3] + '.svg'


def has_picture(page):
    """Step 1 opens nothing: it has none."""
    return bool(re.search(r'!\[.*\]\(pictures/%s\)' % name_of(page), text_of(PAGES, page)))


def simulated(page, picture):
    step = page[:-3].replace('-', '_')
    return draw([SIMULATED, step, 'TRACE'], page[:-3], picture)


def picture_changes(page, scratch):
    """Made twice, each time beside a busy processor: what is in the tree, to the byte."""
    drawn = os.path.join(scratch, 'simulated.svg')
    busy = subprocess.Popen(['bash', '-c', 'while [ $SECONDS -lt 20 ]; do :; done'])
    try:
        for _ in range(2):
            wrong = simulated(page, drawn)
            if wrong:
                return wrong
            if text_of(drawn) != text_of(PAGES, 'pictures', name_of(page)):
                return 'another picture is made than stands in the tree: make pictures, and look at the difference'
    finally:
        busy.terminate()
        busy.wait()
    return ''


def picture_differs(page, program, scratch):
    name = name_of(page)
    drawn = os.path.join(scratch, name)
    wrong = draw([VERBATIM, 'trace', '-o', 'TRACE', '--', program], page[:-3], drawn)
    if wrong:
        return wrong
    wanted, found = labels(os.path.join(PAGES, 'pictures', name)), labels(drawn)
    return '\n'.join(['only in the page: ' + text for text in sorted(wanted - found)] +
                     ['only in a run: ' + text for text in sorted(found - wanted)])


def make_pictures():
    for step in steps()[1:]:
        page = step.replace('_', '-') + '.md'
        wrong = simulated(page, os.path.join(PAGES, 'pictures', name_of(page)))
        if wrong:
            return wrong
    return 0


def lost_errnos(source):
    """Calls in must() whose errno is not kept for the message."""
    return [match.group(0) for call in re.findall(r'must(\(.*?), *\s*"', source, re.S)
            for match in re.finditer(RETURNS_ERRNO, call)]


def commands(page):
    """What a reader of @page types, in its order, but for the compilation of Verbatim itself."""
    text = re.sub(r'^```.*?^```$', '', text_of(PAGES, page), flags=re.S | re.M)
    found = re.findall(r'^    (.+)|`(?:build/bin/)?(verbatim (?:explain|trace) [^`]*)`', text, re.M)
    typed = [line if line else 'build/bin/' + word for line, word in found]
    typed = [re.sub(r' PROGRAM$', ' build/08_data', re.sub(r' (WORD|STATUS)$', ' RNR', line)) for line in typed]
    return [line for line in typed if re.match(r'build/bin/|gcc |for |export ', line)]


def commands_fail(pages, directory):
    """In a directory like the tree after `make lib`: README.md compiles the programs, the pages run them."""
    os.makedirs(os.path.join(directory, 'build'))
    os.symlink(os.path.dirname(VERBATIM), os.path.join(directory, 'build', 'bin'))
    os.symlink(os.path.join(ROOT, 'examples'), os.path.join(directory, 'examples'))
    typed = [line for page in pages for line in commands(page)]
    if len(typed) < 20:
        return 'only %d commands are found' % len(typed)
    done = subprocess.run(['bash', '-c', 'set -ex\n' + '\n'.join(typed)], cwd=directory, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, text=True, timeout=300)
    return '\n'.join(done.stdout.split('\n')[-20:]) if done.returncode else ''


def subnet_commands(folder):
    """What a reader of the page about subnets types, packages and compilation aside."""
    typed = re.findall(r'^    (.+)', text_of(os.path.dirname(PAGES), folder, 'subnet.md'), re.M)
    return [line for line in typed if not line.startswith(('sudo apt ', 'make lib'))]


def subnet_packets(folder):
    """The packets that the page shows: (interface, what it is), without their numbers."""
    page = text_of(os.path.dirname(PAGES), folder, 'subnet.md')
    fences = re.findall(r'^```\n(.*?)^```$', page, re.S | re.M)
    return [[tuple(row) for row in re.findall(r'^\d+ +(\S+ > \S+) +(\S+)$', fence, re.M)] for fence in fences]


def follow(rows, found):
    """Are the rows among those found, in their order?"""
    rest = iter(found)
    return all(row in rest for row in rows)


def subnet_differs(folder, directory):
    """The page's commands, by an ordinary user; its packets are among those of the trace."""
    os.makedirs(os.path.join(directory, 'build'))
    os.symlink(os.path.dirname(VERBATIM), os.path.join(directory, 'build', 'bin'))
    environment = dict(os.environ, TMPDIR=directory, HOME=directory, VERBATIM_CONFIG='', LC_ALL='C',
                       PATH=os.environ['PATH'] + ':/usr/sbin:/sbin')
    environment.pop('XDG_RUNTIME_DIR', None)
    said = {}
    for line in subnet_commands(folder):
        done = subprocess.run(['bash', '-c', line], cwd=directory, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                              stdin=subprocess.DEVNULL, text=True, timeout=120, env=environment)
        if done.returncode:
            return '%s: status %d\n%s%s' % (line, done.returncode, done.stdout[-2000:], done.stderr[-2000:])
        said[line] = done.stdout
    up = [text for line, text in said.items() if 'verbatim fabric' in line]
    if len(up) != 1 or 'subnet up' not in up[0] or 'Active/' not in up[0]:
        return 'the subnet did not come up: %s' % up
    shown = [text for line, text in said.items() if 'frame.interface_name' in line]
    lines = shown[0].replace("UD Send Only QP=0x000000 ", "").splitlines()
    packets = [tuple(line.split("\t")[1:3]) for line in lines]
    wanted = subnet_packets(folder)
    if len(wanted) < 4 or not all(wanted):
        return 'the page shows no packets: %s' % wanted
    missing = [rows for rows in wanted if not follow(rows, packets)]
    if missing:
        return 'not among the %d packets of the trace, in this order: %s' % (len(packets), missing[0])
    if not 90 <= len(packets) <= 120:
        return 'the page says about 100 packets: there are %d' % len(packets)
    empty = [line for line, text in said.items() if line.startswith('tshark') and not text.strip()]
    return 'nothing is shown by ' + empty[0] if empty else ''


FABRIC_PAGES = ('manager', 'cable', 'partitions')


def fabric_page_differs(page, directory):
    """Its commands as one script, as a reader would type them into one shell; what it shows is among
    what they say, in this order, numbers aside. (The Chinese page's are the same: tests/docs/run.)"""
    os.makedirs(os.path.join(directory, 'build'))
    os.symlink(os.path.dirname(VERBATIM), os.path.join(directory, 'build', 'bin'))
    environment = dict(os.environ, TMPDIR=directory, HOME=directory, VERBATIM_CONFIG='', LC_ALL='C',
                       PATH=os.environ['PATH'] + ':/usr/sbin:/sbin')
    environment.pop('XDG_RUNTIME_DIR', None)
    text = text_of(PAGES, page + '.md')
    fences = re.findall(r'^```output\n(.*?)^```$', text, re.S | re.M)
    plain = re.sub(r'^```.*?^```$', '', text, flags=re.S | re.M)
    typed = [line for line in re.findall(r'^    (.+)', plain, re.M)
             if not line.startswith(('sudo apt ', 'make lib'))]
    script = 'set -em\ntrap "kill \\$(jobs -p) 2>/dev/null || :" EXIT\n' + '\n'.join(typed)
    done = subprocess.run(['bash', '-c', script], cwd=directory, stdout=subprocess.PIPE, timeout=90,
                          stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, text=True, env=environment)
    found = [line.strip() for line in shape(done.stdout)]
    wanted = [line.strip() for fence in fences for line in shape(fence)]
    if done.returncode or len(fences) < 3:
        return 'status %d\n%s' % (done.returncode, done.stdout[-3000:])
    rest = iter(found)
    missing = [row for row in wanted if not any(row in line for line in rest)]
    return 'not said, or not in this order: %s\n%s' % (missing[0], done.stdout[-6000:]) if missing else ''


def steps():
    return sorted(name[:-2] for name in os.listdir(PROGRAMS) if re.match(r'\d\d_.*\.c$', name))


def headings(page):
    return re.findall(r'^## (.*)$', text_of(PAGES, page), re.M)


def main():
    scratch = os.environ['TEST_TMP']
    check('the tutorial has twelve steps, and six for later', '' if len(steps()) == 18 else str(steps()))
    for step in steps():
        source, page = os.path.join(PROGRAMS, step + '.c'), step.replace('_', '-') + '.md'
        lines = text_of(source).count('\n')
        check('%s has at most 80 lines' % step, '' if lines <= 80 else '%d lines' % lines)
        check('%s prints the errno of the call that failed' % step, ' '.join(lost_errnos(text_of(source))))
        check('%s has the sections of every step' % page,
              '' if headings(page) == SECTIONS else str(headings(page)))
        program = os.path.join(scratch, step)
        if check('%s compiles without a warning' % step, build(source, program)):
            check('%s prints what its page says' % step, differences(page, program))
            if has_picture(page):
                check('the picture of %s is the same whenever it is made' % step, picture_changes(page, scratch))
                check('the picture of %s shows what happens in a run' % step,
                      picture_differs(page, program, scratch))
            else:
                check('%s has a picture' % page, '' if step.startswith('01') else 'it has none')
    check('every command of the pages runs',
          commands_fail(['README.md'] + [step.replace('_', '-') + '.md' for step in steps()],
                        os.path.join(scratch, 'tree')))
    for folder in ('tutorial', 'tutorial.zh'):
        check('the commands of %s/subnet.md run, and show its packets' % folder,
              subnet_differs(folder, os.path.join(scratch, 'subnet-' + folder)))
    if os.environ.get('TEST_LONG'):
        with concurrent.futures.ThreadPoolExecutor() as pool:       # mostly they wait
            jobs = {page: pool.submit(fabric_page_differs, page, os.path.join(scratch, 'page-' + page))
                    for page in FABRIC_PAGES}
            for page, job in jobs.items():
                check('the commands of %s.md run, and say what it shows' % page, job.result())
    program = os.path.join(scratch, 'solution_counter')
    if check('solution_counter compiles without a warning',
             build(os.path.join(PROGRAMS, 'solution_counter.c'), program)):
        try:
            found = run(program)
        except (RuntimeError, subprocess.TimeoutExpired) as failure:
            found = str(failure)
        check('solution_counter counts every addition',
              '' if found == '3 clients added to 3000\n' else found)
    print('1..%d' % number)


if __name__ == '__main__':
    sys.exit(make_pictures() if sys.argv[1:] == ['--pictures'] else main())
